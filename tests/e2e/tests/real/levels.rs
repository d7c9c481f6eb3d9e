use std::collections::BTreeSet;

use bulk_reshuffle_e2e::{Index, Item, Recorded};
use serde_json::json;
use tokio::task::JoinSet;

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
        let mut answers = JoinSet::new();
        for request in 0..REQUESTS {
            let id = move |n: usize| format!("{request}-{n}");
            let line = move |n| format!("{{\"index\":{{\"_id\":\"{}\"}}}}\n{{\"n\":{n}}}\n", id(n));
            let body: String = (0..DOCUMENTS).map(line).collect();
            let (client, url) = (scene.client.clone(), scene.envoy.url(&format!("/{name}/_bulk")));
            answers.spawn(async move {
                let items = Item::read_all(&client.post_ndjson(&url, body).await.unwrap()).unwrap();
                let found: Vec<_> = items.iter().map(|item| (item.id.clone(), item.status)).collect();
                assert_eq!(found, (0..DOCUMENTS).map(|n| (id(n), 201)).collect::<Vec<_>>());
            });
        }
        answers.join_all().await;
        assert_eq!(scene.documents(&name).await, (REQUESTS * DOCUMENTS) as u64);
        let cat = scene.client.get_json(&scene.direct(0, &format!("/_cat/shards/{name}?format=json"))).await.unwrap();
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
