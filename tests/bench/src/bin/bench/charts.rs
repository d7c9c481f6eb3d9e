//! The charts of a run.

use std::path::Path;

use anyhow::Result;
use plotters::style::RGBColor;

use crate::chart::{Chart, Mark, Series};
use crate::goal::{Bound, GOALS, Goal};
use crate::metric::Metric;
use crate::options::Options;
use crate::spread::Spread;
use crate::summary::Summary;
use crate::target::Target;
use crate::workload::Workload;

/// The chart of the filter's docs/s divided by the other targets'.
const RATIOS: &str = "throughput.svg";
/// The chart of each target's latency.
const LATENCY: &str = "latency.svg";
/// The charts of one quantity for each target.
const VALUES: [(&str, Metric); 4] = [
    ("cluster-cpu.svg", Metric::ClusterCpu),
    ("envoy-cpu.svg", Metric::EnvoyCpu),
    ("bytes-between-nodes.svg", Metric::BytesBetweenNodes),
    ("requests-per-batch.svg", Metric::RequestsPerBatch),
];

/// Writes all charts. Returns the names of the files.
pub fn write(folder: &Path, options: &Options, summary: Summary) -> Result<Vec<&'static str>> {
    let mut written = Vec::new();
    let charts = [(RATIOS, ratios(options, summary)), (LATENCY, latency(options, summary))];
    let values = VALUES.map(|(name, metric)| (name, values(options, summary, metric)));
    for (name, chart) in charts.into_iter().chain(values) {
        if chart.series.iter().any(|series| !series.marks.is_empty()) {
            chart.write(&folder.join(name))?;
            written.push(name);
        }
    }
    Ok(written)
}

fn ratios<'a>(options: &'a Options, summary: Summary) -> Chart<'a> {
    let others = options.targets.iter().copied().filter(|target| *target != Target::Filter);
    let series = others.map(|other| {
        let marks = marks(options, |workload| summary.ratios(workload, Metric::Throughput, other));
        Series { title: format!("filter ÷ {}", other.title()), color: color(other), marks }
    });
    Chart {
        title: "docs/s: the filter's divided by others', medians and extremes of the rounds",
        workloads: &options.workloads,
        series: series.collect(),
        wanted: wanted(&options.workloads),
    }
}

fn latency<'a>(options: &'a Options, summary: Summary) -> Chart<'a> {
    let series = options.targets.iter().map(|target| {
        let marks = marks(options, |workload| {
            let p50 = summary.values(workload, *target, Metric::P50)?.median;
            let p99 = summary.values(workload, *target, Metric::P99)?.median;
            Some(Spread { min: p50, median: p50, max: p99 })
        });
        Series { title: target.title().to_owned(), color: color(*target), marks }
    });
    Chart {
        title: "latency in ms: p50, and a line up to p99",
        workloads: &options.workloads,
        series: series.collect(),
        wanted: Vec::new(),
    }
}

fn values<'a>(options: &'a Options, summary: Summary, metric: Metric) -> Chart<'a> {
    let series = options.targets.iter().map(|target| {
        let marks = marks(options, |workload| summary.values(workload, *target, metric));
        Series { title: target.title().to_owned(), color: color(*target), marks }
    });
    let series = series.filter(|series| !series.marks.is_empty()).collect();
    Chart { title: metric.title(), workloads: &options.workloads, series, wanted: Vec::new() }
}

fn marks(options: &Options, spread: impl Fn(Workload) -> Option<Spread>) -> Vec<Mark> {
    let mark = |(place, workload): (usize, &Workload)| {
        let Spread { min, median, max } = spread(*workload)?;
        // A value of 0 cannot be shown on the scale.
        (min > 0.0).then_some(Mark { place, low: min, point: median, high: max })
    };
    options.workloads.iter().enumerate().filter_map(mark).collect()
}

fn wanted(workloads: &[Workload]) -> Vec<(usize, f64)> {
    let of_workload = |(place, workload): (usize, &Workload)| {
        let is_it = |goal: &&Goal| {
            goal.workload == *workload && goal.metric == Metric::Throughput && goal.other == Target::Direct
        };
        match GOALS.iter().find(is_it)?.bound {
            Bound::RatioAtLeast(bound) => Some((place, bound)),
            _ => None,
        }
    };
    workloads.iter().enumerate().filter_map(of_workload).collect()
}

fn color(target: Target) -> RGBColor {
    match target {
        Target::Direct => RGBColor(31, 119, 180),
        Target::Plain => RGBColor(230, 126, 34),
        Target::Base => RGBColor(142, 68, 173),
        Target::Filter => RGBColor(39, 145, 80),
    }
}
