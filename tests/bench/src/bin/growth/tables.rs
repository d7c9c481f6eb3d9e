use std::time::Duration;

use bulk_reshuffle_bench::routines::Arrivals;
use comfy_table::{CellAlignment, Table, presets};

use crate::measurement::Measurement;
use crate::plan::Series;

/// The measurements of each case of a series, in its order.
pub type Figures = Vec<Vec<Measurement>>;

/// Returns a table of what a document costs in growing cases: medians and extremes.
pub fn growth(measured: &[(Series, Figures)]) -> String {
    let mut table = table([
        "quantity",
        "value",
        "requests in a batch",
        "documents in a batch",
        "Envoy's worker, µs/document",
        "ratio",
    ]);
    for (series, figures) in measured {
        let mut first = None;
        for (case, rounds) in series.cases.iter().zip(figures) {
            let [least, median, most] = spread(rounds.iter().map(Measurement::per_document).collect());
            let [_, requests, _] = spread(rounds.iter().map(Measurement::requests_of_batch).collect());
            let [_, documents, _] = spread(rounds.iter().map(Measurement::documents_of_batch).collect());
            let times = median / *first.get_or_insert(median);
            table.add_row([
                series.name.to_owned(),
                thousands(case.size),
                format!("{requests:.1}"),
                format!("{documents:.1}"),
                format!("{median:.1} ({least:.1}–{most:.1})"),
                format!("{times:.2}"),
            ]);
        }
    }
    table.to_string()
}

/// Returns a table of how many requests a batch has, as calculated and as simulated with the engine.
pub fn arrivals() -> String {
    let header = [
        "requests/s",
        "workers",
        "nodes",
        "calculated",
        "simulated",
        "with a fixed interval of 50 ms",
        "average latency with it",
    ];
    let mut table = table(header);
    for (rate, workers, nodes) in [
        (100, 1, 3),
        (1_000, 1, 3),
        (10_000, 1, 3),
        (1_000, 4, 3),
        (10_000, 4, 3),
        (10_000, 16, 3),
        (1_000, 1, 30),
        (10_000, 1, 30),
        (10_000, 4, 30),
        (1_000, 1, 300),
        (10_000, 1, 300),
        (10_000, 4, 300),
    ] {
        let early =
            Arrivals { rate: f64::from(rate), workers, nodes, batch_time: Duration::from_millis(10), interval: None };
        let (ours, fixed) =
            (early.simulated(), Arrivals { interval: Some(Duration::from_millis(50)), ..early }.simulated());
        table.add_row([
            thousands(rate as usize),
            workers.to_string(),
            nodes.to_string(),
            format!("{:.1}", early.expected()),
            format!("{:.1}, in {:.0} ms", ours.requests, ours.latency.as_secs_f64() * 1e3),
            format!("{:.1}", fixed.requests),
            format!("{:.0} ms", fixed.latency.as_secs_f64() * 1e3),
        ]);
    }
    table.to_string()
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// Returns the smallest value, the median and the largest value.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
    [at(0), at(values.len() / 2), at(values.len().saturating_sub(1))]
}

fn thousands(number: usize) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", number / 1_000, number % 1_000),
    }
}
