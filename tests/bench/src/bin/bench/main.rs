//! Measures the filter in pairs: the same requests go directly to the nodes, through plain Envoy and through Envoy with
//! the filter, in rounds, against one real cluster. Prints a table, and writes raw numbers, a report and charts.
//!
//! Clients, Envoy and nodes share one machine, so only ratios within a run are meaningful. A run begins with
//! [`bench::run`].

mod bench;
mod charts;
mod client;
mod conditions;
mod documents;
mod goal;
mod index;
mod load;
mod measurement;
mod metric;
mod options;
mod processor_time;
mod report;
mod requests;
mod results;
mod site;
mod summary;
mod sweep;
mod target;
mod workload;

use std::process::ExitCode;

use anyhow::Result;
use bulk_reshuffle_stack::ended_by_signal;
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::LocalSet;

use crate::options::Options;

// The clients run on one thread, because the processor time that they take is missing elsewhere.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = Options::parse();
    let clients = LocalSet::new();
    let outcome = tokio::select! {
        outcome = clients.run_until(run(&options)) => outcome,
        // Dropping the unfinished run stops all processes that it started.
        code = ended_by_signal() => return code,
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

async fn run(options: &Options) -> Result<ExitCode> {
    raise_file_limit()?;
    if options.sweep { sweep::run(options).await } else { bench::run(options).await }
}

/// Raises the limit of open files for this process and Envoy as far as the system allows.
fn raise_file_limit() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}
