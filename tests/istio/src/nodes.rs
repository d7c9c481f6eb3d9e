use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::load;
use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, Tools};
use serde_json::{Value, json};

use crate::LIMIT;

/// Three real nodes at the addresses of a StatefulSet's pods. Dropping them kills the processes.
#[derive(Debug)]
pub struct Nodes {
    pub client: Client,
    pub cluster: Cluster,
}

impl Nodes {
    /// The HTTP port of every node.
    pub const PORT: u16 = 9200;

    /// Starts the nodes at these addresses.
    pub async fn start(tools: &Tools, run_dir: PathBuf, hosts: Vec<Ipv4Addr>) -> Result<Self> {
        let mut options = ClusterOptions::new(run_dir);
        (options.http_ports, options.http_hosts) = (vec![Self::PORT; hosts.len()], hosts);
        Ok(Self { client: Client::new(), cluster: Cluster::start(tools, options).await? })
    }

    /// Creates an index of six primary shards without replicas, and replaces an existing index of that name.
    pub async fn make_index(&self, name: &str) -> Result<()> {
        self.make_index_with(name, 0).await
    }

    /// Creates such an index with this number of replicas.
    pub async fn make_index_with(&self, name: &str, replicas: u64) -> Result<()> {
        let url = self.url(&format!("/{name}"))?;
        self.client.delete(&url).await?;
        let settings = json!({"number_of_shards": 6, "number_of_replicas": replicas, "refresh_interval": -1});
        let properties = json!({
            "n": {"type": "long"}, "text": {"type": "keyword", "index": false, "doc_values": false},
        });
        let index = json!({"settings": settings, "mappings": {"properties": properties}});
        self.client.put_json(&url, &index).await?.ok()?;
        self.cluster.wait_green(LIMIT).await
    }

    /// Returns the number of an index's documents on each node.
    pub async fn documents_by_node(&self, index: &str) -> Result<BTreeMap<String, u64>> {
        self.client.post_json(&self.url(&format!("/{index}/_refresh"))?, &json!({})).await?.ok()?;
        let shards = self.client.get_json(&self.url(&format!("/_cat/shards/{index}?format=json&h=node,docs"))?).await?;
        let mut counts = BTreeMap::new();
        for shard in shards.as_array().context("the answer has no shards")? {
            let text = |field| shard.get(field).and_then(Value::as_str);
            let (node, count) = text("node").zip(text("docs")).context("a shard is not allocated")?;
            let documents: &mut u64 = counts.entry(node.to_owned()).or_default();
            *documents += count.parse::<u64>()?;
        }
        Ok(counts)
    }

    /// Returns the ids and numbers of all documents of an index.
    pub async fn documents(&self, index: &str) -> Result<Vec<(String, u64)>> {
        load::documents(&self.client, &self.url("")?, index).await
    }

    fn url(&self, path: &str) -> Result<String> {
        Ok(format!("{}{path}", self.cluster.base_url(0)?))
    }
}
