//! Measures the filter in pairs: the same requests directly to the nodes, through plain Envoy and through Envoy with
//! the filter, in turns, against one real cluster. Prints a table, and leaves raw numbers, a report and charts.
//!
//! Clients, Envoy and nodes share one machine, so only ratios within a run mean anything. A run begins with
//! [`bench::run`].

mod bench;
mod chart;
mod charts;
mod client;
mod conditions;
mod counters;
mod documents;
mod goal;
mod index;
mod load;
mod machine;
mod measurement;
mod metric;
mod number;
mod options;
mod processor_time;
mod progress;
mod report;
mod requests;
mod response_head;
mod results;
mod site;
mod spread;
mod summary;
mod sweep;
mod target;
mod variant;
mod workload;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

use crate::options::Options;

/// What shells report for a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

// One thread: what the clients take of the machine is missing everywhere else.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = Options::parse();
    let clients = LocalSet::new();
    let outcome = tokio::select! {
        outcome = clients.run_until(run(&options)) => outcome,
        // Dropping the unfinished run ends everything that it started.
        () = ended_by_signal() => return ExitCode::from(INTERRUPTED),
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

async fn ended_by_signal() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    eprintln!("\nstopping everything");
}

/// Lets this process, and Envoy, have as many connections open as the system allows.
fn raise_file_limit() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}
