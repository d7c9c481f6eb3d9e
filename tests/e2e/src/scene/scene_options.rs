use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_stack::{Client, Envoy, EnvoyOptions, FilterConfig, Tools, merge};
use serde_json::{Value, json};

use super::Scene;
use crate::{ClusterScript, FakeCluster, Index, Reaction};

/// The environment variable with the path of another compiled filter than that of `make build`.
const WASM: &str = "BULK_RESHUFFLE_WASM";

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

pub struct SceneOptions {
    script: ClusterScript,
    addresses: Option<Vec<SocketAddr>>,
    config: Value,
    coordinators: Option<Vec<usize>>,
    without_upstream: Vec<usize>,
    envoy: EnvoyOptions,
}

impl SceneOptions {
    pub(crate) fn new(script: ClusterScript) -> Self {
        // Scripted nodes answer when a test says so, which takes longer on a busy machine. No batch may be late then.
        let hold = json!({"late_after": "1h"});
        let config = json!({"coordinator": "es", "nodes": {"upstream": "{name}"}, "hold": hold});
        let wasm = std::env::var_os(WASM).map(PathBuf::from);
        // The folder is created at the start.
        let envoy = EnvoyOptions { wasm, ..EnvoyOptions::new("").shared() };
        Self { script, addresses: None, config, coordinators: None, without_upstream: Vec::new(), envoy }
    }

    /// Adds an index to the cluster.
    pub fn index(self, index: Index) -> Self {
        Self { script: self.script.index(index), ..self }
    }

    /// Starts nodes at these addresses. They may be more than the cluster's, so that a test can add nodes.
    pub fn at(self, addresses: Vec<SocketAddr>) -> Self {
        Self { addresses: Some(addresses), ..self }
    }

    /// Uses another shipped configuration than `envoy/envoy.yaml`, given by its path in the checkout.
    pub fn file(mut self, path: &str) -> Self {
        self.envoy.config = Some(Path::new(ROOT).join(path));
        self
    }

    /// Reaches all nodes through one Envoy cluster, as in `envoy/one-cluster.yaml`.
    pub fn one_cluster(mut self) -> Self {
        self.without_upstream = (0..self.script.nodes).collect();
        self.config["nodes"] = json!({"header": "x-bulk-reshuffle-node"});
        self.file("envoy/one-cluster.yaml")
    }

    /// Merges fields into the filter's configuration.
    pub fn config(mut self, fields: Value) -> Self {
        merge(&mut self.config, &fields);
        self
    }

    /// Sets the filter's whole configuration.
    pub fn whole_config(self, config: Value) -> Self {
        Self { config, ..self }
    }

    pub fn workers(mut self, workers: u32) -> Self {
        self.envoy.concurrency = workers;
        self
    }

    /// Limits the coordinator to these nodes.
    pub fn coordinators(self, nodes: impl IntoIterator<Item = usize>) -> Self {
        Self { coordinators: Some(nodes.into_iter().collect()), ..self }
    }

    /// Leaves a node's own upstream out of Envoy's configuration.
    pub fn without_upstream(mut self, node: usize) -> Self {
        self.without_upstream.push(node);
        self
    }

    pub fn wasm(mut self, wasm: PathBuf) -> Self {
        self.envoy.wasm = Some(wasm);
        self
    }

    /// Sets how long a replaced or removed listener keeps serving, in whole seconds.
    pub fn drain_time(mut self, drain_time: Duration) -> Self {
        self.envoy.drain_time = drain_time;
        self
    }

    /// Starts an Envoy for this scene alone. Only a scene whose subject is Envoy's process needs one.
    pub fn own_envoy(mut self) -> Self {
        self.envoy.is_shared = false;
        self
    }

    /// Makes a final change to Envoy's configuration.
    pub fn edit(self, edit: impl FnOnce(&mut Value) -> Result<()> + Send + 'static) -> Self {
        Self { envoy: self.envoy.edit(edit), ..self }
    }

    /// Starts everything, and returns when the filter knows the cluster state.
    pub async fn start(self) -> Result<Scene> {
        let mut scene = self.start_cold().await?;
        scene.warm_up().await?;
        Ok(scene)
    }

    /// Starts everything, with nodes that refuse to tell their state until their reaction is changed.
    pub async fn start_without_state(self) -> Result<Scene> {
        self.start_with(|cluster| {
            cluster.react_to_state_queries(|_| Some(Reaction::refusal(503, "cluster_block_exception", "not yet")))
        })
        .await
    }

    /// Starts everything; the filter may not know the cluster state yet.
    pub async fn start_cold(self) -> Result<Scene> {
        self.start_with(|_| ()).await
    }

    /// Starts everything, with nodes that are prepared before Envoy starts.
    pub async fn start_with(self, prepare: impl FnOnce(&FakeCluster)) -> Result<Scene> {
        let Self { script, addresses, config, coordinators, without_upstream, envoy } = self;
        let run_dir = tempfile::tempdir()?;
        let cluster = match addresses {
            Some(addresses) => FakeCluster::start_at(script, addresses).await?,
            None => FakeCluster::start(script).await?,
        };
        prepare(&cluster);
        let nodes: Vec<_> = cluster.addresses().enumerate().collect();
        let is_coordinator = |node: usize| coordinators.as_ref().is_none_or(|nodes| nodes.contains(&node));
        let coordinators = nodes.iter().filter(|(node, _)| is_coordinator(*node)).map(|(_, address)| *address);
        let mut options = envoy.cluster("es", coordinators);
        for (node, address) in nodes.iter().filter(|(node, _)| !without_upstream.contains(node)) {
            options = options.cluster(&format!("es-{node}"), [*address]);
        }
        options.run_dir = run_dir.path().to_owned();
        options.filter = FilterConfig::Value(config);
        let envoy = Envoy::start(&Tools::find()?, options).await?;
        let (client, baseline) = (Client::new(), BTreeMap::new());
        Ok(Scene { cluster, envoy, client, baseline, _run_dir: run_dir })
    }
}
