//! What a run measures, from the command line or the environment.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;
use serde::Serialize;
use serde_json::Value;

use crate::documents::Ids;
use crate::target::Target;
use crate::workload::Workload;

/// Measures the filter in pairs with plain Envoy and with direct writes.
#[derive(Debug, Clone, Parser, Serialize)]
pub struct Options {
    /// Documents per request and clients, as `100x32`.
    #[arg(long, env = "WORKLOADS", value_delimiter = ',', default_value = "1x256,10x64,100x32,1000x8,10000x1,1x1")]
    pub workloads: Vec<Workload>,

    /// Whether the documents' ids are given or missing.
    #[arg(long, env = "IDS", default_value = "given")]
    pub ids: Ids,

    /// Where the requests go, in this order in every round: direct, plain, base, filter.
    #[arg(long, env = "TARGETS", value_delimiter = ',', default_value = "direct,plain,filter")]
    pub targets: Vec<Target>,

    /// How often each workload is measured at each target.
    #[arg(long, env = "ROUNDS", default_value_t = 5)]
    pub rounds: usize,

    /// How long each measurement takes, in seconds.
    #[arg(long, env = "SECONDS", default_value = "5", value_parser = seconds)]
    pub seconds: f64,

    /// How many documents are written before anything counts, over all targets and workloads.
    #[arg(long, env = "WARMUP", default_value_t = 200_000)]
    pub warmup: u64,

    /// JSON that is merged into the filter's shipped configuration.
    #[arg(long, env = "SETTINGS", default_value = "{}", value_parser = settings)]
    pub settings: Value,

    /// What target `base` runs, with the shipped configuration; without it the same filter.
    #[arg(long, env = "BASE_WASM")]
    pub base_wasm: Option<PathBuf>,

    /// Worker threads of each Envoy.
    #[arg(long, env = "ENVOY_WORKERS", default_value_t = 1)]
    pub envoy_workers: u32,

    /// Instead, compares the shipped configuration with each other value of each setting that makes a difference.
    /// Targets, ids, settings and workers are given by that.
    #[arg(long)]
    pub sweep: bool,

    /// The folder for the results; without it `k6/results/<date>-<machine>`.
    #[arg(long, env = "OUT")]
    pub out: Option<PathBuf>,
}

impl Options {
    /// How long each measurement takes.
    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

fn seconds(text: &str) -> Result<f64> {
    let seconds = text.parse()?;
    Duration::try_from_secs_f64(seconds)?;
    Ok(seconds)
}

fn settings(text: &str) -> Result<Value> {
    let settings: Value = serde_json::from_str(text)?;
    ensure!(settings.is_object(), "not a JSON object");
    Ok(settings)
}
