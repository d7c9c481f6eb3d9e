//! Requests of one client wait for one another, and keep no other client waiting.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{ClusterScript, Gate, Item, Reaction, Recorded, Scene, lines, raise_file_limit};
use tokio::time::timeout;

/// `dispatch.max_in_flight_per_node`.
const SLOTS: usize = 16;

/// How long another client's answer may take: on a machine that does nothing else it is `hold.interval`, 50 ms.
const SOON: Duration = Duration::from_secs(2);

const SLOW: &str = "Basic c2xvdw==";

const OTHER: &str = "Basic b3RoZXI=";

fn is_slow(batch: &Recorded) -> bool {
    batch.header("authorization") == Some(SLOW)
}

/// So many requests of one identity, each of another caller, to a node that answers none of them before another client
/// has its answer.
async fn another_client_has_its_answer_soon(slow_path: &str, other_path: &str, requests: u64) -> Result<()> {
    // Envoy has a connection to each client, and inherits the limit.
    raise_file_limit(2 * requests + 1000)?;
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let gate = Gate::closed();
    let closed = gate.clone();
    scene.cluster.react(move |batch| match is_slow(batch) {
        true => Reaction::items().after(&closed),
        false => Reaction::items(),
    });
    let id = scene.cluster.book(0, 0)?;
    let slow: Vec<_> = (0..requests)
        .map(|number| {
            let headers = [("authorization", SLOW), ("x-opaque-id", &*number.to_string())];
            scene.begin_bulk(slow_path, &headers, lines::index("books", &id, number))
        })
        .collect();
    scene.wait_for_operations(requests).await?;
    scene.cluster.wait_for_bulks("as many slow batches as may be", |batches| batches.len() == SLOTS).await?;

    for number in 0..3 {
        let start = Instant::now();
        let body = lines::index("books", &id, number);
        let answer = scene.bulk_with(other_path, &[("authorization", OTHER)], body);
        let answer = timeout(SOON, answer).await.context("another client waits for its answer")??;
        println!("{requests} × {slow_path}, another client's {other_path}: {:?}", start.elapsed());
        assert_eq!(Item::read_all(&answer)?[0].number(), Some(number));
    }
    assert!(slow.iter().all(|answer| !answer.is_there()));
    let batches = scene.cluster.bulks();
    assert_eq!(batches.iter().filter(|batch| is_slow(batch)).count(), SLOTS, "the guard of the node");
    assert_eq!(batches.len(), SLOTS + 3);
    assert_eq!(scene.passed_through().await?, [].into());

    gate.open();
    for (number, answer) in (0..).zip(slow) {
        assert_eq!(Item::read_all(&answer.get().await?)?[0].number(), Some(number));
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_slow_requests_keep_no_other_client_waiting() -> Result<()> {
    another_client_has_its_answer_soon("/_bulk", "/_bulk", 64).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_requests_that_wait_for_a_refresh_keep_no_other_client_waiting() -> Result<()> {
    another_client_has_its_answer_soon("/_bulk?refresh=wait_for", "/_bulk", 64).await?;
    another_client_has_its_answer_soon("/_bulk?refresh=wait_for", "/_bulk?refresh=wait_for", 64).await
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_slow_requests_keep_no_other_client_waiting() -> Result<()> {
    another_client_has_its_answer_soon("/_bulk", "/_bulk", 500).await
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_requests_that_wait_for_a_refresh_keep_no_other_client_waiting() -> Result<()> {
    another_client_has_its_answer_soon("/_bulk?refresh=wait_for", "/_bulk?refresh=wait_for", 500).await
}

/// Not even of the same identity.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_ask_the_cluster_to_wait_keep_no_slot_from_others() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let gate = Gate::closed();
    let closed = gate.clone();
    scene.cluster.react(move |batch| match batch.target.contains('?') {
        true => Reaction::items().after(&closed),
        false => Reaction::items(),
    });
    let id = scene.cluster.book(0, 0)?;
    let begin = |path: &str, caller: &str, number: u64| {
        let headers = [("authorization", SLOW), ("x-opaque-id", caller)];
        scene.begin_bulk(path, &headers, lines::index("books", &id, number))
    };
    let waiting: Vec<_> =
        (0..64).map(|number| begin("/_bulk?wait_for_active_shards=2", &number.to_string(), number)).collect();
    scene.wait_for_operations(64).await?;
    scene.cluster.wait_for_bulks("as many batches as may be", |batches| batches.len() == SLOTS).await?;
    let answer = timeout(SOON, begin("/_bulk", "prompt", 64).get()).await.context("it waits for others")??;
    assert_eq!(Item::read_all(&answer)?[0].number(), Some(64));
    assert_eq!(scene.cluster.bulks().len(), SLOTS + 1);
    gate.open();
    for answer in waiting {
        answer.get().await?;
    }
    scene.finish().await
}
