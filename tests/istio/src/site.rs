use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::Wiretap;
use bulk_reshuffle_stack::{Network, Tools};
use tempfile::TempDir;

use crate::nodes::Nodes;
use crate::pod::{Pod, StatefulSet};

/// The namespace of all objects.
pub const NAMESPACE: &str = "search";

/// Three real nodes at the addresses of the example's pods, and the servers that all meshes share.
#[derive(Debug)]
pub struct Site<S = ()> {
    pub tools: Tools,
    pub nodes: Nodes,
    /// The addresses of pods.
    pub network: Network,
    /// The StatefulSet's objects in Kubernetes.
    pub set: StatefulSet,
    /// The servers that all meshes share.
    pub servers: S,
    run_dir: TempDir,
}

impl<S> Site<S> {
    /// Starts the nodes and the shared servers, whose logs are in a folder.
    pub async fn start(network: Network, servers: impl AsyncFnOnce(&Tools, &Path) -> Result<S>) -> Result<Self> {
        let (tools, run_dir) = (Tools::find()?, tempfile::tempdir()?);
        tools.wasm()?;
        let hosts = (0..3).map(|_| network.address()).collect::<Result<Vec<Ipv4Addr>>>()?;
        let set = StatefulSet::of_example(&tools, &hosts)?;
        let nodes = Nodes::start(&tools, run_dir.path().join("nodes"), hosts);
        let (nodes, servers) = tokio::try_join!(nodes, servers(&tools, run_dir.path()))?;
        Ok(Self { tools, nodes, network, set, servers, run_dir })
    }

    /// Returns the nodes' pods at addresses for sidecars, and a relay to each node behind its sidecar. Sidecars forward
    /// only to loopback, where three nodes cannot share a port.
    pub async fn pods_with_sidecars(&self) -> Result<(Vec<Pod>, Vec<Wiretap>)> {
        let (mut pods, mut relays) = (Vec::new(), Vec::new());
        for pod in &self.set.pods {
            relays.push(Wiretap::start((pod.address, Nodes::PORT).into()).await?);
            pods.push(Pod { address: self.network.address()?, ..pod.clone() });
        }
        Ok((pods, relays))
    }

    /// Returns the path of a folder for a test's logs.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.run_dir.path().join(name)
    }

    /// Returns the text of a file of the checkout.
    pub fn text(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.tools.root.join(path)).with_context(|| path.to_owned())
    }
}
