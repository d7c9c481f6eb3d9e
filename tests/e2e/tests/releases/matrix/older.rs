//! Indices created by an older version and restored from a snapshot.

use std::path::Path;

use anyhow::Result;
use bulk_reshuffle_stack::Distribution::{self, *};
use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, SharedFolder, Tools};
use serde_json::{Value, json};

/// The names of the restored indices.
pub const INDICES: [&str; 2] = ["restored", "restored-source"];

/// Returns the oldest tested version whose indices this version can restore.
pub fn release(new: Distribution) -> Option<Distribution> {
    match new {
        Elasticsearch7_10 => None,
        Elasticsearch7_17 | OpenSearch1 => Some(Elasticsearch7_10),
        Elasticsearch8 => Some(Elasticsearch7_17),
        Elasticsearch9 => Some(Elasticsearch8),
        OpenSearch2 => Some(OpenSearch1),
        OpenSearch3 => Some(OpenSearch2),
    }
}

/// Returns the node setting for the folder of snapshots.
pub fn settings(snapshots: &SharedFolder) -> (String, Value) {
    ("path.repo".into(), json!([snapshots.path()]))
}

/// Creates the indices on the older version, and a snapshot of them.
pub async fn snapshot(tools: &Tools, new: Distribution, snapshots: &SharedFolder, run_dir: &Path) -> Result<()> {
    let Some(distribution) = release(new) else { return Ok(()) };
    let mut options = ClusterOptions { distribution, nodes: 1, ..ClusterOptions::new(run_dir.join("older")) };
    options.settings.extend([settings(snapshots)]);
    let cluster = Cluster::start(tools, options).await?;
    let client = Client::new();
    let put = async |path: &str, body: Value| -> Result<()> {
        client.put_json(&format!("{}{path}", cluster.base_url(0)?), &body).await?.ok().map(|_| ())
    };
    let settings = json!({"number_of_shards": 6, "number_of_replicas": 0, "number_of_routing_shards": 24});
    for index in INDICES {
        put(&format!("/{index}"), json!({"settings": settings})).await?;
    }
    put("/_snapshot/older", repository(snapshots)).await?;
    put("/_snapshot/older/all?wait_for_completion=true", only_these()).await?;
    cluster.stop().await
}

/// Restores the indices on a newer cluster.
pub async fn restore(client: &Client, url: &str, snapshots: &SharedFolder) -> Result<()> {
    client.put_json(&format!("{url}/_snapshot/older"), &repository(snapshots)).await?.ok()?;
    let restore = format!("{url}/_snapshot/older/all/_restore?wait_for_completion=true");
    client.post_json(&restore, &only_these()).await?.ok().map(|_| ())
}

fn only_these() -> Value {
    json!({"indices": INDICES.join(","), "include_global_state": false})
}

fn repository(snapshots: &SharedFolder) -> Value {
    json!({"type": "fs", "settings": {"location": snapshots.path()}})
}
