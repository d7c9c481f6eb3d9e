use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bulk_reshuffle_e2e::{FakeCluster, LentCluster, Nodes, SharedClusters, ShippedFiles, in_front_of};
use bulk_reshuffle_stack::{Client, Distribution, Envoy, EnvoyOptions, FilterConfig, Response, Tools, wait};
use serde_json::{Value, json};

/// A limit far above the duration of any step here, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The clusters of this binary.
static CLUSTERS: SharedClusters = SharedClusters::new(env!("CARGO_TARGET_TMPDIR"), "real");

/// Returns the nodes of the cluster that all tests share.
pub async fn nodes(distribution: Distribution) -> Nodes {
    CLUSTERS.nodes(distribution.name(), distribution, crate::PROFILE).await.unwrap()
}

/// Lends the cluster that no other test uses at the same time. Its nodes have the same names as those of the shared one.
pub async fn lend_alone() -> LentCluster {
    CLUSTERS.lend("alone", distribution(), crate::PROFILE, &json!({})).await.unwrap()
}

/// Creates an index with explicit mappings at the node with this URL, in place of an earlier one.
pub async fn create_index(client: &Client, node: &str, name: &str, settings: Value) {
    let mut whole = json!({"number_of_shards": 6, "number_of_replicas": 0, "refresh_interval": -1});
    whole.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    let index = json!({"settings": whole, "mappings": {"properties": {
        "n": {"type": "integer"}, "text": {"type": "keyword", "index": false, "doc_values": false},
    }}});
    let url = format!("{node}/{name}");
    client.delete(&url).await.unwrap();
    client.put_json(&url, &index).await.unwrap().ok().unwrap();
}

/// Returns the default distribution of the tests: `DISTRIBUTION` of the environment, or OpenSearch 2.
pub fn distribution() -> Distribution {
    std::env::var("DISTRIBUTION").map_or_else(|_| Distribution::default(), |name| name.parse().unwrap())
}

/// The shared cluster with an Envoy for this test alone in front of it.
pub struct SharedScene {
    pub client: Client,
    pub envoy: Envoy,
    nodes: Nodes,
    /// The cluster, if no other test uses it at the same time.
    lent: Option<LentCluster>,
}

pub fn folder(name: &str) -> PathBuf {
    CLUSTERS.folder(name)
}

/// Returns the options of an Envoy with one worker in front of these nodes, with these fields in the filter's
/// configuration. With `nodes.header`, Envoy has one cluster for all nodes.
pub fn options(name: &str, nodes: &Nodes, config: Value) -> EnvoyOptions {
    let mut options = in_front_of(EnvoyOptions::new(folder(name)), nodes);
    let mut whole = json!({"coordinator": "es", "nodes": {"upstream": "{name}"}});
    whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    if whole.pointer("/nodes/header").is_some() {
        options.config = Some(Tools::find().unwrap().root.join("envoy/one-cluster.yaml"));
        options.clusters.retain(|(name, _)| name == "es");
    }
    options.filter = FilterConfig::Value(whole);
    options.shared()
}

impl SharedScene {
    /// Starts the shipped Envoy with one worker, and waits until the filter knows the cluster state.
    pub async fn start(name: &str) -> Self {
        Self::start_with(name, json!({})).await
    }

    /// Does the same as [`start`](Self::start), with these fields in the filter's configuration.
    pub async fn start_with(name: &str, config: Value) -> Self {
        Self::start_in_front_of(distribution(), name, config).await
    }

    /// Does the same as [`start_with`](Self::start_with), in front of this distribution.
    pub async fn start_in_front_of(distribution: Distribution, name: &str, config: Value) -> Self {
        Self::start_over(nodes(distribution).await, name, config).await
    }

    async fn start_over(nodes: Nodes, name: &str, config: Value) -> Self {
        let envoy = Envoy::start(&Tools::find().unwrap(), options(name, &nodes, config)).await.unwrap();
        Self::ready(nodes, envoy).await
    }

    /// Does the same as [`start_with`](Self::start_with), in front of a cluster that no other test uses at the same
    /// time, or of another cluster, whose nodes have these settings.
    pub async fn start_alone(name: &str, config: Value, settings: Option<Value>) -> Self {
        let (cluster, settings) = settings.map_or(("alone", json!({})), |settings| (name, settings));
        let lent = CLUSTERS.lend(cluster, distribution(), crate::PROFILE, &settings).await.unwrap();
        let scene = Self::start_over(lent.nodes(), name, config).await;
        Self { lent: Some(lent), ..scene }
    }

    /// Does the same as [`start_with`](Self::start_with), with a relay that records the requests to the nodes, and with
    /// a change to Envoy's options.
    pub async fn start_recorded(
        name: &str,
        config: Value,
        change: impl FnOnce(EnvoyOptions) -> EnvoyOptions,
    ) -> (Self, FakeCluster) {
        Self::start_recorded_in_front_of(distribution(), name, config, change).await
    }

    /// Does the same as [`start_recorded`](Self::start_recorded), in front of this distribution.
    pub async fn start_recorded_in_front_of(
        distribution: Distribution,
        name: &str,
        config: Value,
        change: impl FnOnce(EnvoyOptions) -> EnvoyOptions,
    ) -> (Self, FakeCluster) {
        let nodes = nodes(distribution).await;
        let (received, in_between) = FakeCluster::relay(&nodes).await.unwrap();
        let options = change(options(name, &in_between, config));
        let envoy = Envoy::start(&Tools::find().unwrap(), options).await.unwrap();
        (Self::ready(nodes, envoy).await, received)
    }

