//! What Envoy's configuration costs Envoy itself, with an Envoy cluster for each node and with one for all.

use std::fs;
use std::time::Instant;

use anyhow::Result;
use bulk_reshuffle_bench::tables::{self, Spread, spread, thousands};
use bulk_reshuffle_stack::{Envoy, EnvoyOptions, FilterConfig, Tools, port};
use comfy_table::Table;

/// The file with one Envoy cluster for all nodes.
const ONE_CLUSTER: &str = "envoy/one-cluster.yaml";

/// Returns a table of the shipped configurations for more and more nodes, and of an Envoy that has not seen a request.
/// It runs without the filter, which takes the same time and memory in each case.
pub async fn table(rounds: usize) -> Result<Table> {
    let header = ["nodes", "Envoy clusters", "configuration, bytes of JSON", "Envoy's memory, kB", "Envoy's start, ms"];
    let mut table = tables::table(&header, 0);
    for nodes in [3, 30, 300] {
        for one_cluster in [false, true] {
            let mut starts = Vec::new();
            for _ in 0..rounds {
                starts.push(start(nodes, one_cluster).await?);
            }
            let of = |number: fn(&Start) -> f64| spread(Spread::of(starts.iter().map(number)));
            let clusters = if one_cluster { 1 } else { nodes + 1 };
            let numbers = [nodes, clusters].map(|number| thousands(number as f64));
            table.add_row(numbers.into_iter().chain([
                of(|start| start.configuration),
                of(|start| start.memory / 1e3),
                of(|start| start.milliseconds),
            ]));
        }
    }
    Ok(table)
}

/// The start of an Envoy.
struct Start {
    /// The size of its configuration, in bytes.
    configuration: f64,
    /// The memory that it has allocated, in bytes.
    memory: f64,
    /// The time until it serves.
    milliseconds: f64,
}

async fn start(nodes: usize, one_cluster: bool) -> Result<Start> {
    let (tools, run_dir) = (Tools::find()?, tempfile::tempdir()?);
    let addresses: Vec<_> = port::free_ports(nodes)?.into_iter().map(port::loopback).collect();
    let mut options = EnvoyOptions::new(run_dir.path()).cluster("es", addresses.iter().copied());
    if one_cluster {
        options.config = Some(tools.root.join(ONE_CLUSTER));
    } else {
        options = addresses
            .iter()
            .zip(0..)
            .fold(options, |options, (address, node): (_, usize)| options.cluster(&format!("es-{node}"), [*address]));
    }
    options.filter = FilterConfig::Removed;
    let begin = Instant::now();
    let envoy = Envoy::start(&tools, options).await?;
    let milliseconds = begin.elapsed().as_secs_f64() * 1e3;
    let json: serde_json::Value = serde_json::from_slice(&fs::read(run_dir.path().join("envoy.json"))?)?;
    let memory = envoy.counter("server.memory_allocated").await? as f64;
    envoy.stop().await?;
    Ok(Start { configuration: json.to_string().len() as f64, memory, milliseconds })
}
