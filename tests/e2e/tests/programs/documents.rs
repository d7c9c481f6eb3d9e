//! The documents of an index, as a node returns them.

use anyhow::{Context, Result};
use bulk_reshuffle_stack::Client;
use serde_json::Value;

/// A document.
#[derive(Debug, PartialEq)]
pub struct Document {
    pub id: String,
    pub routing: Option<String>,
    pub source: Value,
}

/// Returns the documents of an index, at most 10,000, from the node at this URL.
pub async fn documents(client: &Client, node: &str, index: &str) -> Result<Vec<Document>> {
    client.get(&format!("{node}/{index}/_refresh")).await?.ok()?;
    let found = client.get_json(&format!("{node}/{index}/_search?size=10000")).await?;
    let text = |hit: &Value, field: &str| hit[field].as_str().map(str::to_owned);
    let document = |hit: &Value| {
        Some(Document { id: text(hit, "_id")?, routing: text(hit, "_routing"), source: hit["_source"].clone() })
    };
    found["hits"]["hits"].as_array().context("no hits")?.iter().map(|hit| document(hit).context("no id")).collect()
}

/// Returns the number of documents of an index.
pub async fn count(client: &Client, node: &str, index: &str) -> Result<usize> {
    client.get(&format!("{node}/{index}/_refresh")).await?.ok()?;
    let found = client.get_json(&format!("{node}/{index}/_count")).await?;
    Ok(usize::try_from(found["count"].as_u64().context("no count")?)?)
}
