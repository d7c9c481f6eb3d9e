//! A run that compares the shipped configuration with others, so that a measurement supports each default.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use bulk_reshuffle_bench::tables::{spread, table as columns};
use bulk_reshuffle_stack::Tools;
use comfy_table::Table;
use serde::Serialize;

use crate::bench::{Bench, exit_code};
use crate::conditions::Conditions;
use crate::documents::Ids;
use crate::measurement::Measurement;
use crate::metric::Metric;
use crate::options::Options;
use crate::report;
use crate::results::Results;
use crate::summary::Summary;
use crate::target::Target;
use crate::workload;

/// The quantities that are compared for each workload.
const METRICS: [Metric; 5] =
    [Metric::Throughput, Metric::P50, Metric::P99, Metric::ClusterCpu, Metric::RequestsPerBatch];

/// A measurement as it is written.
#[derive(Serialize)]
struct Line<'a> {
    variant: Variant,
    #[serde(flatten)]
    measured: &'a Measurement,
}

/// Compares the variants one after the other.
pub async fn run(options: &Options) -> Result<ExitCode> {
    let tools = Tools::find()?;
    let first = Variant::ALL.first().map_or_else(|| Ok(options.clone()), |variant| variant.options(options))?;
    let mut bench = Bench::start(&tools, first.clone()).await?;
    let mut results = Results::create(&first, &bench.conditions, "-settings")?;
    bench.warm_up().await?;
    let mut all = Vec::new();
    for (number, variant) in Variant::ALL.iter().enumerate() {
        eprintln!("{} of {}: {}", number + 1, Variant::ALL.len(), variant.title());
        bench.options = variant.options(options)?;
        bench.site.restart_filter(&tools, &bench.options).await?;
        let mut measurements = Vec::new();
        for workload in &options.workloads {
            measurements.extend(bench.measure(*workload).await?);
        }
        for measured in &measurements {
            results.add(&Line { variant: *variant, measured })?;
        }
        all.push((*variant, measurements));
    }
    let Bench { site, conditions, .. } = bench;
    site.stop().await?;
    results.write_report(&whole(&first, &conditions, &all)?)?;
    println!("{}\n\nreport and raw numbers: {}", table(options, &all), results.folder().display());
    let measurements: Vec<_> = all.into_iter().flat_map(|(_, measurements)| measurements).collect();
    Ok(exit_code(options, &measurements))
}

fn whole(options: &Options, conditions: &Conditions, all: &[(Variant, Vec<Measurement>)]) -> Result<String> {
    let mut text = String::new();
    let measurements: Vec<_> = all.iter().flat_map(|(_, measurements)| measurements.clone()).collect();
    writeln!(text, "# Settings, {}, {}\n", conditions.date, conditions.machine.title())?;
    writeln!(text, "Each configuration ÷ the shipped one, measured in the same rounds.\n")?;
    writeln!(text, "{}\n", table(options, all))?;
    writeln!(text, "{}\n", report::table_of_conditions(options, conditions, Summary(&measurements)))?;
    writeln!(text, "{}", report::METHOD)?;
    Ok(text)
}

fn table(options: &Options, all: &[(Variant, Vec<Measurement>)]) -> Table {
    let metrics = METRICS.iter().map(|metric| metric.name());
    let header: Vec<_> = ["configuration", workload::TITLE].into_iter().chain(metrics).collect();
    let mut table = columns(&header, 2);
    for (variant, measurements) in all {
        let summary = Summary(measurements);
        for (number, workload) in options.workloads.iter().enumerate() {
            let title = if number == 0 { variant.title() } else { String::new() };
            let ratios = METRICS.iter().map(|metric| spread(summary.ratios(*workload, *metric, Target::Base)));
            table.add_row([title, workload.to_string()].into_iter().chain(ratios));
        }
    }
    table
}

/// Another configuration of the filter.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Variant {
    /// The JSON that is merged into the shipped configuration.
    pub settings: &'static str,
    /// Whether the documents' ids are given or missing, in both.
    pub ids: Ids,
    /// The worker threads of the variant's Envoy. The shipped one has one.
    pub workers: u32,
}

impl Variant {
    /// All variants. The shipped configuration itself comes first: it shows how far two identical runs differ.
    pub const ALL: &[Self] = &[
        Self::with("{}"),
        Self::with(r#"{"hold": {"gather": "0ms"}}"#),
        Self::with(r#"{"hold": {"gather": "1ms"}}"#),
        Self::with(r#"{"hold": {"gather": "5ms"}}"#),
        Self::with(r#"{"hold": {"early_release": false, "interval": "5ms"}}"#),
        Self::with(r#"{"hold": {"early_release": false, "interval": "20ms"}}"#),
        Self::with(r#"{"hold": {"early_release": false}}"#),
        Self::with(r#"{"hold": {"interval": "5ms"}, "dispatch": {"max_in_flight": 2}}"#),
        Self::with(r#"{"dispatch": {"max_in_flight": 2}}"#),
        Self::with(r#"{"dispatch": {"max_in_flight": 4}}"#),
        Self::with(r#"{"hold": {"flush_threshold_size": "128kb"}}"#),
        Self::with(r#"{"hold": {"flush_threshold_size": "8mb"}}"#),
        Self::with(r#"{"dispatch": {"level": "shard"}}"#),
        Self::with(r#"{"dispatch": {"compress": true}}"#),
        Self { workers: 2, ..Self::with("{}") },
        Self { ids: Ids::Missing, ..Self::with(r#"{"missing_id": "pass"}"#) },
        Self { ids: Ids::Missing, ..Self::with(r#"{"missing_id": "direct"}"#) },
    ];

    const fn with(settings: &'static str) -> Self {
        Self { settings, ids: Ids::Given, workers: 1 }
    }

    /// Returns the options that compare the shipped configuration with this variant.
    pub fn options(&self, options: &Options) -> Result<Options> {
        Ok(Options {
            targets: vec![Target::Base, Target::Filter],
            settings: serde_json::from_str(self.settings)?,
            ids: self.ids,
            envoy_workers: self.workers,
            ..options.clone()
        })
    }

    pub fn title(&self) -> String {
        let settings = match self.settings {
            "{}" if self.workers == 1 => "as shipped".to_owned(),
            "{}" => format!("{} workers", self.workers),
            settings => format!("`{settings}`"),
        };
        match self.ids {
            Ids::Given => settings,
            Ids::Missing => format!("{settings}, documents without ids"),
            Ids::Versioned => format!("{settings}, documents with versions"),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn the_first_variant_is_the_shipped_configuration() {
        let all = Variant::ALL.iter().map(|variant| variant.options(&Options::parse_from(["bench"])).unwrap());
        let settings: Vec<_> = all.map(|options| (options.targets, options.settings)).collect();
        assert!(settings.iter().all(|(targets, _)| *targets == [Target::Base, Target::Filter]));
        assert!(settings[0].1.as_object().unwrap().is_empty());
    }

    #[test]
    fn titles_are_unique() {
        let mut titles: Vec<_> = Variant::ALL.iter().map(Variant::title).collect();
        titles.sort();
        titles.dedup();
        assert_eq!(titles.len(), Variant::ALL.len());
    }
}
