use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bulk_reshuffle_e2e::Recorded;
use bulk_reshuffle_stack::{Client, wait};
use serde_json::json;

use crate::shared_scene::SharedScene;

const LIMIT: Duration = Duration::from_secs(30);

fn is_version(request: &Recorded) -> bool {
    request.target.starts_with("/_cluster/state/version?")
}

/// Counts the queries by target.
fn queries(requests: &[Recorded]) -> BTreeMap<String, usize> {
    let mut queries = BTreeMap::new();
    for request in requests.iter().filter(|request| request.method == "GET") {
        *queries.entry(request.target.clone()).or_default() += 1;
    }
    queries
}

impl SharedScene {
    /// Sends a bulk request on a new connection, to any worker.
    async fn by_new_connection(&self, body: &str) {
        let answer = Client::new().post_ndjson(&self.envoy.url("/_bulk"), body.to_owned()).await.unwrap();
        assert_eq!(answer.ok().unwrap().json().unwrap()["errors"], false);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_workers_polls_for_all() {
    const REFRESH: Duration = Duration::from_secs(1);
    const INTERVALS: usize = 4;
    let config = json!({"cluster_state": {"refresh": "1s"}});
    let (scene, received) = SharedScene::start_recorded("workers", config, |mut options| {
        options.concurrency = 2;
        options
    })
    .await;
    scene.index("workers", json!({})).await;
    let line = "{\"index\":{\"_index\":\"workers\"}}\n{\"n\":1}\n";
    wait::until(LIMIT, "both workers have connections", async || {
        scene.by_new_connection(line).await;
        let connections = scene.envoy.stats_with("worker_.\\.downstream_cx_total").await?;
        let busy = connections.iter().filter(|(name, count)| name.starts_with("listener.127") && **count > 0);
        Ok((busy.count() == 2).then_some(()))
    })
    .await
    .unwrap();

    // A busy machine only makes queries rarer. If both workers polled, they would take half as long.
    let versions = |requests: &[Recorded]| requests.iter().filter(|request| is_version(request)).count();
    received.forget();
    received.wait_for_others("the first query", |requests| versions(requests) >= 1).await.unwrap();
    let first = Instant::now();
    received.wait_for_others("the last query", |requests| versions(requests) > INTERVALS).await.unwrap();
    let took = first.elapsed();
    assert!(took > REFRESH * (INTERVALS as u32) * 2 / 3, "{took:?} for {:?}", queries(&received.others()));

    // One worker loads a new index, and all workers know it.
    received.forget();
    scene.index("workers-new", json!({})).await;
    wait::until(LIMIT, "all workers know the index", async || {
        let passed = scene.envoy.stats_with("passed_through").await?;
        for _ in 0..20 {
            scene.by_new_connection("{\"index\":{\"_index\":\"workers-new\"}}\n{\"n\":1}\n").await;
        }
        Ok((scene.envoy.stats_with("passed_through").await? == passed).then_some(()))
    })
    .await
    .unwrap();
    let asked = queries(&received.others());
    let whole = asked.iter().filter(|(target, _)| !target.contains("version?") && !target.contains("settings"));
    println!("{INTERVALS} intervals in {took:?}; for a new index {asked:?}");
    // The creation of an index is two changes, and the start of its shards causes others.
    assert!(whole.clone().all(|(_, count)| *count <= 4), "{asked:?}");
    scene.end().await;
}
