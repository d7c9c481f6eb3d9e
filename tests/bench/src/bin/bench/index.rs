//! An index for one measurement.

use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_stack::Client;
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use crate::documents::Kind;
use crate::requests::index_name;

const GREEN_LIMIT: Duration = Duration::from_secs(60);

const PIPELINE: &str = "bench";

/// The default pipeline of every index. None moves a document, so that all targets write the same documents to the same
/// shards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pipeline {
    /// The index has none.
    #[default]
    None,
    /// It sets a field, so the filter splits requests on releases that answer items in order.
    Proven,
    /// It may set `_routing`, so the filter only merges whole requests on these releases.
    Unproven,
}

impl Pipeline {
    pub async fn create(self, client: &Client, base_url: &str) -> Result<()> {
        let processor = match self {
            Self::None => return Ok(()),
            Self::Proven => json!({"set": {"field": "field5", "value": "E"}}),
            Self::Unproven => json!({"set": {"if": "ctx.field5 == 'none'", "field": "_routing", "value": "none"}}),
        };
        let body = json!({"processors": [processor]});
        client.put_json(&format!("{base_url}/_ingest/pipeline/{PIPELINE}"), &body).await?.ok()?;
        Ok(())
    }
}

/// When a node answers a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Translog {
    /// After the operations are on the disk.
    #[default]
    Request,
    /// Before that: the disk gets them every five seconds.
    Async,
}

/// The indices of a run.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Shape {
    /// Write documents like those of this k6 script: gateway, trips.
    #[arg(long, env = "DOCUMENTS", default_value = "gateway")]
    pub documents: Kind,

    /// Give each index this many shards.
    #[arg(long, env = "SHARDS", default_value_t = 6)]
    pub shards: usize,

    /// Give each shard this many replicas.
    #[arg(long, env = "REPLICAS", default_value_t = 0)]
    pub replicas: usize,

    /// Let nodes answer after the operations are on the disk, or before: request, async.
    #[arg(long, env = "TRANSLOG", default_value = "request")]
    pub translog: Translog,

    /// Give the indices this default pipeline: none, a proven or an unproven one.
    #[arg(long, env = "PIPELINE", default_value = "none")]
    pub pipeline: Pipeline,
}

#[derive(Debug)]
pub struct Index {
    pub number: usize,
    url: String,
}

impl Index {
    /// Creates the index with its shards spread evenly over the nodes, and waits until all have started. All other
    /// settings are the server's defaults.
    pub async fn create(
        client: &Client,
        base_url: &str,
        (number, nodes): (usize, usize),
        shape: &Shape,
    ) -> Result<Self> {
        let Shape { documents, shards, replicas, translog, pipeline } = shape;
        let url = format!("{base_url}/{}", index_name(number));
        let mut body = json!({
            "settings": {
                "number_of_shards": shards,
                "number_of_replicas": replicas,
                "index.translog.durability": translog,
                // One more for each replica: the last copy may find room only on the node that has its primary.
                "index.routing.allocation.total_shards_per_node": (shards * (1 + replicas)).div_ceil(nodes) + replicas,
                // This is the default of one second, set explicitly. Otherwise the server stops refreshing an
                // unsearched index after a while, which would favour the last one written.
                "index.refresh_interval": "1s",
            },
            "mappings": documents.mapping(),
        });
        if *pipeline != Pipeline::None {
            body["settings"]["index.default_pipeline"] = PIPELINE.into();
        }
        client.put_json(&url, &body).await?.ok().context("cannot create an index")?;
        let health = format!("{base_url}/_cluster/health?wait_for_status=green&timeout={}s", GREEN_LIMIT.as_secs());
        client.get_json(&health).await.context("the index's shards do not start")?;
        Ok(Self { number, url })
    }

    pub async fn count(&self, client: &Client) -> Result<u64> {
        client.get_json(&format!("{}/_refresh", self.url)).await?;
        let count = client.get_json(&format!("{}/_count", self.url)).await?;
        count.get("count").and_then(Value::as_u64).context("no count")
    }

    pub async fn delete(self, client: &Client) -> Result<()> {
        client.delete(&self.url).await?.ok().context("cannot delete an index")?;
        Ok(())
    }
}
