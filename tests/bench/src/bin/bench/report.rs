//! The report of a run, in Markdown.

use std::fmt::Write as _;
use std::num::NonZeroUsize;

use anyhow::Result;
use bulk_reshuffle_bench::tables::{Spread, spread, table, thousands};
use comfy_table::Table;

use crate::conditions::Conditions;
use crate::documents::{Api, Ids};
use crate::goal;
use crate::index::{Pipeline, Shape, Translog};
use crate::measurement::Measurement;
use crate::metric::Metric;
use crate::options::Options;
use crate::summary::Summary;
use crate::target::Target;
use crate::workload::{self, Workload};

pub const METHOD: &str = "\
Each measurement writes to a new index and sends the same requests, generated before the clock starts. Each client keeps
three connections open, to the three nodes or to Envoy, and sends one request at a time over them, round robin. In each
round every target is measured once. Results are medians over the rounds, with the smallest and the largest in parentheses.
Ratios are calculated within rounds. After each measurement the index must have as many documents as were acknowledged.
Processor time is what the kernel charges to the processes, including all their threads.";

/// Returns the whole report, with these charts.
pub fn whole(options: &Options, conditions: &Conditions, charts: &[&str], summary: Summary) -> Result<String> {
    let mut text = String::new();
    writeln!(text, "# {}, {}\n", conditions.date, conditions.machine.title())?;
    writeln!(
        text,
        "{}\n\n{}\n\n{METHOD}\n",
        overview(options, summary),
        table_of_conditions(options, conditions, summary)
    )?;
    for chart in charts {
        writeln!(text, "![{}]({chart})\n", chart.trim_end_matches(".svg").replace('-', " "))?;
    }
    let goals = goals(options, summary);
    if !goals.is_empty() {
        writeln!(text, "## Goals\n\n{goals}\n")?;
    }
    writeln!(text, "## All results\n\n{}", figures(options, summary))?;
    Ok(text)
}

/// Returns the table of what was measured, and where.
pub fn table_of_conditions(options: &Options, conditions: &Conditions, summary: Summary) -> Table {
    let Options { rounds, seconds, warmup, envoy_workers, .. } = options;
    let settings = options.filter();
    let settings = match settings.as_object().is_some_and(serde_json::Map::is_empty) {
        true => String::new(),
        false => format!(" with `{settings}`"),
    };
    let ids = match options.ids {
        Ids::Given => "with ids",
        Ids::Missing => "without ids",
        Ids::Versioned => "with ids and versions",
    };
    let ids = match options.api {
        Api::Bulk => ids.to_owned(),
        Api::Document => format!("{ids}, each in a request of its own"),
    };
    let Shape { documents, shards, replicas, translog, pipeline } = options.shape;
    let translog = match translog {
        Translog::Request => "synchronous",
        Translog::Async => "not synchronous",
    };
    let pipeline = match pipeline {
        Pipeline::None => "",
        Pipeline::Proven => ", a default pipeline that sets a field",
        Pipeline::Unproven => ", a default pipeline that may set `_routing`",
    };
    let shared = match options.node_processors {
        0 => "shared by clients, Envoy and nodes".to_owned(),
        processors => format!("of which the nodes have {processors} alone, and clients and Envoy the others"),
    };
    let queue = options.write_queue.map_or_else(String::new, |length| format!(" and a write queue of {length}"));
    let callers =
        if options.callers == NonZeroUsize::MIN { String::new() } else { format!(" of {} callers", options.callers) };
    let searches = options.searches.map_or_else(String::new, |rate| format!(", and {rate} searches in a second"));
    let sum = |count: fn(&Measurement) -> u64| thousands(summary.0.iter().map(count).sum::<u64>() as f64);
    let others = Spread::of(summary.0.iter().map(|measured| measured.other_cpu_seconds / measured.seconds));
    let rows = [
        ("machine", format!("{}, {shared}", conditions.machine.title())),
        ("other work on it", format!("{} processors busy, kernel threads included", spread(others))),
        ("cluster", format!("3 nodes of {}, each with 512 MiB of heap{queue}", conditions.cluster)),
        ("index", format!("{shards} shards, replicas of each: {replicas}, translog {translog}{pipeline}")),
        ("documents", format!("{}, {ids}", documents.title())),
        ("Envoy", format!("{}, worker threads: {envoy_workers}", conditions.envoy)),
        ("filter", format!("{}, configured as shipped{settings}", conditions.filter)),
        (
            "rounds",
            format!(
                "{rounds}, each of {seconds} s for each target{searches}, after {} documents that do not count",
                thousands(*warmup as f64)
            ),
        ),
        (
            "requests",
            format!(
                "{} counted{callers}, {} of them failed, {} passed through the filter whole",
                sum(|measured| measured.requests),
                sum(|measured| measured.failed),
                sum(|measured| measured.filter.map_or(0, |counters| counters.passed_through)),
            ),
        ),
    ];
    let mut table = table(&["", ""], 2);
    for (name, value) in rows {
        table.add_row([name.to_owned(), value]);
    }
    table
}

