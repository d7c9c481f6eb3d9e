//! The tables of the report.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Attribute, Cell, CellAlignment, Color, Table};
use indicatif::HumanCount;

use crate::demo::{Figures, Phase, Way};
use crate::upstream::{COORDINATOR, Upstream};

/// Returns the table of the traffic that the filter sent to each node.
pub fn by_node(figures: &Figures) -> Table {
    let mut table = table(&[
        "load and node",
        "operations",
        "batches",
        "operations\nper batch",
        "requests\nper batch",
        "MB",
        "executed on\nown primaries",
    ]);
    for phase in &figures.phases {
        table.add_row([Cell::new(phase.workload.name).add_attribute(Attribute::Bold)]);
        let mut total = Upstream::default();
        for node in &figures.nodes {
            let upstream = Upstream::of(&phase.counters, node);
            total += upstream;
            table.add_row(upstream_row(node, upstream, phase.on_primaries.get(node).copied()));
        }
        let coordinator = Upstream::of(&phase.counters, COORDINATOR);
        if coordinator.batches > 0 {
            total += coordinator;
            table.add_row(upstream_row("not routed", coordinator, None));
        }
        let carried_out = phase.on_primaries.values().sum();
        table.add_row(upstream_row("all", total, Some(carried_out)));
    }
    table
}

/// Returns the table of the sampled operations that reached their owning nodes.
pub fn placement(figures: &Figures) -> Table {
    let mut table = table(&[
        "owning node\n(sample)",
        "operations owned\n(by the cluster)",
        "operations received\n(by Envoy's counter)",
        "share sent to\nthe owning node",
    ]);
    for (node, share) in &figures.placement.by_owner {
        table.add_row(vec![
            Cell::new(format!("  {node}")),
            right(thousands(share.owned)),
            right(thousands(share.arrived)),
            right(format!("{:.1} %", 100.0 * share.arrived as f64 / share.owned as f64)),
        ]);
    }
    table
}

/// Returns the table that compares the same loads, sent directly and through the filter.
pub fn compared(figures: &Figures) -> Table {
    let mut table = table(&["load", "sent directly", "through the filter", "reduction"]);
    for phase in &figures.phases {
        let Phase { workload, direct, filtered, .. } = phase;
        table.add_row([Cell::new(workload.name).add_attribute(Attribute::Bold)]);
        let bytes = |way: &Way| format!("{} kB", thousands(way.bytes_between_nodes / 1_000));
        let less = direct.bytes_between_nodes / filtered.bytes_between_nodes.max(1);
        table.add_row(vec![
            Cell::new("  bytes between the nodes"),
            right(bytes(direct)),
            right(bytes(filtered)),
            right(format!("{} times less", thousands(less))).fg(Color::Green),
        ]);
        let batches: u64 = figures.nodes.iter().map(|node| Upstream::of(&phase.counters, node).batches).sum();
        table.add_row(vec![
            Cell::new("  bulk requests at the nodes"),
            right(thousands(u64::try_from(workload.requests.len()).unwrap_or(u64::MAX))),
            right(thousands(batches)),
        ]);
        let elapsed = |way: &Way| format!("{:.1} s", way.outcome.elapsed.as_secs_f64());
        table.add_row(vec![Cell::new("  elapsed"), right(elapsed(direct)), right(elapsed(filtered))]);
        let rate = |way: &Way| thousands(way.outcome.rate() as u64);
        table.add_row(vec![Cell::new("  operations per second"), right(rate(direct)), right(rate(filtered))]);
    }
    table
}

pub fn notes(figures: &Figures) -> String {
    format!(
        "Bytes between the nodes: the bytes that all nodes received from each other, by their own counters. They \
         include\nthe idle traffic of {:.1} kB per second, measured before the loads.\n\
         Times: clients, Envoy and all nodes share one machine's processors here, so the times mean little.",
        figures.idle_rate / 1_000.0
    )
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    // Use the same rules for colours as the rest of the output: a terminal, and no NO_COLOR.
    if console::colors_enabled() {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let aligned = |(place, text): (usize, &&str)| {
        let alignment = if place == 0 { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(alignment).add_attribute(Attribute::Bold)
    };
    table.set_header(header.iter().enumerate().map(aligned));
    table
}

fn upstream_row(name: &str, upstream: Upstream, carried_out: Option<u64>) -> Vec<Cell> {
    let Upstream { batches, operations, requests, bytes } = upstream;
    let per_batch = |count: u64| match count as f64 / batches.max(1) as f64 {
        many if many >= 100.0 => thousands(many.round() as u64),
        few => format!("{few:.1}"),
    };
    vec![
        Cell::new(format!("  {name}")),
        right(thousands(operations)),
        right(thousands(batches)),
        right(per_batch(operations)),
        right(per_batch(requests)),
        right(format!("{:.1}", bytes as f64 / 1e6)),
        right(carried_out.map(thousands).unwrap_or_default()),
    ]
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// Formats `1234567` as `1,234,567`.
fn thousands(number: u64) -> String {
    HumanCount(number).to_string()
}
