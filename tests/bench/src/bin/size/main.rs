//! What large clusters cost: `make bench-size`. Shows how many requests share a batch, and measures
//!
//! - `state`: look-ups, and the steps that follow a state of very many indices, natively and in the real Envoy;
//! - `polls`: what the polls of up to 300 Envoys cost a real cluster, and its elected master;
//! - `growth`: what a document costs Envoy's worker with many nodes, shards, clients and waiting requests, and what
//!   Envoy's configuration for many nodes costs.

mod configuration;
mod growth;
mod large_scene;
mod plan;
mod polls;
mod state;

use anyhow::Result;
use bulk_reshuffle_e2e::raise_file_limit;
use bulk_reshuffle_stack::Distribution;
use clap::{Parser, ValueEnum};

/// Measure what large clusters cost.
#[derive(Debug, Parser)]
struct Options {
    /// Measure only this part: what the state costs, or its polls, or a document.
    #[arg(long, env = "PART")]
    part: Option<Part>,

    /// Run nodes of this release for the polls.
    #[arg(long, env = "CLUSTER", default_value = "opensearch-2")]
    cluster: Distribution,

    /// Measure each case this many times.
    #[arg(long, env = "ROUNDS", default_value_t = 5)]
    rounds: usize,

    /// Send this many times the 1,000 requests of one document, or the 10 of 1,000, in each case.
    #[arg(long, env = "SCALE", default_value_t = 20)]
    scale: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    State,
    Polls,
    Growth,
}

/// The open files needed for 10,000 waiting clients.
const FILES: u64 = 15_000;

#[tokio::main]
async fn main() -> Result<()> {
    let Options { part, cluster, rounds, scale } = Options::parse();
    raise_file_limit(FILES)?;
    let measures = |wanted| part.is_none_or(|part| part == wanted);
    if measures(Part::State) {
        println!("{}\n\n{}\n", state::look_ups(), state::steps());
        println!("{}\n", state::in_envoy(rounds).await?);
    }
    if measures(Part::Polls) {
        println!("{}\n", polls::costs(cluster).await?);
    }
    if measures(Part::Growth) {
        println!("{}\n\n{}\n", growth::arrivals(), configuration::table(rounds).await?);
        println!("{}", growth::table(rounds, scale).await?);
    }
    Ok(())
}
