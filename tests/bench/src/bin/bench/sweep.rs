//! A run that compares the shipped configuration with others, so that a measurement supports each default.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use bulk_reshuffle_stack::Tools;
use comfy_table::Table;
use serde::Serialize;

use crate::bench::{Bench, exit_code};
use crate::conditions::Conditions;
use crate::measurement::Measurement;
use crate::metric::Metric;
use crate::number::spread;
use crate::options::Options;
use crate::report;
use crate::results::Results;
use crate::summary::Summary;
use crate::target::Target;
use crate::variant::Variant;

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
    Ok(exit_code(&measurements))
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
    let header: Vec<_> = ["configuration", "documents × clients"].into_iter().chain(metrics).collect();
    let mut table = report::table(&header, 2);
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
