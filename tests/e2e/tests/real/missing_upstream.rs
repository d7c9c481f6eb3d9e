use std::time::{Duration, Instant};

use bulk_reshuffle_stack::wait;
use serde_json::json;

use crate::owned::Owned;
use crate::shared_scene::SharedScene;

const REQUESTS: usize = 20;
const DOCUMENTS: usize = 50;

/// Writes documents, and checks that all of them are acknowledged.
async fn write(scene: &SharedScene, name: &str) {
    let body = Owned::new(name, 0..DOCUMENTS).body("upstreams");
    let answer = scene.bulk(&body).await.ok().unwrap().json().unwrap();
    assert_eq!((&answer["errors"], answer["items"].as_array().unwrap().len()), (&json!(false), DOCUMENTS), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_share_of_a_node_without_an_upstream_goes_to_the_coordinator() {
    // Hints in answers trigger a poll after a fifth of the interval at the earliest.
    const SHORTEST: Duration = Duration::from_secs(2);
    let config = json!({"cluster_state": {"refresh": "10s"}});
    let (scene, received) = SharedScene::start_recorded("upstreams", config, |mut options| {
        options.clusters.retain(|(name, _)| name != "es-2");
        options
    })
    .await;
    scene.index("upstreams", json!({})).await;
    let redirected = async || scene.by_upstream("batches_redirected").await.get("es-2").copied().unwrap_or_default();
    let (before, begun) = (redirected().await, Instant::now());
    received.forget();
    for number in 0..REQUESTS {
        write(&scene, &number.to_string()).await;
    }
    let (tried, polls) = (redirected().await - before, begun.elapsed().as_secs() / SHORTEST.as_secs());
    assert_eq!(scene.documents("upstreams").await, (REQUESTS * DOCUMENTS) as u64);
    assert_eq!(scene.counted("operations_unknown_total.upstream.es-2").await, 0);
    // Two of six shards are on that node. Operations on the others go to their own nodes.
    let batches = scene.by_upstream("batches").await;
    for upstream in ["es", "es-0", "es-1"] {
        assert!(batches[upstream] >= REQUESTS as u64, "{batches:?}");
    }
    assert_eq!(received.bulks().len(), 3 * REQUESTS);
    assert!(tried <= polls + 1, "tried {tried} times in {polls} polls");
    // The upstream is tried again later.
    wait::until(Duration::from_secs(30), "the missing upstream is tried again", async || {
        write(&scene, "again").await;
        Ok((redirected().await > before + tried).then_some(()))
    })
    .await
    .unwrap();
    scene.end().await;
}
