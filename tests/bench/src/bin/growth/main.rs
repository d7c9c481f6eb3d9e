//! What a document costs Envoy's worker in clusters of many nodes and shards, and while other requests wait. Also how
//! many requests share a batch: `make bench-growth`.
//!
//! Runs the real filter with scripted nodes that answer each operation correctly.

mod large_scene;
mod measurement;
mod plan;
mod tables;

use anyhow::Result;
use bulk_reshuffle_bench::large_state::LargeCluster;
use bulk_reshuffle_e2e::raise_file_limit;
use clap::Parser;

use crate::large_scene::LargeScene;
use crate::plan::{Case, Series, plan};
use crate::tables::{Figures, arrivals, growth};

/// Measure what a document costs Envoy in clusters of many nodes and shards, and while other requests wait.
#[derive(Debug, Parser)]
struct Options {
    /// Measure each case this many times.
    #[arg(long, env = "ROUNDS", default_value_t = 5)]
    rounds: usize,

    /// Send this many times the 1,000 requests of one document, or the 10 of 1,000, in each case.
    #[arg(long, env = "SCALE", default_value_t = 20)]
    scale: usize,
}

/// The open files needed for 10,000 waiting clients.
const FILES: u64 = 15_000;

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    raise_file_limit(FILES)?;
    println!("{}\n", arrivals());
    let mut measured = Vec::new();
    for series in plan(options.scale) {
        eprintln!("{}", series.name);
        let figures = measure(&series, options.rounds).await?;
        measured.push((series, figures));
    }
    println!("{}", growth(&measured));
    Ok(())
}

/// Measures all cases of a series, round after round.
async fn measure(series: &Series, rounds: usize) -> Result<Figures> {
    let mut sites = Vec::new();
    for Case { nodes, indices, shards, load, .. } in &series.cases {
        sites.push((LargeScene::start(LargeCluster::with(*nodes, *indices, *shards)).await?, *load));
    }
    let mut figures = vec![Vec::new(); sites.len()];
    for _ in 0..rounds {
        for ((site, load), figures) in sites.iter().zip(&mut figures) {
            figures.push(site.measure(*load).await?);
        }
    }
    for (site, _) in sites {
        site.finish().await?;
    }
    Ok(figures)
}
