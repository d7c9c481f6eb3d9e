use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::{Client, Envoy, Response, wait};
use bytes::Bytes;
use hyper::Request;
use tempfile::TempDir;

use crate::answer::Answer;
use crate::cluster_script::ClusterScript;
use crate::fake_cluster::FakeCluster;
use crate::health::check_filter;
use crate::scene_options::SceneOptions;

const LIMIT: Duration = Duration::from_secs(15);

/// A fake cluster, the real Envoy with the real filter in front of it, and a client.
///
/// End it by [`Scene::finish`], which looks whether the filter is still well.
#[derive(Debug)]
pub struct Scene {
    /// What is behind Envoy.
    pub cluster: FakeCluster,
    /// What the test is about.
    pub envoy: Envoy,
    /// Keeps its connections to Envoy.
    pub client: Client,
    workers: u32,
    baseline: BTreeMap<String, u64>,
    _run_dir: TempDir,
}

impl Scene {
    /// A scene with this cluster.
    pub fn of(script: ClusterScript) -> SceneOptions {
        SceneOptions::new(script)
    }

    pub(crate) fn new(cluster: FakeCluster, envoy: Envoy, workers: u32, run_dir: TempDir) -> Self {
        let baseline = BTreeMap::new();
        Self { cluster, envoy, client: Client::new(), workers, baseline, _run_dir: run_dir }
    }

    /// `POST path` with an NDJSON body.
    pub async fn bulk(&self, path: &str, body: impl Into<Bytes>) -> Result<Response> {
        self.client.post_ndjson(&self.envoy.url(path), body).await
    }

    /// `POST path` with an NDJSON body and further headers.
    pub async fn bulk_with(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Result<Response> {
        self.client.send(self.bulk_request(path, headers, body.into())?).await
    }

    /// Begins a [`bulk_with`](Self::bulk_with); the handle yields the answer.
    pub fn begin_bulk(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        let request = self.bulk_request(path, headers, body.into());
        let client = self.client.clone();
        Answer::spawn(async move { client.send(request?).await })
    }

    /// How much one of the filter's counters has grown since the start.
    pub async fn counted(&self, name: &str) -> Result<u64> {
        let name = format!("wasmcustom.bulk_reshuffle_{name}");
        let before = self.baseline.get(&name).copied().unwrap_or_default();
        Ok(self.envoy.counter(&name).await?.saturating_sub(before))
    }

    /// How many requests passed through since the start, by reason.
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

    /// Waits until the filter has taken in this many operations since the start.
    pub async fn wait_for_operations(&self, number: u64) -> Result<()> {
        self.wait_for_count("operations_total", number).await
    }

    /// Waits until one of the filter's counters has grown by this much since the start.
    pub async fn wait_for_count(&self, name: &str, number: u64) -> Result<()> {
        let what = format!("{name} is {number}");
        wait::until(LIMIT, &what, async || Ok((self.counted(name).await? >= number).then_some(()))).await
    }

    /// How often a worker has learnt a new state since the start, by itself or from another.
    pub async fn states_learnt(&self) -> Result<u64> {
        Ok(self.counted("state_loads_total").await? + self.counted("state_takeovers_total").await?)
    }

    /// Waits until a counter or gauge of Envoy's, by its full name, is as it should be.
    pub async fn wait_for_stat(&self, name: &str, is_so: impl Fn(u64) -> bool) -> Result<()> {
        wait::until(LIMIT, name, async || Ok(is_so(self.envoy.counter(name).await?).then_some(()))).await
    }

    /// Takes a node down, and returns when Envoy has closed its connections to it, those of the coordinating upstream
    /// too: what is sent on one that is about to end gets 503, since nobody knows whether it was carried out.
    pub async fn take_down(&mut self, node: usize) -> Result<()> {
        self.cluster.take_down(node).await?;
        let address = self.cluster.addresses().nth(node).context("no such node")?;
        wait::until(LIMIT, "Envoy has no connection to a node that is down", async || {
            Ok((self.envoy.connections_to(address).await? == 0).then_some(()))
        })
        .await
    }

    /// Sends requests until every worker knows the cluster's state; then forgets them.
    pub(crate) async fn warm_up(&mut self) -> Result<()> {
        /// One of the workers reads the state, the others take it over.
        const LOADS: [&str; 2] = ["loads", "takeovers"];
        let workers = u64::from(self.workers);
        wait::until(LIMIT, "every worker knows the state", async || {
            // A connection belongs to one worker, so each try needs a new one. A request without operations passes
            // through whatever the filter knows, and gives it no reason to look at the state again.
            Client::new().post_ndjson(&self.envoy.url("/_bulk"), "\n").await?;
            let mut loads = 0;
            for kind in LOADS {
                loads += self.envoy.counter(&format!("wasmcustom.bulk_reshuffle_state_{kind}_total")).await?;
            }
            Ok((loads >= workers).then_some(()))
        })
        .await?;
        self.cluster.forget();
        self.baseline = self.envoy.stats_with("wasmcustom").await?;
        Ok(())
    }

    /// Ends the scene; an error if the filter's VM has failed or the filter has found fault with itself.
    pub async fn finish(self) -> Result<()> {
        self.check().await?;
        self.envoy.stop().await
    }

    /// An error if the filter's VM has failed.
    pub async fn check(&self) -> Result<()> {
        check_filter(&self.envoy).await
    }

    fn bulk_request(&self, path: &str, headers: &[(&str, &str)], body: Bytes) -> Result<Request<Bytes>> {
        let mut request = Request::post(self.envoy.url(path));
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/x-ndjson");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Ok(request.body(body)?)
    }
}
