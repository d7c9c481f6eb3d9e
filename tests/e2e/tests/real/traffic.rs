//! The traffic between the nodes of a real cluster, with and without the filter. No other test uses the cluster
//! meanwhile, because its traffic would count too.

use bulk_reshuffle_e2e::transport_bytes;
use serde_json::json;

use crate::shared_scene::SharedScene;

const REQUESTS: usize = 20;
const DOCUMENTS: usize = 500;

fn request(index: &str, number: usize) -> String {
    let mut rng = fastrand::Rng::with_seed(number as u64);
    (0..DOCUMENTS)
        .map(|n| {
            // Elasticsearch 8 compresses traffic between nodes, so the text must not be repetitive.
            let text: String = (0..38).map(|_| format!("{:016x}", rng.u64(..))).collect();
            let line = json!({"index": {"_index": index, "_id": format!("{number}-{n}")}});
            format!("{line}\n{{\"n\":{n},\"text\":\"{text}\"}}\n")
        })
        .collect()
}

impl SharedScene {
    /// Sends the load. Returns the number of bytes that crossed between nodes meanwhile.
    async fn load(&self, index: &str, url: impl Fn(usize) -> String) -> u64 {
        let bytes = async || transport_bytes(&self.client, &self.direct(0, "")).await.unwrap();
        let before = bytes().await;
        for number in 0..REQUESTS {
            let answer = self.client.post_ndjson(&url(number), request(index, number)).await.unwrap();
            let answer = answer.ok().unwrap().json().unwrap();
            assert_eq!((&answer["errors"], answer["items"].as_array().unwrap().len()), (&json!(false), DOCUMENTS));
        }
        bytes().await - before
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn almost_no_traffic_crosses_between_nodes() {
    let scene = SharedScene::start_alone("traffic", json!({}), None).await;
    for index in ["direct", "routed"] {
        scene.index(index, json!({})).await;
    }
    let direct = scene.load("direct", |number| scene.direct(number, "/_bulk")).await;
    let routed = scene.load("routed", |_| scene.envoy.url("/_bulk")).await;
    println!("bytes between nodes: {direct} direct, {routed} through the filter");
    assert!(routed * 20 <= direct, "{routed} bytes through the filter, {direct} directly");
    for index in ["direct", "routed"] {
        assert_eq!(scene.documents(index).await, (REQUESTS * DOCUMENTS) as u64);
    }
    scene.end().await;
}
