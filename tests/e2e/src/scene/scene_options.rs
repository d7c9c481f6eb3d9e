use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_stack::{Envoy, EnvoyOptions, FilterConfig, Tools};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Scene;
use crate::{ClusterScript, FakeCluster, Index};

type Edit = Box<dyn FnOnce(&mut Value) -> Result<()> + Send>;

/// The environment variable with the path of another compiled filter than that of `make build`.
const WASM: &str = "BULK_RESHUFFLE_WASM";

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

pub struct SceneOptions {
    script: ClusterScript,
    file: Option<PathBuf>,
    config: Value,
    workers: u32,
    coordinators: Option<Vec<usize>>,
    without_upstream: Vec<usize>,
    wasm: Option<PathBuf>,
    drain_time: Duration,
    has_own_envoy: bool,
    edit: Option<Edit>,
}

impl SceneOptions {
    pub(crate) fn new(script: ClusterScript) -> Self {
        // Scripted nodes answer when a test says so, which takes longer on a busy machine. No batch may be late then.
        let hold = json!({"late_after": "1h"});
        Self {
            script,
            file: None,
            config: json!({"coordinator": "es", "nodes": {"upstream": "{name}"}, "hold": hold}),
            workers: 1,
            coordinators: None,
            without_upstream: Vec::new(),
            wasm: std::env::var_os(WASM).map(PathBuf::from),
            drain_time: Duration::ZERO,
            has_own_envoy: false,
            edit: None,
        }
    }

    /// Adds an index to the cluster.
    pub fn index(self, index: Index) -> Self {
        Self { script: self.script.index(index), ..self }
    }

    /// Uses another shipped configuration than `envoy/envoy.yaml`, given by its path in the checkout.
    pub fn file(self, path: &str) -> Self {
        Self { file: Some(path.into()), ..self }
    }

    /// Merges fields into the filter's configuration.
    pub fn config(mut self, fields: Value) -> Self {
        merge(&mut self.config, fields);
        self
    }

    /// Sets the filter's whole configuration.
    pub fn whole_config(self, config: Value) -> Self {
        Self { config, ..self }
    }

    pub fn workers(self, workers: u32) -> Self {
        Self { workers, ..self }
    }

    /// Limits the coordinating upstream to these nodes.
    pub fn coordinators(self, nodes: impl IntoIterator<Item = usize>) -> Self {
        Self { coordinators: Some(nodes.into_iter().collect()), ..self }
    }

    /// Leaves a node's own upstream out of Envoy's configuration.
    pub fn without_upstream(mut self, node: usize) -> Self {
        self.without_upstream.push(node);
        self
    }

    pub fn wasm(self, wasm: PathBuf) -> Self {
        Self { wasm: Some(wasm), ..self }
    }

    /// Sets how long a replaced or removed listener keeps serving, in whole seconds.
    pub fn drain_time(self, drain_time: Duration) -> Self {
        Self { drain_time, ..self }
    }

    /// Starts an Envoy for this scene alone. Only a scene whose subject is Envoy's process needs one.
    pub fn own_envoy(self) -> Self {
        Self { has_own_envoy: true, ..self }
    }

    /// Makes a final change to Envoy's configuration.
    pub fn edit(self, edit: impl FnOnce(&mut Value) -> Result<()> + Send + 'static) -> Self {
        Self { edit: Some(Box::new(edit)), ..self }
    }

    /// Starts everything, and returns when the filter knows the cluster state.
    pub async fn start(self) -> Result<Scene> {
        let mut scene = self.start_cold().await?;
        scene.warm_up().await?;
        Ok(scene)
    }

    /// Starts everything; the filter has not polled the cluster state yet.
    pub async fn start_cold(mut self) -> Result<Scene> {
        let cluster = FakeCluster::start(self.script.clone()).await?;
        let run_dir = tempfile::tempdir()?;
        let workers = self.workers;
        let options = self.envoy_options(&cluster, &run_dir);
        let envoy = Envoy::start(&Tools::find()?, options).await?;
        Ok(Scene::new(cluster, envoy, workers, run_dir))
    }

    fn envoy_options(&mut self, cluster: &FakeCluster, run_dir: &TempDir) -> EnvoyOptions {
        let addresses: Vec<SocketAddr> = cluster.addresses().collect();
        let is_coordinator = |node: usize| self.coordinators.as_ref().is_none_or(|nodes| nodes.contains(&node));
        let numbered = || addresses.iter().copied().enumerate();
        let coordinators = numbered().filter(|(node, _)| is_coordinator(*node)).map(|(_, address)| address);
        let mut options = EnvoyOptions::new(run_dir.path()).cluster("es", coordinators);
        for (node, address) in numbered().filter(|(node, _)| !self.without_upstream.contains(node)) {
            options = options.cluster(&format!("es-{node}"), [address]);
        }
        options.config = self.file.take().map(|file| Path::new(ROOT).join(file));
        options.filter = FilterConfig::Value(self.config.take());
        options.wasm = self.wasm.take();
        if !self.has_own_envoy {
            options = options.shared();
        }
        options.drain_time = self.drain_time;
        options.concurrency = self.workers;
        options.edit = self.edit.take();
        options
    }
}

/// Merges fields into an object, recursively.
fn merge(into: &mut Value, fields: Value) {
    match (into, fields) {
        (Value::Object(into), Value::Object(fields)) => {
            for (name, value) in fields {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, value) => *into = value,
    }
}
