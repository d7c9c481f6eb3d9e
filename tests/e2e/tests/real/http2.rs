//! Cleartext HTTP/2 directly to the nodes. The nodes of `DISTRIBUTION=opensearch-3` support it.

use bulk_reshuffle_e2e::{Item, reach_nodes_by_http2};
use bulk_reshuffle_stack::{Distribution, Envoy, Tools};
use serde_json::json;

use crate::site::{self, Site};

fn documents() -> String {
    (0..300).map(|n| format!("{{\"index\":{{\"_index\":\"http2\",\"_id\":\"{n}\"}}}}\n{{\"n\":{n}}}\n")).collect()
}

/// Returns the number of connections to the nodes by HTTP version.
async fn connections(site: &Site) -> [u64; 2] {
    let stats = site.envoy.stats_with("^cluster.es-..upstream_cx_http._total$").await.unwrap();
    let sum = |name: &str| stats.iter().filter(|(stat, _)| stat.ends_with(name)).map(|(_, count)| count).sum();
    [sum("cx_http1_total"), sum("cx_http2_total")]
}

#[tokio::test(flavor = "multi_thread")]
async fn only_opensearch_3_accepts_cleartext_http2() {
    let nodes = site::nodes(site::distribution()).await;
    let options = site::options("http2", &nodes, json!({})).edit(reach_nodes_by_http2);
    let site = Site::of(nodes, Envoy::start(&Tools::find().unwrap(), options).await.unwrap());
    if site::distribution() != Distribution::OpenSearch3 {
        let answer = site.bulk(&documents()).await;
        assert!(answer.status.is_server_error(), "{}", answer.status);
        assert!(answer.text().contains("upstream connect error"), "{}", answer.text());
        return site.envoy.stop().await.unwrap();
    }
    site.index("http2", json!({})).await;
    let before = site.by_upstream("batch_operations").await.values().sum::<u64>();
    let items = Item::read_all(&site.bulk(&documents()).await).unwrap();
    let found: Vec<_> = items.iter().map(|item| (item.id.clone(), item.status)).collect();
    assert_eq!(found, (0..300).map(|n| (n.to_string(), 201)).collect::<Vec<_>>());
    let sent = site.by_upstream("batch_operations").await;
    assert_eq!((sent.len(), sent.values().sum::<u64>() - before), (3, 300));
    assert_eq!(site.documents("http2").await, 300);
    let [http1, http2] = connections(&site).await;
    assert!(http1 == 0 && http2 >= 3, "{http1} {http2}");
    site.end().await;
}
