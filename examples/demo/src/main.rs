//! Demonstrates bulk-reshuffle on a real three-node cluster.
//!
//! `demo` starts the cluster and Envoy, sends the same load directly and through the filter, and prints and checks the
//! results. `up` starts the same processes and leaves them running, and `down` stops them.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::unreachable)]

mod bulk;
mod checks;
mod demo;
mod evidence;
mod load;
mod placement;
mod progress;
mod site;
mod tables;
mod up;
mod upstream;
mod workload;

use std::process::ExitCode;

use anyhow::{Result, bail};
use bulk_reshuffle_stack::{Distribution, ended_by_signal};

const USAGE: &str = "usage: bulk-reshuffle-demo demo | up [cluster] | down";

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = tokio::select! {
        outcome = run() => outcome,
        // Dropping the unfinished run kills all its processes.
        code = ended_by_signal() => Ok(code),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("{} {error:#}", console::style("error:").for_stderr().red());
        ExitCode::FAILURE
    })
}

async fn run() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["demo"] => demo::run().await,
        ["up"] => up::up(Distribution::default()).await,
        ["up", cluster] => up::up(cluster.parse()?).await,
        ["down"] => up::down().await,
        _ => bail!(USAGE),
    }
}
