//! Cleartext HTTP/2 directly to the nodes. The nodes of `DISTRIBUTION=opensearch-3` support it.

use bulk_reshuffle_e2e::{Item, lines, reach_nodes_by_http2};
use bulk_reshuffle_stack::{Distribution, Envoy, Tools};
use serde_json::json;

use crate::shared_scene::{self, SharedScene};

/// Returns the number of connections to the nodes by HTTP version.
async fn connections(scene: &SharedScene) -> [u64; 2] {
    let stats = scene.envoy.stats_with("^cluster.es-..upstream_cx_http._total$").await.unwrap();
    let sum = |name: &str| stats.iter().filter(|(stat, _)| stat.ends_with(name)).map(|(_, count)| count).sum();
    [sum("cx_http1_total"), sum("cx_http2_total")]
}

#[tokio::test(flavor = "multi_thread")]
async fn only_opensearch_3_accepts_cleartext_http2() {
    let nodes = shared_scene::nodes(shared_scene::distribution()).await;
    let options = shared_scene::options("http2", &nodes, json!({})).edit(reach_nodes_by_http2);
    let scene = SharedScene::of(nodes, Envoy::start(&Tools::find().unwrap(), options).await.unwrap());
    if shared_scene::distribution() != Distribution::OpenSearch3 {
        let answer = scene.bulk(&lines::documents("http2", 0..300)).await;
        assert!(answer.status.is_server_error(), "{}", answer.status);
        assert!(answer.text().contains("upstream connect error"), "{}", answer.text());
        return scene.envoy.stop().await.unwrap();
    }
    scene.index("http2", json!({})).await;
    let before = scene.by_upstream("batch_operations").await.values().sum::<u64>();
    let items = Item::read_all(&scene.bulk(&lines::documents("http2", 0..300)).await).unwrap();
    let found: Vec<_> = items.iter().map(|item| (item.id.clone(), item.status)).collect();
    assert_eq!(found, (0..300).map(|n| (n.to_string(), 201)).collect::<Vec<_>>());
    let sent = scene.by_upstream("batch_operations").await;
    assert_eq!((sent.len(), sent.values().sum::<u64>() - before), (3, 300));
    assert_eq!(scene.documents("http2").await, 300);
    let [http1, http2] = connections(&scene).await;
    assert!(http1 == 0 && http2 >= 3, "{http1} {http2}");
    scene.end().await;
}
