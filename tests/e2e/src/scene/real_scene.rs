use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, Envoy, EnvoyOptions, FilterConfig, Tools, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::load;

const LIMIT: Duration = Duration::from_secs(60);

/// Returns the number of bytes that all nodes of a cluster have sent to each other so far, as the node at this URL
/// reports it.
pub async fn transport_bytes(client: &Client, node: &str) -> Result<u64> {
    let stats = client.get_json(&format!("{node}/_nodes/stats/transport")).await?;
    let nodes = stats.get("nodes").and_then(Value::as_object).context("no nodes")?.values();
    nodes.map(|node| node.pointer("/transport/tx_size_in_bytes").and_then(Value::as_u64).context("no bytes")).sum()
}

/// A real cluster for one test alone, the real Envoy with the real filter in front of it, and a client.
#[derive(Debug)]
pub struct RealScene {
    pub cluster: Cluster,
    pub envoy: Envoy,
    pub client: Client,
    _run_dir: TempDir,
}

impl RealScene {
    pub fn of(cluster: Cluster, envoy: Envoy, run_dir: TempDir) -> Self {
        Self { cluster, envoy, client: Client::new(), _run_dir: run_dir }
    }

    /// Starts three nodes with these indices of six shards, and Envoy with two workers. A shared Envoy would have the
    /// metrics of another VM too. Returns when the filter splits requests for the first index.
    pub async fn start(tools: &Tools, filter: FilterConfig, indices: &[&str]) -> Result<Self> {
        let run_dir = tempfile::tempdir()?;
        let cluster = Cluster::start(tools, ClusterOptions::new(run_dir.path())).await?;
        let options = EnvoyOptions { filter, concurrency: 2, ..EnvoyOptions::new(run_dir.path()) };
        let envoy = Envoy::start(tools, options.in_front_of(&cluster)).await?;
        let scene = Self::of(cluster, envoy, run_dir);
        let settings = json!({"settings": {"number_of_shards": 6, "number_of_replicas": 0}});
        for index in indices {
            let put = scene.client.put_json(&scene.envoy.url(&format!("/{index}")), &settings).await?;
            ensure!(put.status == 200, "{}", put.text());
        }
        let first = scene.envoy.url(&format!("/{}/_bulk", indices.first().copied().unwrap_or_default()));
        wait::until(LIMIT, "the filter splits requests", async || {
            // A connection belongs to one worker, so each try needs a new one.
            load::write(&Client::new(), &first, 0..3).await?;
            let merged = scene.envoy.counter("wasmcustom.bulk_reshuffle_requests_total.outcome.merged").await?;
            Ok((merged > 0).then_some(()))
        })
        .await?;
        Ok(scene)
    }

    /// Returns a URL at a node. The numbers of nodes start again after the last node.
    pub fn direct(&self, node: usize, path: &str) -> Result<String> {
        Ok(format!("{}{path}", self.cluster.base_url(node % self.cluster.len())?))
    }

    /// Returns the JSON answer of a node.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.client.get_json(&self.direct(0, path)?).await
    }

    /// Sends JSON to a node by `POST`; any status other than success is an error.
    pub async fn post(&self, path: &str, body: Value) -> Result<Value> {
        self.client.post_json(&self.direct(0, path)?, &body).await?.ok().with_context(|| path.to_owned())?.json()
    }

    /// Sends JSON to a node by `PUT`; any status other than success is an error.
    pub async fn put(&self, path: &str, body: Value) -> Result<Value> {
        self.client.put_json(&self.direct(0, path)?, &body).await?.ok().with_context(|| path.to_owned())?.json()
    }

    pub async fn stop(self) -> Result<()> {
        self.envoy.stop().await?;
        self.cluster.stop().await
    }
}
