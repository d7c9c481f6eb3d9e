use std::path::Path;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{FakeCluster, Step, check_filter, last_index};
use bulk_reshuffle_stack::{
    Client, Cluster, ClusterOptions, Distribution, Envoy, EnvoyOptions, FilterConfig, Profile, Tools, wait,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::target::Target;
use crate::counts::Counts;
use crate::default_distribution::answer_as_default_distribution;
use crate::documents::{Document, count, documents};
use crate::execution::LIMIT;

const ADMIN: &str = "/_bulk_reshuffle";

/// Three nodes of a release, a relay to them, and Envoy with the filter in front of the relay.
pub struct Scene {
    pub client: Client,
    cluster: Cluster,
    relay: FakeCluster,
    envoy: Envoy,
    folder: TempDir,
}

impl Scene {
    pub async fn start(release: Distribution) -> Result<Self> {
        let (tools, folder) = (Tools::find()?, tempfile::tempdir()?);
        // Some writers drop requests that a node refuses because its memory is full of garbage.
        let profile = Profile::Large;
        let options =
            ClusterOptions { distribution: release, profile, ..ClusterOptions::new(folder.path().join("nodes")) };
        let cluster = Cluster::start(&tools, options).await?;
        let addresses: Vec<_> = cluster.addresses().map(|(_, address)| address).collect();
        let relay = FakeCluster::in_front_of(&addresses).await?;
        answer_as_default_distribution(&relay, addresses).await?;
        let mut options = EnvoyOptions::new(folder.path()).cluster("es", relay.addresses());
        for ((name, _), address) in cluster.addresses().zip(relay.addresses()) {
            options = options.cluster(name, [address]);
        }
        options.filter = FilterConfig::Merged(json!({"cluster_state": {"refresh": "1s"}, "admin_path": ADMIN}));
        let envoy = Envoy::start(&tools, options).await?;
        envoy.wait_for_state(LIMIT).await?;
        Ok(Self { client: Client::new(), cluster, relay, envoy, folder })
    }

    /// Returns the URL of the first node.
    pub fn direct(&self) -> Result<String> {
        let first = self.relay.addresses().next().context("no node")?;
        Ok(format!("http://{first}"))
    }

    /// Returns the URL of Envoy with the filter.
    pub fn filtered(&self) -> String {
        self.envoy.url("")
    }

    /// Returns the folder for the files of programs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sends a request that must succeed to a node.
    pub async fn take(&self, step: &Step) -> Result<()> {
        step.take(&self.client, &self.cluster.base_url(0)?).await
    }

    /// Creates empty targets, and waits until the filter knows them.
    pub async fn create(&self, targets: &[Target]) -> Result<()> {
        self.delete(targets).await?;
        for target in targets {
            for step in target.created() {
                self.take(&step).await?;
            }
        }
        self.cluster.wait_green(LIMIT).await?;
        let version = async |url: String, pointer: &str| -> Result<u64> {
            let answer = self.client.get_json(&url).await?;
            answer.pointer(pointer).and_then(Value::as_u64).context("no version")
        };
        let current = version(self.node("/_cluster/state/version")?, "/version").await?;
        wait::until(LIMIT, "the filter knows the cluster's state", async || {
            // The filter polls when requests arrive.
            self.client.post_ndjson(&self.envoy.url("/_bulk"), "\n").await?;
            let known = version(self.envoy.url(&format!("{ADMIN}/status")), "/state/version").await?;
            Ok((known >= current).then_some(()))
        })
        .await
    }

    /// Deletes the targets that are indices.
    pub async fn delete(&self, targets: &[Target]) -> Result<()> {
        for target in targets.iter().filter(|target| !target.is_stream) {
            self.client.delete(&self.node(&format!("/{}", target.name))?).await?;
        }
        Ok(())
    }

    /// Returns the name of the index that a target writes to.
    async fn index(&self, target: &Target) -> Result<String> {
        match target.is_stream {
            true => last_index(&self.client, &self.cluster.base_url(0)?, &target.name).await,
            false => Ok(target.name.clone()),
        }
    }

    /// Returns the documents of targets.
    pub async fn documents(&self, targets: &[Target]) -> Result<Vec<Document>> {
        let mut found = Vec::new();
        for target in targets {
            found.extend(documents(&self.client, &self.cluster.base_url(0)?, &self.index(target).await?).await?);
        }
        Ok(found)
    }

    /// Returns the number of documents of targets.
    pub async fn count(&self, targets: &[Target]) -> Result<usize> {
        let mut found = 0;
        for target in targets {
            found += count(&self.client, &self.cluster.base_url(0)?, &self.index(target).await?).await?;
        }
        Ok(found)
    }

    /// Returns the current values of the filter's counters.
    pub async fn counted(&self) -> Result<Counts> {
        Counts::of(&self.envoy).await
    }

    /// Removes the recorded requests.
    pub fn forget(&self) {
        self.relay.forget();
    }

    /// Returns the first bulk request since then, for messages.
    pub fn first_request(&self) -> String {
        let first = self.relay.bulks().into_iter().find(|bulk| bulk.body.len() > 1);
        first.map_or_else(
            || "no bulk request arrived".to_owned(),
            |bulk| {
                let body = bulk.plain().unwrap_or_default();
                format!("POST {} {:.300}", bulk.target, String::from_utf8_lossy(&body))
            },
        )
    }

    /// Stops everything, and checks the filter's health.
    pub async fn stop(self) -> Result<()> {
        check_filter(&self.envoy).await?;
        self.envoy.stop().await?;
        self.cluster.stop().await
    }

    fn node(&self, path: &str) -> Result<String> {
        Ok(format!("{}{path}", self.cluster.base_url(0)?))
    }
}