    /// Starts one of the shipped configurations on free ports, optionally with other replacements, and with a relay
    /// that records the requests to the nodes.
    pub async fn start_shipped(
        name: &str,
        file: &str,
        replace: impl FnOnce(ShippedFiles) -> ShippedFiles,
    ) -> (Self, FakeCluster) {
        let nodes = nodes(distribution()).await;
        let (received, _) = FakeCluster::relay(&nodes).await.unwrap();
        let files = ShippedFiles::new(folder(name)).unwrap().nodes(received.addresses());
        let envoy = replace(files).start(file).await.unwrap();
        (Self::ready(nodes, envoy).await, received)
    }

    async fn ready(nodes: Nodes, envoy: Envoy) -> Self {
        let scene = Self::of(nodes, envoy);
        scene.envoy.wait_for_state(LIMIT).await.unwrap();
        // Other tests change the cluster state, so the main thread's VM may have adopted two, and the worker's none.
        wait::until(LIMIT, "the worker knows the cluster state", async || {
            let unknown = async || scene.envoy.stats_with("reason.no_state").await;
            let before = unknown().await?;
            scene.bulk("\n").await;
            Ok((unknown().await? == before).then_some(()))
        })
        .await
        .unwrap();
        scene
    }

    /// Creates a scene with an Envoy that the test has started itself.
    pub fn of(nodes: Nodes, envoy: Envoy) -> Self {
        Self { client: Client::new(), envoy, nodes, lent: None }
    }

    /// Ends the test, and checks that the VM has not been reloaded.
    pub async fn end(self) {
        assert_eq!(self.counter("wasm.bulk_reshuffle.vm_reload").await, 0, "the VM died:\n{}", self.envoy.log());
        let log = self.envoy.log();
        assert!(!log.contains("panicked") && !log.contains("[error][wasm]"), "{log}");
        self.envoy.stop().await.unwrap();
        if let Some(cluster) = self.lent {
            cluster.give_back().await.unwrap();
        }
    }

    /// Creates an index with explicit mappings, and waits until the filter routes to it.
    pub async fn index(&self, name: &str, settings: Value) {
        self.create_index(name, settings).await;
        self.wait_for_routing(name).await;
    }

    /// Creates an index with explicit mappings.
    pub async fn create_index(&self, name: &str, settings: Value) {
        create_index(&self.client, &self.direct(0, ""), name, settings).await;
    }

    /// Waits until operations on all shards of an index or alias are split.
    pub async fn wait_for_routing(&self, name: &str) {
        self.wait_for_routing_of(name, async |probe| drop(self.bulk(&probe).await)).await;
    }

    /// Does the same as [`wait_for_routing`](Self::wait_for_routing), with another way to send a request.
    pub async fn wait_for_routing_of(&self, name: &str, send: impl AsyncFn(String)) {
        let line = |n| format!("{{\"delete\":{{\"_index\":\"{name}\",\"_id\":\"probe-{n}\"}}}}\n");
        let probe: String = (0..64).map(line).collect();
        wait::until(LIMIT, "the filter routes to the index", async || {
            let before = self.merged().await;
            send(probe.clone()).await;
            Ok((self.merged().await > before).then_some(()))
        })
        .await
        .unwrap();
    }

    /// Returns a URL at a node.
    pub fn direct(&self, node: usize, path: &str) -> String {
        format!("http://{}{path}", self.nodes[node % self.nodes.len()].1)
    }

    pub async fn bulk(&self, body: &str) -> Response {
        self.client.post_ndjson(&self.envoy.url("/_bulk"), body.to_owned()).await.unwrap()
    }

    pub async fn documents(&self, index: &str) -> u64 {
        self.client.get(&self.direct(0, &format!("/{index}/_refresh"))).await.unwrap().ok().unwrap();
        self.get(&format!("/{index}/_count")).await["count"].as_u64().unwrap()
    }

    /// Returns the JSON answer of a node.
    pub async fn get(&self, path: &str) -> Value {
        self.client.get_json(&self.direct(0, path)).await.unwrap()
    }

    /// Returns one of the filter's counters.
    pub async fn counted(&self, name: &str) -> u64 {
        self.counter(&format!("wasmcustom.bulk_reshuffle_{name}")).await
    }

    /// Returns how many requests the filter has split.
    pub async fn merged(&self) -> u64 {
        self.counted("requests_total.outcome.merged").await
    }

    pub async fn counter(&self, name: &str) -> u64 {
        self.envoy.counter(name).await.unwrap()
    }

    /// Returns one of the filter's counters by upstream.
    pub async fn by_upstream(&self, name: &str) -> BTreeMap<String, u64> {
        let prefix = format!("wasmcustom.bulk_reshuffle_{name}_total.upstream.");
        let stats = self.envoy.stats_with(&format!("bulk_reshuffle_{name}_total")).await.unwrap();
        stats.into_iter().filter_map(|(name, value)| Some((name.strip_prefix(&prefix)?.to_owned(), value))).collect()
    }

    pub async fn wait_for(&self, counter: &str, value: u64) {
        let name = format!("wasmcustom.{counter}");
        wait::until(LIMIT, "the filter knows the cluster state", async || {
            self.bulk("\n").await;
            Ok((self.counter(&name).await >= value).then_some(()))
        })
        .await
        .unwrap();
    }
}
