//! What a document costs Envoy's worker in growing clusters, behind scripted nodes that answer each operation
//! correctly. Also how many requests share a batch.

use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_bench::large_state::LargeCluster;
use bulk_reshuffle_bench::routines::Arrivals;
use bulk_reshuffle_bench::tables::{self, Spread, number, spread, thousands};
use comfy_table::Table;

use crate::large_scene::{LargeScene, Measurement};
use crate::plan::{Case, Series, plan};

/// Returns a table of what a document costs in growing cases: medians and extremes.
pub async fn table(rounds: usize, scale: usize) -> Result<Table> {
    let header =
        ["quantity", "value", "requests in a batch", "documents in a batch", "Envoy's worker, µs/document", "ratio"];
    let mut table = tables::table(&header, 1);
    for series in plan(scale) {
        eprintln!("{}", series.name);
        let mut first = None;
        for (case, rounds) in series.cases.iter().zip(measure(&series, rounds).await?) {
            let of = |value: fn(&Measurement) -> f64| Spread::of(rounds.iter().map(value));
            let median = |value| of(value).map_or(f64::NAN, |spread| spread.median);
            let time = median(Measurement::per_document);
            table.add_row([
                series.name.to_owned(),
                thousands(case.size as f64),
                number(median(Measurement::requests_of_batch)),
                number(median(Measurement::documents_of_batch)),
                spread(of(Measurement::per_document)),
                number(time / *first.get_or_insert(time)),
            ]);
        }
    }
    Ok(table)
}

/// Measures all cases of a series, round after round. Returns the measurements of each case.
async fn measure(series: &Series, rounds: usize) -> Result<Vec<Vec<Measurement>>> {
    let mut sites = Vec::new();
    for Case { nodes, indices, shards, one_cluster, load, .. } in &series.cases {
        let large = LargeCluster::with(*nodes, *indices, *shards);
        sites.push((LargeScene::start_known(large, *one_cluster).await?, *load));
    }
    let mut figures = vec![Vec::new(); sites.len()];
    for _ in 0..rounds {
        for ((site, load), figures) in sites.iter().zip(&mut figures) {
            figures.push(site.measure(*load).await?);
        }
    }
    for (site, _) in sites {
        site.scene.finish().await?;
    }
    Ok(figures)
}

/// Returns a table of how many requests a batch has, as calculated and as simulated with the engine.
pub fn arrivals() -> Table {
    let mut table = tables::table(
        &[
            "requests/s",
            "workers",
            "nodes",
            "calculated",
            "simulated",
            "with a fixed interval of 50 ms",
            "average latency with it",
        ],
        1,
    );
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
        let rate = f64::from(rate);
        let early = Arrivals { rate, workers, nodes, batch_time: Duration::from_millis(10), interval: None };
        let late = Arrivals { interval: Some(Duration::from_millis(50)), ..early };
        let (ours, fixed) = (early.simulated(), late.simulated());
        table.add_row([
            thousands(rate),
            workers.to_string(),
            nodes.to_string(),
            format!("{:.1}", early.expected()),
            format!("{:.1}, in {:.0} ms", ours.requests, ours.latency.as_secs_f64() * 1e3),
            format!("{:.1}", fixed.requests),
            format!("{:.0} ms", fixed.latency.as_secs_f64() * 1e3),
        ]);
    }
    table
}