/// Returns a table with one line for each workload.
pub fn overview(options: &Options, summary: Summary) -> Table {
    let columns = [
        (Metric::Throughput, Target::Direct),
        (Metric::Throughput, Target::Plain),
        (Metric::Throughput, Target::Base),
        (Metric::P50, Target::Base),
        (Metric::P99, Target::Base),
        (Metric::ClusterCpu, Target::Base),
        (Metric::EnvoyCpu, Target::Base),
        (Metric::P50, Target::Direct),
        (Metric::P99, Target::Direct),
        (Metric::ClusterCpu, Target::Direct),
        (Metric::EnvoyCpu, Target::Plain),
        (Metric::ServerCpu, Target::Plain),
    ];
    let columns: Vec<_> = columns.into_iter().filter(|(_, other)| options.targets.contains(other)).collect();
    let titles = columns.iter().map(|(metric, other)| format!("{} ÷ {}", metric.name(), other.title()));
    let first = [workload::TITLE.to_owned()].into_iter();
    let header: Vec<String> = first.chain(titles).chain([Metric::RequestsPerBatch.name().to_owned()]).collect();
    let mut table = table(&header, 1);
    for workload in &options.workloads {
        let ratios = columns.iter().map(|(metric, other)| spread(summary.ratios(*workload, *metric, *other)));
        let batches = spread(summary.values(*workload, Target::Filter, Metric::RequestsPerBatch));
        table.add_row([workload.to_string()].into_iter().chain(ratios).chain([batches]));
    }
    table
}

pub fn goals(options: &Options, summary: Summary) -> Table {
    let mut table = table(&[workload::TITLE, "", "compared with", "wanted", "reached", ""], 3);
    let mut last = None;
    for goal in goal::goals(options) {
        let Some(reached) = goal.reached(summary) else { continue };
        table.add_row([
            named_once(goal.workload, &mut last),
            goal.metric.title(),
            goal.other.title().to_owned(),
            goal.bound.to_string(),
            spread(Some(reached)),
            if goal.is_met(reached) { "met" } else { "**not met**" }.to_owned(),
        ]);
    }
    table
}

fn figures(options: &Options, summary: Summary) -> Table {
    let titles = options.targets.iter().map(|target| target.title().to_owned());
    let others: Vec<Target> = options.targets.iter().copied().filter(|target| *target != Target::Filter).collect();
    let ratios = others.iter().map(|other| format!("filter ÷ {}", other.title()));
    let header: Vec<String> =
        [workload::TITLE.to_owned(), String::new()].into_iter().chain(titles).chain(ratios).collect();
    let mut table = table(&header, 2);
    let mut last = None;
    for workload in &options.workloads {
        for metric in Metric::ALL {
            let values = options.targets.iter().map(|target| summary.values(*workload, *target, metric));
            if values.clone().all(|value| value.is_none()) {
                continue;
            }
            let values = values.map(spread);
            let ratios = others.iter().map(|other| spread(summary.ratios(*workload, metric, *other)));
            let row = [named_once(*workload, &mut last), metric.title()];
            table.add_row(row.into_iter().chain(values).chain(ratios));
        }
    }
    table
}

/// Returns a workload for its first row only.
fn named_once(workload: Workload, last: &mut Option<Workload>) -> String {
    if last.replace(workload) == Some(workload) { String::new() } else { workload.to_string() }
}
