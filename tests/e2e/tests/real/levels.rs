use std::collections::BTreeSet;

use bulk_reshuffle_e2e::{Index, Recorded};
use serde_json::json;

use crate::owned::{Owned, create_at_once};
use crate::shared_scene::SharedScene;

const REQUESTS: usize = 12;
const DOCUMENTS: usize = 100;

/// Returns the shards of the documents in a batch.
fn shards(batch: &Recorded) -> BTreeSet<usize> {
    let index = Index::new("", [0; 6]);
    let operations = batch.operations().unwrap();
    operations.iter().map(|operation| index.shard(operation.id.as_deref().unwrap()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_shard_level_each_batch_is_for_one_shard() {
    for level in ["node", "shard"] {
        let config = json!({"dispatch": {"level": level}});
        let (scene, received) = SharedScene::start_recorded(&format!("level-{level}"), config, |options| options).await;
        let name = format!("level-{level}");
        scene.index(&name, json!({})).await;
        received.forget();
        create_at_once((0..REQUESTS).map(|request| {
            let documents = Owned::new(&request.to_string(), 0..DOCUMENTS);
            let (client, url, body) = (scene.client.clone(), scene.envoy.url("/_bulk"), documents.body(&name));
            (documents, async move { client.post_ndjson(&url, body).await.unwrap() })
        }))
        .await;
        assert_eq!(scene.documents(&name).await, (REQUESTS * DOCUMENTS) as u64);
        let cat = scene.get(&format!("/_cat/shards/{name}?format=json")).await;
        let of_node = |node: usize| -> BTreeSet<usize> {
            let on_node = cat.as_array().unwrap().iter().filter(|shard| shard["node"] == format!("es-{node}"));
            on_node.map(|shard| shard["shard"].as_str().unwrap().parse().unwrap()).collect()
        };
        let (mut seen, mut most) = (BTreeSet::new(), 0);
        for batch in received.bulks() {
            let shards = shards(&batch);
            assert!(shards.is_subset(&of_node(batch.node)), "{shards:?} at es-{}", batch.node);
            most = most.max(shards.len());
            seen.extend(shards);
        }
        assert_eq!(seen, (0..6).collect());
        assert_eq!(most, if level == "node" { 2 } else { 1 });
        scene.end().await;
    }
}
