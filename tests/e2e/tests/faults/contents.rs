use anyhow::{Context, Result};
use bulk_reshuffle_stack::Client;
use serde_json::{Value, json};

/// Ids and numbers of all documents of an index, as the node at this URL finds them.
pub async fn documents(client: &Client, node: &str, index: &str) -> Result<Vec<(String, u64)>> {
    let post = async |path: &str, body: Value| -> Result<Value> {
        client.post_json(&format!("{node}{path}"), &body).await?.ok().with_context(|| path.to_owned())?.json()
    };
    post(&format!("/{index}/_refresh"), json!({})).await?;
    let all = json!({"size": 5000, "sort": ["_doc"], "_source": ["n"]});
    let mut page = post(&format!("/{index}/_search?scroll=1m"), all).await?;
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
        page = post("/_search/scroll", json!({"scroll": "1m", "scroll_id": page["_scroll_id"]})).await?;
    }
}
