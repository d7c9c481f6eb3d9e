//! The header by which clients identify the server's product.

use bulk_reshuffle_stack::Distribution;
use serde_json::json;

use crate::shared_scene::SharedScene;

/// Checks that the header is the same through the filter as from a node, whether the request is split or passes
/// through.
pub async fn check_header(distribution: Distribution, expected: Option<&str>) {
    let scene = SharedScene::start_in_front_of(distribution, "product", json!({})).await;
    scene.index("product", json!({})).await;
    let body = "{\"index\":{\"_index\":\"product\",\"_id\":\"1\"}}\n{\"n\":1}\n";
    let merged = "wasmcustom.bulk_reshuffle_requests_total.outcome.merged";
    for (query, is_split) in [("", true), ("?_source=true", false)] {
        let before = scene.counter(merged).await;
        let path = format!("/_bulk{query}");
        for url in [scene.direct(0, &path), scene.envoy.url(&path)] {
            let answer = scene.client.post_ndjson(&url, body).await.unwrap().ok().unwrap();
            let header = answer.headers.get("x-elastic-product").map(|value| value.to_str().unwrap());
            assert_eq!(header, expected, "{url}");
        }
        assert_eq!(scene.counter(merged).await - before, u64::from(is_split));
    }
    scene.end().await;
}
