//! Nodes reached by cleartext HTTP/2, which OpenSearch 3 and proxies in front of nodes support.

use anyhow::Result;
use bulk_reshuffle_e2e::{ClusterScript, Item, Reaction, Scene, lines, reach_nodes_by_http2};
use hyper::Version;
use serde_json::json;

async fn start() -> Result<Scene> {
    Scene::of(ClusterScript::three_nodes()).edit(reach_nodes_by_http2).start().await
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_split_and_merged_over_one_connection_for_each_node() -> Result<()> {
    const REQUESTS: usize = 40;
    let scene = start().await?;
    let gate = scene.cluster.hold();
    let mut answers = vec![scene.begin_bulk("/_bulk", &[], scene.cluster.write_books(0))];
    scene.cluster.wait_for_bulks("the first batches", |batches| batches.len() == 3).await?;
    for number in 1..=REQUESTS {
        answers.push(scene.begin_bulk("/_bulk", &[], scene.cluster.write_books(number)));
    }
    scene.wait_for_operations(3 * (REQUESTS as u64 + 1)).await?;
    // A request that passes through uses the same connections.
    let passing = scene.begin_bulk("/_bulk", &[], lines::index("unknown", "1", 7));
    scene.cluster.wait_for_bulks("the unknown index", |batches| batches.len() == 4).await?;
    gate.open();

    for (number, answer) in answers.into_iter().enumerate() {
        scene.cluster.check_books(number, &answer.get().await?)?;
    }
    assert_eq!(Item::read_all(&passing.get().await?)?[0].number(), Some(7));
    for node in 0..3 {
        let batches = scene.cluster.bulks_at(node);
        let sizes: Vec<_> = batches.iter().map(|batch| batch.operations().unwrap().len()).collect();
        assert!(sizes.contains(&1) && sizes.contains(&REQUESTS), "{sizes:?}");
        // One connection of the worker, and perhaps one of the main thread, whose VM may have checked the upstream.
        assert!(scene.envoy.counter(&format!("cluster.es-{node}.upstream_cx_total")).await? <= 2);
    }
    let (bulks, others) = (scene.cluster.bulks(), scene.cluster.others());
    assert!(bulks.iter().chain(&others).all(|request| request.version == Version::HTTP_2));
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn large_requests_and_answers_arrive_completely() -> Result<()> {
    const OPERATIONS: usize = 20_000;
    let scene = start().await?;
    // 18 MB to one node, and 3 MB back.
    let (id, text) = (scene.cluster.book(1, 0)?, "x".repeat(850));
    let line = lines::with_source("index", "books", &id, &json!({"text": text, "n": 5}).to_string());
    let answer = scene.bulk("/_bulk", line.repeat(OPERATIONS)).await?;
    let items = Item::read_all(&answer)?;
    assert!(items.len() == OPERATIONS && items.iter().all(|item| item.number() == Some(5)));
    // If every operation failed, the answer would have 57 MB. So there are two batches, one after the other.
    let batches = scene.cluster.bulks_at(1);
    assert_eq!((batches.len(), scene.cluster.bulks().len()), (2, 2));
    assert!(batches.iter().all(|batch| batch.version == Version::HTTP_2));
    assert_eq!(batches.iter().map(|batch| batch.body.len()).sum::<usize>(), line.len() * OPERATIONS);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_reset_does_not_affect_other_requests() -> Result<()> {
    let scene = start().await?;
    let (lost, slow) = (scene.cluster.book(0, 0)?, scene.cluster.book(0, 1)?);
    let resets = format!("\"{lost}\"");
    let gate = scene.cluster.react_with_gate(move |request, gate| match request.text().contains(&resets) {
        true => Reaction::Reset,
        false => Reaction::items().after(gate),
    });
    let waiting = scene.begin_bulk("/_bulk", &[], lines::index("books", &slow, 1));
    scene.cluster.wait_for_bulks("the slow request", |batches| batches.len() == 1).await?;
    // From another caller, so that it need not wait. It must not be carried out twice, so it is not retried.
    let body = lines::create("books", &lost, 2);
    let item = Item::read_all(&scene.bulk_with("/_bulk", &[("x-opaque-id", "another")], body).await?)?.remove(0);
    assert_eq!((item.status, item.error()), (503, Some("bulk_outcome_unknown_exception")));
    assert!(!waiting.is_there());
    gate.open();
    assert_eq!(Item::read_all(&waiting.get().await?)?[0].number(), Some(1));
    assert_eq!(scene.cluster.bulks().len(), 2);
    // Another one may be of the main thread, whose VM may have checked the upstream.
    assert!(scene.envoy.counter("cluster.es-0.upstream_cx_total").await? <= 2);
    scene.finish().await
}
