//! `envoy/buffer.yaml`: a buffer filter holds back the headers.

use std::collections::BTreeSet;

use bulk_reshuffle_e2e::{FakeCluster, Item};
use serde_json::json;

use crate::shared_scene::SharedScene;

fn documents(index: &str, numbers: std::ops::Range<usize>, size: usize) -> String {
    let text = "x".repeat(size);
    let line =
        |n| format!("{{\"index\":{{\"_index\":\"{index}\",\"_id\":\"{n}\"}}}}\n{{\"n\":{n},\"text\":\"{text}\"}}\n");
    numbers.map(line).collect()
}

/// Sends a request, and checks that the answer has an item for each document, in order.
async fn write(scene: &SharedScene, path: &str, index: &str, numbers: std::ops::Range<usize>, size: usize) {
    let url = scene.envoy.url(path);
    let answer = scene.client.post_ndjson(&url, documents(index, numbers.clone(), size)).await.unwrap();
    let items = Item::read_all(&answer).unwrap();
    let found: Vec<_> = items.iter().map(|item| (item.id.as_str(), item.status)).collect();
    let ids: Vec<_> = numbers.map(|n| n.to_string()).collect();
    assert_eq!(found, ids.iter().map(|id| (id.as_str(), 201)).collect::<Vec<_>>());
}

/// Returns the number of requests to nodes that Envoy has cancelled, and of connections closed because of that.
async fn cancelled(scene: &SharedScene) -> u64 {
    const SIGNS: &str = "(upstream_rq_cancelled|upstream_rq_tx_reset|upstream_cx_destroy_local_with_active_rq)$";
    scene.envoy.stats_with(SIGNS).await.unwrap().values().sum()
}

fn nodes_of(received: &FakeCluster) -> Vec<usize> {
    received.bulks().iter().map(|batch| batch.node).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_split_and_no_request_to_a_node_is_cancelled() {
    const REQUESTS: usize = 20;
    let (scene, received) = SharedScene::start_shipped("buffer", "buffer.yaml", |files| files).await;
    scene.index("buffer", json!({})).await;
    received.forget();
    let before = scene.merged().await;
    for number in 0..REQUESTS {
        write(&scene, "/_bulk", "buffer", number * 100..(number + 1) * 100, 10).await;
    }
    assert_eq!(scene.merged().await - before, REQUESTS as u64);
    let nodes = nodes_of(&received);
    assert_eq!((nodes.len(), nodes.iter().collect::<BTreeSet<_>>().len()), (3 * REQUESTS, 3));
    assert_eq!(scene.documents("buffer").await, 100 * REQUESTS as u64);
    assert_eq!(scene.counted("requests_total.outcome.passed_through.reason.header_pause").await, 0);
    assert_eq!(cancelled(&scene).await, 0);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_requests_are_accepted_split_and_unsplit() {
    let (scene, received) = SharedScene::start_shipped("buffer-large", "buffer.yaml", |files| files).await;
    scene.index("buffer-large", json!({})).await;
    received.forget();
    // 30 MB: first split, then with a parameter that makes the request pass through.
    write(&scene, "/_bulk", "buffer-large", 0..30_000, 950).await;
    assert_eq!(nodes_of(&received).into_iter().collect::<BTreeSet<_>>().len(), 3);
    received.forget();
    write(&scene, "/_bulk?refresh=%66alse", "buffer-large", 30_000..60_000, 950).await;
    let bulks = received.bulks();
    assert_eq!(bulks.len(), 1);
    assert!(bulks[0].text() == documents("buffer-large", 30_000..60_000, 950), "the body was changed");
    assert_eq!(scene.documents("buffer-large").await, 60_000);
    assert_eq!(cancelled(&scene).await, 0);
    scene.end().await;
}
