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
mod report;
mod requests;
mod results;
mod site;
mod summary;
mod sweep;
mod target;
mod workload;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use bulk_reshuffle_stack::ended_by_signal;
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use tokio::task::LocalSet;

use crate::options::Options;

fn main() -> ExitCode {
    let options = Options::parse();
    let run = leave_processors(options.node_processors).map(|()| start(options));
    run.unwrap_or_else(|error| failure(&error))
}

// The clients run on one thread, because the processor time that they take is missing elsewhere.
#[tokio::main(flavor = "current_thread")]
async fn start(options: Options) -> ExitCode {
    let clients = LocalSet::new();
    let outcome = tokio::select! {
        outcome = clients.run_until(run(&options)) => outcome,
        // Dropping the unfinished run stops all processes that it started.
        code = ended_by_signal() => return code,
    };
    outcome.unwrap_or_else(|error| failure(&error))
}

fn failure(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}

/// Leaves the first processors to the nodes. Processes that start later inherit this.
fn leave_processors(nodes: usize) -> Result<()> {
    if nodes == 0 {
        return Ok(());
    }
    let mut others = sched_getaffinity(None)?;
    (0..nodes).for_each(|processor| others.unset(processor));
    ensure!(others.count() > 0, "no processor is left for anything but the nodes");
    Ok(sched_setaffinity(None, &others)?)
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
