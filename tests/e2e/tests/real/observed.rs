use std::collections::BTreeMap;
use std::time::Duration;

use bulk_reshuffle_e2e::lines;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::shared_scene::SharedScene;

/// Few enough that other tests with the same nodes do not have to wait.
const REQUESTS: usize = 200;
const INTERVAL: Duration = Duration::from_millis(10);

/// What the filter counts for each upstream.
#[derive(Debug, Default, PartialEq)]
struct Sent {
    requests: BTreeMap<String, u64>,
    operations: BTreeMap<String, u64>,
    bytes: BTreeMap<String, u64>,
}

impl SharedScene {
    /// Sends requests of 1 to 10 documents, one in each interval, whether or not the ones before are answered.
    async fn send_in_intervals(&self, index: &str) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut requests = JoinSet::new();
        for number in 0..REQUESTS {
            ticks.tick().await;
            let ids = 0..=number % 10;
            let body: String = ids.map(|id| lines::index(index, &format!("{number}-{id}"), id as u64)).collect();
            let (client, url) = (self.client.clone(), self.envoy.url("/_bulk"));
            requests.spawn(async move { client.post_ndjson(&url, body).await?.ok()?.json() });
        }
        for answer in requests.join_all().await {
            assert_eq!(answer.unwrap()["errors"], false);
        }
    }

    /// Returns what the filter has sent, or would have sent, and in how many batches.
    async fn sent(&self, prefix: &str) -> (Sent, u64) {
        let count = async |name: &str| self.by_upstream(&format!("{prefix}batch{name}")).await;
        let (requests, operations, bytes) =
            (count("_requests").await, count("_operations").await, count("_bytes").await);
        (Sent { requests, operations, bytes }, count("es").await.into_values().sum())
    }
}

/// The figures before a roll-out are those after it. Only the number of batches depends on how soon nodes answer.
#[tokio::test(flavor = "multi_thread")]
async fn the_filter_sends_what_it_has_counted_while_it_observed() {
    let first = SharedScene::start("observed").await;
    first.index("observed", json!({})).await;
    first.end().await;
    let send = async |enabled, prefix| {
        let scene = SharedScene::start_with("observed", json!({"enabled": enabled})).await;
        scene.send_in_intervals("observed").await;
        let sent = scene.sent(prefix).await;
        scene.end().await;
        sent
    };
    let (counted, expected) = send(json!("observe"), "observed_").await;
    let (sent, batches) = send(json!(true), "").await;
    println!("a request every {INTERVAL:?}: {expected} batches were expected, and {batches} were sent");
    assert_eq!(counted, sent);
}
