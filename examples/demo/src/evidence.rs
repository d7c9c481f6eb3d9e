//! The cluster's own statistics and documents, read from the nodes and not through the filter.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::Client;
use serde_json::{Value, json};

/// Queries one node about the whole cluster.
#[derive(Clone)]
pub struct Evidence {
    client: Client,
    base_url: String,
    /// The nodes' names by id.
    names: Arc<BTreeMap<String, String>>,
}

pub type PerNode = BTreeMap<String, u64>;

impl Evidence {
    pub async fn new(client: Client, base_url: String) -> Result<Self> {
        let nodes = client.get_json(&format!("{base_url}/_nodes/_all/none")).await?;
        let nodes = nodes.get("nodes").and_then(Value::as_object).context("the answer has no nodes")?;
        let names = nodes.iter().map(|(id, node)| Ok((id.clone(), text(node, "/name")?.to_owned())));
        let names = Arc::new(names.collect::<Result<_>>()?);
        Ok(Self { client, base_url, names })
    }

    /// Returns the bytes that the nodes have received from each other since they started.
    pub async fn bytes_between_nodes(&self) -> Result<u64> {
        let stats = self.get("_nodes/stats/transport").await?;
        let nodes = stats.get("nodes").and_then(Value::as_object).context("the answer has no nodes")?;
        nodes.values().map(|node| number(node, "/transport/rx_size_in_bytes")).sum()
    }

    /// Returns the number of operations that each node has executed on its own primary shards of the index: documents
    /// indexed, rejected by their shard, or deleted.
    pub async fn operations_on_primaries(&self, index: &str) -> Result<PerNode> {
        let stats = self.get(&format!("{index}/_stats/indexing?level=shards")).await?;
        let shards = stats.pointer(&format!("/indices/{index}/shards")).and_then(Value::as_object);
        let mut operations: PerNode = self.names.values().map(|name| (name.clone(), 0)).collect();
        for copy in shards
            .context("the answer has no shards")?
            .values()
            .flat_map(|copies| copies.as_array().into_iter().flatten())
        {
            if copy.pointer("/routing/primary") == Some(&Value::Bool(true)) {
                let counters = ["index_total", "index_failed", "delete_total"];
                let sum: u64 =
                    counters.iter().map(|name| number(copy, &format!("/indexing/{name}"))).sum::<Result<_>>()?;
                *operations.entry(self.name(text(copy, "/routing/node")?)?.to_owned()).or_default() += sum;
            }
        }
        Ok(operations)
    }

    /// Returns the node with the primary shard of a routing value, which is the id unless the operation has a routing.
    pub async fn owner(&self, index: &str, routing: &str) -> Result<String> {
        let found = self.get(&format!("{index}/_search_shards?routing={routing}")).await?;
        let copies = found.pointer("/shards/0").and_then(Value::as_array).context("the answer has no shard")?;
        let primary = copies.iter().find(|copy| copy.get("primary") == Some(&Value::Bool(true)));
        Ok(self.name(text(primary.context("the shard has no primary")?, "/node")?)?.to_owned())
    }

    /// Refreshes the index and returns its number of documents.
    pub async fn count(&self, index: &str) -> Result<i64> {
        let refreshed = self.client.post_json(&format!("{}/{index}/_refresh", self.base_url), &json!({})).await;
        refreshed?.ok()?;
        self.get(&format!("{index}/_count"))
            .await?
            .get("count")
            .and_then(Value::as_i64)
            .context("the answer has no count")
    }

    /// Returns the id, routing and source of every document. Call [`Evidence::count`] first, which refreshes the index.
    pub async fn documents(&self, index: &str) -> Result<BTreeMap<String, (Option<String>, Value)>> {
        let query = json!({"size": 5_000, "sort": ["_doc"], "query": {"match_all": {}}});
        let mut page = self.post(&format!("{index}/_search?scroll=1m"), &query).await?;
        let mut documents = BTreeMap::new();
        loop {
            let hits =
                page.pointer_mut("/hits/hits").and_then(Value::as_array_mut).context("the answer has no hits")?;
            if hits.is_empty() {
                break;
            }
            for hit in hits.iter_mut() {
                let routing = hit.get("_routing").and_then(Value::as_str).map(str::to_owned);
                let source = hit.get_mut("_source").map(Value::take).context("a hit has no source")?;
                documents.insert(text(hit, "/_id")?.to_owned(), (routing, source));
            }
            let next = json!({"scroll": "1m", "scroll_id": text(&page, "/_scroll_id")?});
            page = self.post("_search/scroll", &next).await?;
        }
        Ok(documents)
    }

    fn name(&self, id: &str) -> Result<&str> {
        self.names.get(id).map(String::as_str).with_context(|| format!("unknown node id {id}"))
    }

    async fn get(&self, path: &str) -> Result<Value> {
        self.client.get_json(&format!("{}/{path}", self.base_url)).await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.client.post_json(&format!("{}/{path}", self.base_url), body).await?.ok()?.json()
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> Result<&'a str> {
    value.pointer(pointer).and_then(Value::as_str).with_context(|| format!("no text at {pointer}"))
}

fn number(value: &Value, pointer: &str) -> Result<u64> {
    value.pointer(pointer).and_then(Value::as_u64).with_context(|| format!("no number at {pointer}"))
}
