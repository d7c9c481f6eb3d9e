//! Prints how much a document costs where something grows, and how many requests share a batch: `make bench-growth`.

use anyhow::Result;
use bulk_reshuffle_e2e::raise_file_limit;
use bulk_reshuffle_growth::{Case, Figures, Series, Site, arrivals, growth, plan};
use bulk_reshuffle_large_state::LargeCluster;
use clap::Parser;

/// Measures what a document costs Envoy in clusters of many nodes and shards, and beside requests that wait.
#[derive(Debug, Parser)]
struct Options {
    /// How often each case is measured.
    #[arg(long, env = "ROUNDS", default_value_t = 5)]
    rounds: usize,

    /// How many times the 1,000 requests of one document, or the 10 of 1,000, are sent in each case.
    #[arg(long, env = "SCALE", default_value_t = 20)]
    scale: usize,
}

/// For 10,000 clients that wait.
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

/// Measures all cases of a series in turns.
async fn measure(series: &Series, rounds: usize) -> Result<Figures> {
    let mut sites = Vec::new();
    for Case { nodes, indices, shards, load, .. } in &series.cases {
        sites.push((Site::start(LargeCluster::with(*nodes, *indices, *shards)).await?, *load));
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
