use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_istio::{Network, Nodes};
use bulk_reshuffle_stack::Tools;
use tempfile::TempDir;

use crate::stateful_set::StatefulSet;

/// A generous time limit, even on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The namespace of all objects.
pub const NAMESPACE: &str = "search";

/// The port of the nodes, and of proxies for their clients.
pub const PORT: u16 = 9200;

/// The example's StatefulSet and Services, with three real nodes at the addresses of its pods.
pub struct Site {
    pub tools: Tools,
    pub nodes: Nodes,
    pub network: Network,
    /// The StatefulSet's objects in Kubernetes.
    pub set: StatefulSet,
    run_dir: TempDir,
}

impl Site {
    /// Starts the nodes.
    pub async fn start() -> Result<Self> {
        let (tools, network, run_dir) = (Tools::find()?, Network::find()?, tempfile::tempdir()?);
        tools.wasm()?;
        let hosts = (0..3).map(|_| network.address()).collect::<Result<Vec<Ipv4Addr>>>()?;
        let set = StatefulSet::of_example(&tools, &hosts)?;
        let nodes = Nodes::start(&tools, run_dir.path().join("nodes"), hosts).await?;
        Ok(Self { tools, nodes, network, set, run_dir })
    }

    /// Returns the path of a folder for a test's logs.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.run_dir.path().join(name)
    }
}
