//! The options of a run, from the command line or the environment.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use bulk_reshuffle_stack::Distribution;
use clap::Parser;
use serde::Serialize;
use serde_json::Value;

use crate::documents::{Api, Ids};
use crate::index::Shape;
use crate::target::Target;
use crate::workload::Workload;

/// Measure the filter in pairs with plain Envoy and with direct writes.
#[derive(Debug, Clone, Parser, Serialize)]
pub struct Options {
    /// Send these workloads: documents per request and clients, as `100x32`, or documents per request and requests in a
    /// second, as `100x300/s`.
    #[arg(long, env = "WORKLOADS", value_delimiter = ',', default_value = "1x256,10x64,100x32,1000x8,10000x1,1x1")]
    pub workloads: Vec<Workload>,

    /// Send documents whose ids are given or missing, or versioned: with external versions.
    #[arg(long, env = "IDS", default_value = "given")]
    pub ids: Ids,

    /// Send documents by bulk requests, or each in a request of its own: bulk, document. The filter's setting
    /// `single_documents` is then on.
    #[arg(long, env = "API", default_value = "bulk")]
    pub api: Api,

    #[command(flatten)]
    #[serde(flatten)]
    pub shape: Shape,

    /// Run nodes of this release, such as `elasticsearch-7.17`. Elasticsearch 8 and 9 answer in chunks, which the clients
    /// do not read.
    #[arg(long, env = "CLUSTER", default_value = "opensearch-2")]
    #[serde(skip)]
    pub cluster: Distribution,

    /// Send the requests to these targets, in this order in every round: direct, plain, base, filter.
    #[arg(long, env = "TARGETS", value_delimiter = ',', default_value = "direct,plain,filter")]
    pub targets: Vec<Target>,

    /// Measure each workload at each target this many times.
    #[arg(long, env = "ROUNDS", default_value_t = 5)]
    pub rounds: usize,

    /// Measure for this many seconds each time.
    #[arg(long, env = "SECONDS", default_value = "5", value_parser = seconds)]
    pub seconds: f64,

    /// Send the requests in the name of this many callers. The filter never merges requests of different callers.
    #[arg(long, env = "CALLERS", default_value = "1")]
    pub callers: NonZeroUsize,

    /// Let the nodes' queues for writes hold this many operations on shards instead of 10,000. Requests that a node
    /// refuses are counted, and the run does not fail because of them.
    #[arg(long, env = "WRITE_QUEUE")]
    pub write_queue: Option<u32>,

    /// Send this many searches in a second to the nodes at the same time, directly.
    #[arg(long, env = "SEARCHES", value_parser = clap::value_parser!(u32).range(1..))]
    pub searches: Option<u32>,

    /// Write this many documents before measuring, over all targets and workloads.
    #[arg(long, env = "WARMUP", default_value_t = 200_000)]
    pub warmup: u64,

    /// Merge this JSON into the filter's shipped configuration.
    #[arg(long, env = "SETTINGS", default_value = "{}", value_parser = settings)]
    pub settings: Value,

    /// Run this build of the filter as target `base`, with the shipped configuration; by default the same filter.
    #[arg(long, env = "BASE_WASM")]
    pub base_wasm: Option<PathBuf>,

    /// Let the nodes run on this many processors alone, and everything else on the others; 0: on all of them together.
    #[arg(long, env = "NODE_PROCESSORS", default_value_t = 0)]
    pub node_processors: usize,

    /// Start each Envoy with this many worker threads.
    #[arg(long, env = "ENVOY_WORKERS", default_value_t = 1)]
    pub envoy_workers: u32,

    /// Compare the shipped configuration with the other relevant values of each setting instead. This determines
    /// targets, ids, settings and workers.
    #[arg(long, env = "SWEEP")]
    pub sweep: bool,

    /// Write the results to this folder; by default `k6/results/<date>-<machine>`.
    #[arg(long, env = "OUT")]
    pub out: Option<PathBuf>,
}

impl Options {
    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Returns what is merged into the filter's configuration.
    pub fn filter(&self) -> Value {
        let mut settings = self.settings.clone();
        if let (Api::Document, Some(settings)) = (self.api, settings.as_object_mut()) {
            settings.insert("single_documents".to_owned(), true.into());
        }
        settings
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
