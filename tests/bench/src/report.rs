//! The report of a run, in Markdown.

use std::fmt::Write as _;

use anyhow::Result;
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

use crate::goal::GOALS;
use crate::machine::Machine;
use crate::metric::Metric;
use crate::options::Options;
use crate::spread::Spread;
use crate::summary::Summary;
use crate::target::Target;
use crate::workload::Workload;

/// Writes the whole report.
pub fn write(options: &Options, machine: &Machine, date: &str, summary: Summary) -> Result<String> {
    let mut text = String::new();
    writeln!(text, "# {date}, {}\n", machine.title())?;
    writeln!(text, "{}\n", conditions(options, summary))?;
    writeln!(text, "![docs/s: the filter's, divided by those of direct writes and of plain Envoy](throughput.svg)\n")?;
    writeln!(text, "![p50 and p99 of a request's latency](latency.svg)\n")?;
    writeln!(text, "## What must be reached\n\n{}\n", goals(summary))?;
    writeln!(text, "## All figures\n\n{}", figures(options, summary))?;
    Ok(text)
}

fn conditions(options: &Options, summary: Summary) -> String {
    let Options { rounds, seconds, warmup, envoy_workers, settings, .. } = options;
    let others = Spread::of(summary.0.iter().map(|measured| measured.other_cpu_seconds / measured.seconds));
    let failed: u64 = summary.0.iter().map(|measured| measured.failed).sum();
    let requests: u64 = summary.0.iter().map(|measured| measured.requests).sum();
    let passed: u64 = summary.0.iter().filter_map(|measured| Some(measured.filter?.passed_through)).sum();
    let settings = match settings.as_object().is_some_and(serde_json::Map::is_empty) {
        true => "as shipped".to_owned(),
        false => format!("as shipped, with `{settings}`"),
    };
    format!(
        "Three OpenSearch 2.19.6 nodes (512 MiB of heap each), an index of 6 shards without copies, translog \
         synchronous; documents\nof the `gateway` workload, about 290 bytes with their action lines. Envoy with \
         {envoy_workers} worker(s), the filter configured\n{settings}. Clients, Envoy and nodes share the machine.\n\n\
         After {warmup} documents that do not count, {rounds} rounds of {seconds} s at each target in turn, each into a new \
         index with the\nsame requests. Figures are medians over the rounds, and in parentheses the smallest and the \
         largest; ratios are taken within\nrounds. {requests} requests were counted, of which {failed} failed; \
         {passed} of those sent to the filter passed through whole. Each\nindex was asked afterwards for its count of \
         documents, which was as acknowledged. Other work on the machine took\n{} processors meanwhile.",
        spread(others),
    )
}

/// The table of goals.
pub fn goals(summary: Summary) -> Table {
    let mut table = table(&["documents × clients", "", "compared with", "wanted", "reached", ""], 3);
    let mut last = None;
    for goal in GOALS {
        let Some(reached) = goal.reached(summary) else { continue };
        table.add_row([
            said_once(goal.workload, &mut last),
            goal.metric.title().to_owned(),
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
        ["documents × clients".to_owned(), String::new()].into_iter().chain(titles).chain(ratios).collect();
    let mut table = table(&header.iter().map(String::as_str).collect::<Vec<_>>(), 2);
    let mut last = None;
    for workload in &options.workloads {
        for metric in Metric::ALL {
            let values = options.targets.iter().map(|target| spread(summary.values(*workload, *target, metric)));
            let ratios = others.iter().map(|other| spread(summary.ratios(*workload, metric, *other)));
            let row = [said_once(*workload, &mut last), metric.title().to_owned()];
            table.add_row(row.into_iter().chain(values).chain(ratios));
        }
    }
    table
}

fn table(header: &[&str], words: usize) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(header);
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A workload in the first of its rows.
fn said_once(workload: Workload, last: &mut Option<Workload>) -> String {
    if last.replace(workload) == Some(workload) { String::new() } else { workload.to_string() }
}

/// `4.1 (3.9–4.4)`.
fn spread(spread: Option<Spread>) -> String {
    match spread {
        Some(Spread { min, median, max }) if min < max => {
            format!("{} ({}–{})", number(median), number(min), number(max))
        }
        Some(Spread { median, .. }) => number(median),
        None => String::new(),
    }
}

/// Three digits, or a whole number.
pub fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 99.95 => thousands(value),
        medium if medium >= 9.995 => format!("{value:.1}"),
        small if small >= 0.095 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.4}"),
    }
}

/// `1234567.8` as `1,234,568`.
fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.0123, "0.0123"),
            (0.1234, "0.12"),
            (1.2345, "1.23"),
            (12.345, "12.3"),
            (123.45, "123"),
            (1_234_567.8, "1,234,568"),
            (-1_234.0, "-1,234"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn a_spread_shows_its_ends_if_it_has_any() {
        assert_eq!(spread(Some(Spread { min: 1.0, median: 2.0, max: 300.0 })), "2.00 (1.00–300)");
        assert_eq!(spread(Some(Spread { min: 2.0, median: 2.0, max: 2.0 })), "2.00");
        assert_eq!(spread(None), "");
    }
}
