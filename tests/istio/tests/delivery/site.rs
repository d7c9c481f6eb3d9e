use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_istio::{Manifests, Network, Pod};
use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, Tools};
use serde_json::{Value, json};
use tempfile::TempDir;

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
    pub objects: Vec<Value>,
    run_dir: TempDir,
}

impl Site {
    /// Starts the nodes.
    pub async fn start() -> Result<Self> {
        let (tools, network, run_dir) = (Tools::find()?, Network::find()?, tempfile::tempdir()?);
        tools.wasm()?;
        let hosts = (0..3).map(|_| network.address()).collect::<Result<Vec<Ipv4Addr>>>()?;
        let example = std::fs::read_to_string(tools.root.join("istio/examples/statefulset/opensearch.yaml"))?;
        let objects = objects(&Manifests::read(&example)?, &hosts)?;
        let mut options = ClusterOptions::new(run_dir.path().join("nodes"));
        (options.http_hosts, options.http_ports) = (hosts, vec![PORT; 3]);
        let cluster = Cluster::start(&tools, options).await?;
        Ok(Self { tools, client: Client::new(), cluster, network, objects, run_dir })
    }

    /// The overlay of this name, as it is shipped.
    pub fn overlay(&self, name: &str) -> Result<Manifests> {
        Manifests::build(&self.tools, &self.tools.root.join("istio/overlays").join(name))
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
        self.refresh(index).await?;
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
        self.refresh(index).await?;
        let all = json!({"size": 5000, "sort": ["_doc"], "_source": ["n"]});
        let mut page = self.post(&format!("/{index}/_search?scroll=1m"), &all).await?;
        let mut documents = Vec::new();
        loop {
            let hits = page["hits"]["hits"].as_array().context("no hits")?;
            if hits.is_empty() {
                return Ok(documents);
            }
            for hit in hits {
                let id = hit["_id"].as_str().context("no id")?.to_owned();
                documents.push((id, hit["_source"]["n"].as_u64().with_context(|| format!("no number in {hit}"))?));
            }
            page = self.post("/_search/scroll", &json!({"scroll": "1m", "scroll_id": page["_scroll_id"]})).await?;
        }
    }

    async fn refresh(&self, index: &str) -> Result<()> {
        self.post(&format!("/{index}/_refresh"), &json!({})).await.map(|_| ())
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.client.post_json(&self.direct(path)?, body).await?.ok().with_context(|| path.to_owned())?.json()
    }

    fn direct(&self, path: &str) -> Result<String> {
        Ok(format!("{}{path}", self.cluster.base_url(0)?))
    }
}

/// What Kubernetes' controllers make of the Services and the StatefulSet.
fn objects(example: &Manifests, hosts: &[Ipv4Addr]) -> Result<Vec<Value>> {
    let set = example.all("StatefulSet").next().context("no StatefulSet")?;
    let name = set["metadata"]["name"].as_str().context("no name")?;
    let labels = set["spec"]["template"]["metadata"]["labels"].as_object().context("no labels")?;
    let pod = |(index, host): (usize, &Ipv4Addr)| Pod::of_stateful_set(NAMESPACE, name, index, labels, *host);
    let pods: Vec<Pod> = hosts.iter().enumerate().map(pod).collect();
    let mut objects: Vec<Value> = pods.iter().map(Pod::object).collect();
    for service in example.all("Service") {
        let (name, mut service) = (service["metadata"]["name"].as_str().context("no name")?, service.clone());
        if service["spec"]["clusterIP"].is_null() {
            service["spec"]["clusterIP"] = json!("10.96.0.1");
        }
        objects.extend([Pod::endpoint_slice(name, "http", PORT, &pods), service]);
    }
    Ok(objects)
}
