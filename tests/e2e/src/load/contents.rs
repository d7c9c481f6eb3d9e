use anyhow::{Context, Result};
use bulk_reshuffle_stack::Client;
use serde_json::{Value, json};

/// Returns the ids and numbers of all documents of an index, read from the node at this URL.
pub async fn documents(client: &Client, node: &str, index: &str) -> Result<Vec<(String, u64)>> {
    let post = async |path: &str, body: Value| -> Result<Value> {
        client.post_json(&format!("{node}{path}"), &body).await?.ok().with_context(|| path.to_owned())?.json()
    };
    post(&format!("/{index}/_refresh"), json!({})).await?;
    let all = json!({"size": 5000, "sort": ["_doc"], "_source": ["n"]});
    let mut page = post(&format!("/{index}/_search?scroll=1m"), all).await?;
    let mut documents = Vec::new();
    loop {
        let hits = page.pointer("/hits/hits").and_then(Value::as_array).context("no hits")?;
        if hits.is_empty() {
            return Ok(documents);
        }
        for hit in hits {
            let id = hit.get("_id").and_then(Value::as_str).context("no id")?.to_owned();
            documents.push((
                id,
                hit.pointer("/_source/n").and_then(Value::as_u64).with_context(|| format!("no number in {hit}"))?,
            ));
        }
        let next = json!({"scroll": "1m", "scroll_id": page.get("_scroll_id")});
        page = post("/_search/scroll", next).await?;
    }
}
