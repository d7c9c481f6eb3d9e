use std::collections::BTreeSet;
use std::time::Duration;

use bulk_reshuffle_stack::wait;
use serde_json::{Value, json};

use crate::shared_scene::SharedScene;

const DOCUMENTS: usize = 300;
const BYTES: usize = 4000;

/// The bytes that the filter gives each shard in each round.
const QUANTUM: usize = 256 << 10;

impl SharedScene {
    /// Sends documents of this many bytes without ids in one request; returns their generated ids.
    async fn make(&self, index: &str, bytes: usize) -> Vec<String> {
        let text = "x".repeat(bytes);
        let line = |n| format!("{{\"index\":{{}}}}\n{{\"n\":{n},\"text\":\"{text}\"}}\n");
        let body: String = (0..DOCUMENTS).map(line).collect();
        let url = self.envoy.url(&format!("/{index}/_bulk"));
        let answer = self.client.post_ndjson(&url, body).await.unwrap().ok().unwrap().json().unwrap();
        assert_eq!(answer["errors"], false, "{answer}");
        let items = answer["items"].as_array().unwrap().iter().map(|item| &item["index"]);
        items
            .map(|item| {
                assert_eq!((&item["result"], &item["status"]), (&json!("created"), &json!(201)), "{item}");
                item["_id"].as_str().unwrap().to_owned()
            })
            .collect()
    }

    /// Returns the hits of all documents.
    async fn found(&self, index: &str) -> Vec<Value> {
        self.documents(index).await;
        let found = self.get(&format!("/{index}/_search?size=10000")).await;
        found["hits"]["hits"].as_array().unwrap().clone()
    }

    /// Returns the number of documents in each shard.
    async fn in_shards(&self, index: &str) -> Vec<u64> {
        self.documents(index).await;
        let shards = self.get(&format!("/_cat/shards/{index}?format=json&h=docs")).await;
        shards.as_array().unwrap().iter().map(|shard| shard["docs"].as_str().unwrap().parse().unwrap()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_found_under_the_ids_that_the_filter_generated() {
    let scene = SharedScene::start_with("generate", json!({"missing_id": "generate"})).await;
    scene.index("made", json!({})).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.extend(scene.make("made", BYTES).await);
    }
    let found = scene.found("made").await;
    let ids: BTreeSet<_> = found.iter().map(|hit| hit["_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 3 * DOCUMENTS);
    assert_eq!(ids, made.iter().cloned().collect());
    for hit in &found {
        let n = hit["_source"]["n"].as_u64().unwrap() as usize;
        let position = made.iter().position(|id| *id == hit["_id"]).unwrap();
        assert_eq!(position % DOCUMENTS, n);
        assert!(hit.get("_routing").is_none());
    }
    // The cluster finds a document by its id, and the documents are spread over all shards, with at most a quantum more
    // in one than in another.
    let url = scene.direct(1, &format!("/made/_doc/{}", made[0]));
    assert_eq!(scene.client.get_json(&url).await.unwrap()["_source"]["n"], 0);
    let documents = scene.in_shards("made").await;
    let difference = documents.iter().max().unwrap() - documents.iter().min().unwrap();
    assert!(difference as usize <= QUANTUM / BYTES + 1, "{documents:?}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn direct_fills_one_shard_with_each_request() {
    let settings = json!({"indices": [{"pattern": "direct-*", "missing_id": "direct"}]});
    let scene = SharedScene::start_with("direct", settings).await;
    scene.index("direct-a", json!({})).await;
    // The filter's state of a new index may lack shards that started a moment later.
    wait::until(Duration::from_secs(60), "all shards have documents", async || {
        let before = scene.in_shards("direct-a").await;
        scene.make("direct-a", 1).await;
        let after = scene.in_shards("direct-a").await;
        let grown: Vec<_> =
            before.iter().zip(&after).map(|(before, after)| after - before).filter(|n| *n > 0).collect();
        assert_eq!(grown, [DOCUMENTS as u64]);
        Ok(after.iter().all(|documents| *documents > 0).then_some(()))
    })
    .await
    .unwrap();
    let found = scene.found("direct-a").await;
    assert!(found.iter().all(|hit| hit["_routing"].is_string()), "{}", found[0]);
    scene.end().await;
}
