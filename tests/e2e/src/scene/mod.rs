//! Envoy with the filter in front of a cluster.

mod filter;
mod listener_file;
mod real_scene;
mod scene_options;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::{Client, Envoy, Response, wait};
use bytes::Bytes;
use hyper::Request;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;

pub use filter::{check_filter, forced_trap};
pub use listener_file::{ListenerFile, replace_file, replace_in_file};
pub use real_scene::{RealScene, transport_bytes};
pub use scene_options::SceneOptions;

use crate::{ClusterScript, FakeCluster};

const LIMIT: Duration = Duration::from_secs(15);

/// A fake cluster, the real Envoy with the real filter in front of it, and a client.
///
/// End it with [`Scene::finish`], which checks the filter's health.
#[derive(Debug)]
pub struct Scene {
    pub cluster: FakeCluster,
    pub envoy: Envoy,
    /// A client that keeps its connections to Envoy open.
    pub client: Client,
    baseline: BTreeMap<String, u64>,
    _run_dir: TempDir,
}

impl Scene {
    pub fn of(script: ClusterScript) -> SceneOptions {
        SceneOptions::new(script)
    }

    /// Sends `POST path` with an NDJSON body.
    pub async fn bulk(&self, path: &str, body: impl Into<Bytes>) -> Result<Response> {
        self.client.post_ndjson(&self.envoy.url(path), body).await
    }

    /// Sends `POST path` with an NDJSON body and further headers.
    pub async fn bulk_with(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Result<Response> {
        self.client.send(bulk_request(&self.envoy.url(path), headers, body)?).await
    }

    /// Starts a [`bulk_with`](Self::bulk_with); the handle yields the answer.
    pub fn begin_bulk(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        let request = bulk_request(&self.envoy.url(path), headers, body);
        let client = self.client.clone();
        Answer(tokio::spawn(async move { client.send(request?).await }))
    }

    /// Returns how much one of the filter's counters has grown since the start.
    pub async fn counted(&self, name: &str) -> Result<u64> {
        let name = format!("wasmcustom.bulk_reshuffle_{name}");
        let before = self.baseline.get(&name).copied().unwrap_or_default();
        Ok(self.envoy.counter(&name).await?.saturating_sub(before))
    }

    /// Returns how many requests passed through since the start, by reason.
    pub async fn passed_through(&self) -> Result<BTreeMap<String, u64>> {
        const PREFIX: &str = "wasmcustom.bulk_reshuffle_requests_total.outcome.passed_through.reason.";
        let stats = self.envoy.stats_with("passed_through").await?;
        let grown = stats.into_iter().filter_map(|(name, count)| {
            let before = self.baseline.get(&name).copied().unwrap_or_default();
            let reason = name.strip_prefix(PREFIX)?;
            (count > before).then(|| (reason.to_owned(), count.saturating_sub(before)))
        });
        Ok(grown.collect())
    }

    /// Waits until the filter has accepted this many operations since the start.
    pub async fn wait_for_operations(&self, number: u64) -> Result<()> {
        self.wait_for_count("operations_total", number).await
    }

    /// Waits until one of the filter's counters has grown by this much since the start.
    pub async fn wait_for_count(&self, name: &str, number: u64) -> Result<()> {
        let what = format!("{name} is {number}");
        wait::until(LIMIT, &what, async || Ok((self.counted(name).await? >= number).then_some(()))).await
    }

    /// Waits until each worker has adopted so many states, the first one included.
    pub async fn wait_for_states(&self, states: u64) -> Result<()> {
        self.envoy.wait_for_states(states, LIMIT).await
    }

    /// Waits until one of Envoy's counters or gauges, given by its full name, satisfies a condition.
    pub async fn wait_for_stat(&self, name: &str, is_so: impl Fn(u64) -> bool) -> Result<()> {
        wait::until(LIMIT, name, async || Ok(is_so(self.envoy.counter(name).await?).then_some(()))).await
    }

    /// Waits until the filter's status has what is looked for.
    pub async fn wait_for_status<T>(&self, admin_path: &str, find: impl Fn(&Value) -> Option<T>) -> Result<T> {
        let url = self.envoy.url(&format!("{admin_path}/status"));
        wait::until(LIMIT, "the status shows it", async || Ok(find(&self.client.get(&url).await?.ok()?.json()?))).await
    }

    /// Takes a node down, and returns when Envoy has closed its connections to the node, including those of the
    /// coordinator. A request on a connection that is about to close gets 503, since its outcome is unknown.
    pub async fn take_down(&mut self, node: usize) -> Result<()> {
        self.cluster.take_down(node).await?;
        let address = self.cluster.addresses().nth(node).context("no such node")?;
        wait::until(LIMIT, "Envoy closes its connections to a node that is down", async || {
            Ok((self.envoy.connections_to(address).await? == 0).then_some(()))
        })
        .await
    }

    /// Waits until every worker knows the cluster state; then clears their records.
    pub(crate) async fn warm_up(&mut self) -> Result<()> {
        self.envoy.wait_for_state(LIMIT).await?;
        self.cluster.forget();
        self.baseline = self.envoy.stats_with("wasmcustom").await?;
        Ok(())
    }

    /// Ends the scene. Returns an error if the filter's VM has failed or the filter has reported an error of its own.
    pub async fn finish(self) -> Result<()> {
        self.check().await?;
        self.envoy.stop().await
    }

    /// Returns an error if the filter's VM has failed or the filter has reported an error of its own.
    pub async fn check(&self) -> Result<()> {
        check_filter(&self.envoy).await
    }
}

/// Returns a `POST` of NDJSON with these headers, which may include another content type.
pub fn bulk_request(url: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Result<Request<Bytes>> {
    let mut request = Request::post(url);
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", "application/x-ndjson");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Ok(request.body(body.into())?)
}

/// A pending answer. Dropping it closes the client's connection.
#[derive(Debug)]
pub struct Answer(JoinHandle<Result<Response>>);

impl Answer {
    pub async fn get(mut self) -> Result<Response> {
        (&mut self.0).await?
    }

    pub fn is_there(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.abort();
    }
}
