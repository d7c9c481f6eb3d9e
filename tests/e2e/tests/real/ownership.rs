use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::shared_scene::SharedScene;

/// Returns ids of many kinds: short, long, accented, outside the basic plane, with characters that JSON escapes.
fn ids() -> Vec<String> {
    let kinds: [fn(usize) -> String; 8] = [
        |n| format!("{n}"),
        |n| format!("user:{n}/photo?{n}&x=1"),
        |n| format!("é{n}ß漢字"),
        |n| format!("🙂{n}👩‍🚀"),
        |n| format!("\"{n}\\\t\u{1}"),
        |n| format!("{n:0>512}"),
        |n| format!(" {n} "),
        |n| format!("{:x}", (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    ];
    (0..30).flat_map(|n| kinds.iter().map(move |kind| kind(n))).collect()
}

impl SharedScene {
    /// Returns the node that the cluster reports as the owner of a routing value.
    async fn owner(&self, index: &str, routing: &str) -> String {
        let routing = utf8_percent_encode(routing, NON_ALPHANUMERIC);
        let found = self.get(&format!("/{index}/_search_shards?routing={routing}")).await;
        let [copies] = found["shards"].as_array().unwrap().as_slice() else { panic!("not one shard: {found}") };
        let node = copies[0]["node"].as_str().unwrap();
        found["nodes"][node]["name"].as_str().unwrap().to_owned()
    }

    /// Returns the node to which the filter sends an operation, according to its counters.
    async fn receiver(&self, path: &str, line: &Value) -> String {
        let before = self.by_upstream("batch_operations").await;
        let body = format!("{line}\n{{\"n\":1}}\n");
        let answer = self.client.post_ndjson(&self.envoy.url(path), body).await.unwrap().ok().unwrap().json().unwrap();
        assert_eq!(answer["errors"], false, "{answer}");
        let after = self.by_upstream("batch_operations").await;
        let grown: Vec<_> = after.iter().filter(|(name, count)| before.get(*name) != Some(count)).collect();
        let [(name, _)] = grown.as_slice() else { panic!("{line} went to {grown:?}") };
        (*name).clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_routed_operation_goes_to_the_node_that_owns_it() {
    let scene = SharedScene::start("ownership").await;
    scene.index("plain", json!({})).await;
    for id in ids() {
        let line = json!({"index": {"_index": "plain", "_id": id}});
        assert_eq!(scene.receiver("/_bulk", &line).await, scene.owner("plain", &id).await, "{id:?}");
    }
    assert_eq!(scene.documents("plain").await, ids().len() as u64);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_routing_aliases_and_other_shard_counts_are_routed_correctly() {
    let scene = SharedScene::start("routing").await;
    scene.index("wide", json!({"number_of_shards": 4, "number_of_routing_shards": 24})).await;
    let add = json!({"actions": [{"add": {"index": "wide", "alias": "wide-alias"}}]});
    scene.client.post_json(&scene.direct(0, "/_aliases"), &add).await.unwrap().ok().unwrap();
    scene.wait_for_routing("wide-alias").await;
    for (n, value) in ids().into_iter().enumerate().step_by(4) {
        let owner = scene.owner("wide", &value).await;
        let id = format!("document {n}");
        let routed = json!({"index": {"_index": "wide", "_id": id, "routing": value}});
        assert_eq!(scene.receiver("/_bulk", &routed).await, owner, "routing {value:?}");
        let by_alias = json!({"index": {"_index": "wide-alias", "_id": value}});
        assert_eq!(scene.receiver("/_bulk", &by_alias).await, owner, "id {value:?}");
        let by_path = json!({"index": {"_id": id, "routing": value}});
        assert_eq!(scene.receiver("/wide/_bulk", &by_path).await, owner, "routing {value:?}");
    }
    scene.end().await;
}
