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
    for (way, config) in
        [("own-upstreams", json!({})), ("one-cluster", json!({"nodes": {"header": "x-bulk-reshuffle-node"}}))]
    {
        let scene = SharedScene::start_alone(way, config, None).await;
        let [direct, routed] = ["direct", "routed"].map(|index| format!("{way}-{index}"));
        for index in [&direct, &routed] {
            scene.index(index, json!({})).await;
        }
        let directly = scene.load(&direct, |number| scene.direct(number, "/_bulk")).await;
        let through = scene.load(&routed, |_| scene.envoy.url("/_bulk")).await;
        println!("{way}: bytes between nodes: {directly} directly, {through} through the filter");
        assert!(through * 20 <= directly, "{way}: {through} bytes through the filter, {directly} directly");
        for index in [&direct, &routed] {
            assert_eq!(scene.documents(index).await, (REQUESTS * DOCUMENTS) as u64);
        }
        assert_eq!(scene.by_upstream("batches_redirected").await.values().sum::<u64>(), 0, "{way}");
        scene.end().await;
    }
}
