use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::load;
use bulk_reshuffle_istio::Network;
use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, Tools};
use serde_json::json;
use tempfile::TempDir;

use crate::stateful_set::StatefulSet;

/// Far more than anything here takes, even on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The namespace of everything.
pub const NAMESPACE: &str = "search";

/// Where the nodes listen, and proxies for their clients.
pub const PORT: u16 = 9200;

/// The example's StatefulSet and Services, with three real nodes in the places of its pods.
pub struct Site {
    pub tools: Tools,
    pub client: Client,
    pub cluster: Cluster,
    pub network: Network,
    /// What Kubernetes knows of it.
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
        let mut options = ClusterOptions::new(run_dir.path().join("nodes"));
        (options.http_hosts, options.http_ports) = (hosts, vec![PORT; 3]);
        let cluster = Cluster::start(&tools, options).await?;
        Ok(Self { tools, client: Client::new(), cluster, network, set, run_dir })
    }

    /// A folder for a test's logs.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.run_dir.path().join(name)
    }

    /// Makes an index of six shards without copies, in place of one of that name.
    pub async fn make_index(&self, name: &str) -> Result<()> {
        let url = self.direct(&format!("/{name}"))?;
        self.client.delete(&url).await?;
        let settings = json!({"number_of_shards": 6, "number_of_replicas": 0, "refresh_interval": -1});
        let properties = json!({
            "n": {"type": "long"}, "text": {"type": "keyword", "index": false, "doc_values": false},
        });
        let index = json!({"settings": settings, "mappings": {"properties": properties}});
        self.client.put_json(&url, &index).await?.ok()?;
        self.cluster.wait_green(LIMIT).await
    }

    /// How many of an index's documents each node has.
    pub async fn documents_by_node(&self, index: &str) -> Result<BTreeMap<String, u64>> {
        self.client.post_json(&self.direct(&format!("/{index}/_refresh"))?, &json!({})).await?.ok()?;
        let shards =
            self.client.get_json(&self.direct(&format!("/_cat/shards/{index}?format=json&h=node,docs"))?).await?;
        let mut counts = BTreeMap::new();
        for shard in shards.as_array().context("no shards")? {
            let (node, count) = shard["node"].as_str().zip(shard["docs"].as_str()).context("a shard is nowhere")?;
            *counts.entry(node.to_owned()).or_default() += count.parse::<u64>()?;
        }
        Ok(counts)
    }

    /// Ids and numbers of all documents of an index.
    pub async fn documents(&self, index: &str) -> Result<Vec<(String, u64)>> {
        load::documents(&self.client, &self.direct("")?, index).await
    }

    fn direct(&self, path: &str) -> Result<String> {
        Ok(format!("{}{path}", self.cluster.base_url(0)?))
    }
}
