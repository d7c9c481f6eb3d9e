use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::{
    Client, Cluster, ClusterOptions, Distribution, EnvoyOptions, Profile, Tools, folder_of_this_process,
};
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, OnceCell, OwnedMutexGuard};

/// A limit far above the duration of any step here, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// The name and HTTP address of every node.
pub type Nodes = Vec<(String, SocketAddr)>;

/// The real clusters that the tests of a binary share, because a cluster takes a while to start.
///
/// They end with the process.
#[derive(Debug)]
pub struct SharedClusters {
    temporary: &'static str,
    binary: &'static str,
    folder: OnceLock<PathBuf>,
    shared: Mutex<BTreeMap<String, Arc<OnceCell<Cluster>>>>,
    lent: Mutex<BTreeMap<String, Arc<AsyncMutex<Option<Cluster>>>>>,
}

impl SharedClusters {
    /// Prepares the clusters of this binary. `temporary` is `CARGO_TARGET_TMPDIR`, which is only set for tests.
    pub const fn new(temporary: &'static str, binary: &'static str) -> Self {
        let shared = Mutex::new(BTreeMap::new());
        Self { temporary, binary, folder: OnceLock::new(), shared, lent: Mutex::new(BTreeMap::new()) }
    }

    /// Returns a folder for logs and data of this run. Removes the folders of earlier runs.
    pub fn folder(&self, name: &str) -> PathBuf {
        let of_run = || folder_of_this_process(&Path::new(self.temporary).join(self.binary));
        self.folder.get_or_init(of_run).join(name)
    }

    /// Returns the nodes of the cluster of this name, which the first call starts. Tests use it at the same time.
    pub async fn nodes(&self, name: &str, distribution: Distribution, profile: Profile) -> Result<Nodes> {
        let (cluster, none) = (entry(&self.shared, name), json!({}));
        let cluster = cluster.get_or_try_init(|| self.start(name, distribution, profile, &none)).await?;
        Ok(nodes_of(cluster))
    }

    /// Lends the cluster of this name to one test at a time, which may change its settings, or kill or pause its nodes.
    /// Its nodes have these settings.
    pub async fn lend(
        &self,
        name: &str,
        distribution: Distribution,
        profile: Profile,
        settings: &Value,
    ) -> Result<LentCluster> {
        let mut place = entry(&self.lent, name).lock_owned().await;
        let cluster = match place.take() {
            Some(cluster) => cluster,
            None => self.start(name, distribution, profile, settings).await?,
        };
        Ok(LentCluster { cluster, place })
    }

    async fn start(
        &self,
        name: &str,
        distribution: Distribution,
        profile: Profile,
        settings: &Value,
    ) -> Result<Cluster> {
        let options = ClusterOptions::new(self.folder(name));
        let settings = settings.as_object().cloned().unwrap_or_default();
        Cluster::start(&Tools::find()?, ClusterOptions { distribution, profile, settings, ..options }).await
    }
}

/// A cluster that no other test uses until it is given back. If a test fails before, the cluster ends, and the next test
/// gets a new one.
#[derive(Debug)]
pub struct LentCluster {
    cluster: Cluster,
    place: OwnedMutexGuard<Option<Cluster>>,
}

impl LentCluster {
    /// Returns the cluster for the next test, after it has removed all settings and verified that all nodes are healthy.
    pub async fn give_back(self) -> Result<()> {
        let Self { cluster, mut place } = self;
        let all = json!({"persistent": {"*": null}, "transient": {"*": null}});
        let url = format!("{}/_cluster/settings", cluster.base_url(0)?);
        Client::new().put_json(&url, &all).await?.ok().context("cannot remove the settings")?;
        cluster.wait_green(LIMIT).await?;
        *place = Some(cluster);
        Ok(())
    }

    pub fn nodes(&self) -> Nodes {
        nodes_of(&self.cluster)
    }
}

impl Deref for LentCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl DerefMut for LentCluster {
    fn deref_mut(&mut self) -> &mut Cluster {
        &mut self.cluster
    }
}

/// Adds the Envoy cluster `es` with all nodes, and one for each node with the node's name.
pub fn in_front_of(options: EnvoyOptions, nodes: &[(String, SocketAddr)]) -> EnvoyOptions {
    let options = options.cluster("es", nodes.iter().map(|(_, address)| *address));
    nodes.iter().fold(options, |options, (name, address)| options.cluster(name, [*address]))
}

fn entry<T: Default>(places: &Mutex<BTreeMap<String, Arc<T>>>, name: &str) -> Arc<T> {
    Arc::clone(places.lock().unwrap().entry(name.to_owned()).or_default())
}

fn nodes_of(cluster: &Cluster) -> Nodes {
    cluster.addresses().map(|(name, address)| (name.to_owned(), address)).collect()
}
