//! Requests of one client wait for one another, but do not delay other clients.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{ClusterScript, Item, Recorded, Scene, lines, raise_file_limit};
use tokio::time::timeout;

/// The number of slots that a node has at the start.
const SLOTS: usize = 4;

/// The limit for another client's answer, which takes `hold.interval` (50 ms) on an idle machine.
const SOON: Duration = Duration::from_secs(2);

const SLOW: &str = "Basic c2xvdw==";

const OTHER: &str = "Basic b3RoZXI=";

const PLAIN: &str = "/_bulk";
const WAITING: &str = "/_bulk?refresh=wait_for";

fn is_slow(batch: &Recorded) -> bool {
    batch.header("authorization") == Some(SLOW)
}

/// Sends this many requests of one identity, each of a different caller, to a node that answers none of them until
/// another client has its answer.
async fn slow_requests_do_not_delay_another_client(slow_path: &str, other_path: &str, requests: u64) -> Result<()> {
    // Envoy inherits the limit, and has a connection to each client.
    raise_file_limit(2 * requests + 1000)?;
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let gate = scene.cluster.hold_if(is_slow);
    let id = scene.cluster.book(0, 0)?;
    let slow: Vec<_> = (0..requests)
        .map(|number| {
            let headers = [("authorization", SLOW), ("x-opaque-id", &*number.to_string())];
            scene.begin_bulk(slow_path, &headers, lines::index("books", &id, number))
        })
        .collect();
    scene.wait_for_operations(requests).await?;
    scene.cluster.wait_for_bulks("as many slow batches as permitted", |batches| batches.len() == SLOTS).await?;

    for number in 0..3 {
        let start = Instant::now();
        let body = lines::index("books", &id, number);
        let answer = scene.bulk_with(other_path, &[("authorization", OTHER)], body);
        let answer = timeout(SOON, answer).await.context("timed out waiting for another client's answer")??;
        println!("answered after {:?}", start.elapsed());
        assert_eq!(Item::read_all(&answer)?[0].number(), Some(number));
    }
    assert!(slow.iter().all(|answer| !answer.is_there()));
    let batches = scene.cluster.bulks();
    assert_eq!(batches.iter().filter(|batch| is_slow(batch)).count(), SLOTS, "the slots of the node");
    assert_eq!(batches.len(), SLOTS + 3);
    assert_eq!(scene.passed_through().await?, [].into());

    gate.open();
    for (number, answer) in (0..).zip(slow) {
        assert_eq!(Item::read_all(&answer.get().await?)?[0].number(), Some(number));
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_requests_do_not_delay_other_clients() -> Result<()> {
    for (slow_path, other_path, requests) in
        [(PLAIN, PLAIN, 64), (WAITING, PLAIN, 64), (WAITING, WAITING, 64), (PLAIN, PLAIN, 500), (WAITING, WAITING, 500)]
    {
        let row = format!("{requests} × {slow_path}, another client's {other_path}");
        println!("{row}:");
        slow_requests_do_not_delay_another_client(slow_path, other_path, requests).await.context(row)?;
    }
    Ok(())
}

/// Even requests of the same identity are not delayed.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_ask_the_cluster_to_wait_do_not_use_the_slots_of_others() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let gate = scene.cluster.hold_if(|batch| batch.target.contains('?'));
    let id = scene.cluster.book(0, 0)?;
    let begin = |path: &str, caller: &str, number: u64| {
        let headers = [("authorization", SLOW), ("x-opaque-id", caller)];
        scene.begin_bulk(path, &headers, lines::index("books", &id, number))
    };
    let waiting: Vec<_> =
        (0..64).map(|number| begin("/_bulk?wait_for_active_shards=2", &number.to_string(), number)).collect();
    scene.wait_for_operations(64).await?;
    scene.cluster.wait_for_bulks("as many batches as permitted", |batches| batches.len() == SLOTS).await?;
    let answer =
        timeout(SOON, begin("/_bulk", "prompt", 64).get()).await.context("timed out behind waiting requests")??;
    assert_eq!(Item::read_all(&answer)?[0].number(), Some(64));
    assert_eq!(scene.cluster.bulks().len(), SLOTS + 1);
    gate.open();
    for answer in waiting {
        answer.get().await?;
    }
    scene.finish().await
}
