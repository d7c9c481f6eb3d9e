//! Clients that disconnect, and many clients at once.

use anyhow::Result;
use bulk_reshuffle_e2e::{ClusterScript, Gate, Item, RawClient, Received, Recorded, Scene, lines, raise_file_limit};

/// Starts a scene in which bulk requests to the first node wait for the gate.
async fn with_a_slow_node() -> Result<(Scene, Gate)> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let gate = scene.cluster.hold_if(|request| request.node == 0);
    Ok((scene, gate))
}

/// Sends a bulk request on a new connection.
async fn begin(scene: &Scene, body: &str) -> Result<RawClient> {
    let mut client = RawClient::connect(scene.envoy.addr()).await?;
    client.send_in_pieces("/_bulk", body.as_bytes(), &[body.len()]).await?;
    Ok(client)
}

fn numbers_in(batches: &[Recorded]) -> Vec<Vec<u64>> {
    let number = |operation: Received| operation.source.unwrap()["n"].as_u64().unwrap();
    batches.iter().map(|batch| batch.operations().unwrap().into_iter().map(number).collect()).collect()
}

async fn only_number(client: RawClient) -> Result<Option<u64>> {
    let items = Item::of_answer(&client.json().await?)?;
    assert_eq!(items.len(), 1);
    Ok(items[0].number())
}

#[tokio::test(flavor = "multi_thread")]
async fn held_operations_of_a_client_that_disconnects_are_not_sent() -> Result<()> {
    let (scene, gate) = with_a_slow_node().await?;
    let first = begin(&scene, &scene.cluster.write_book(0, 0)?).await?;
    scene.cluster.wait_for_bulks("the first batch", |batches| batches.len() == 1).await?;
    let stays = begin(&scene, &scene.cluster.write_book(0, 1)?).await?;
    let leaves = begin(&scene, &scene.cluster.write_book(0, 2)?).await?;
    let stays_too = begin(&scene, &scene.cluster.write_book(0, 3)?).await?;
    scene.wait_for_operations(4).await?;
    drop(leaves);
    scene.wait_for_count("requests_total.outcome.abandoned", 1).await?;
    gate.open();
    assert_eq!(only_number(first).await?, Some(0));
    assert_eq!(only_number(stays).await?, Some(1));
    assert_eq!(only_number(stays_too).await?, Some(3));
    let mut numbers = numbers_in(&scene.cluster.bulks());
    numbers[1].sort_unstable();
    assert_eq!(numbers, [vec![0], vec![1, 3]]);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_disconnects_while_in_flight_does_not_affect_others() -> Result<()> {
    let (scene, gate) = with_a_slow_node().await?;
    let first = begin(&scene, &scene.cluster.write_book(0, 0)?).await?;
    scene.cluster.wait_for_bulks("the first batch", |batches| batches.len() == 1).await?;
    let second_gate = scene.cluster.hold();
    let leaves = begin(&scene, &scene.cluster.write_book(0, 1)?).await?;
    let stays = begin(&scene, &scene.cluster.write_book(0, 2)?).await?;
    scene.wait_for_operations(3).await?;
    gate.open();
    assert_eq!(only_number(first).await?, Some(0));
    // Both are in the second batch, and it has arrived.
    scene.cluster.wait_for_bulks("the second batch", |batches| batches.len() == 2).await?;
    drop(leaves);
    scene.wait_for_stat("http.elasticsearch.downstream_cx_active", |active| active <= 1).await?;
    second_gate.open();
    assert_eq!(only_number(stays).await?, Some(2));
    scene.wait_for_count("requests_total.outcome.abandoned", 1).await?;
    let mut numbers = numbers_in(&scene.cluster.bulks());
    numbers[1].sort_unstable();
    assert_eq!(numbers, [vec![0], vec![1, 2]]);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_share_in_flight_is_sent_completely() -> Result<()> {
    let (scene, gate) = with_a_slow_node().await?;
    let first = begin(&scene, &scene.cluster.write_book(0, 0)?).await?;
    scene.cluster.wait_for_bulks("the first batch", |batches| batches.len() == 1).await?;
    let both = format!("{}{}", scene.cluster.write_book(0, 1)?, scene.cluster.write_book(1, 2)?);
    let leaves = begin(&scene, &both).await?;
    scene.cluster.wait_for_bulks("the share for es-1", |batches| batches.len() == 2).await?;
    drop(leaves);
    scene.wait_for_stat("http.elasticsearch.downstream_cx_active", |active| active <= 1).await?;
    gate.open();
    assert_eq!(only_number(first).await?, Some(0));
    let batches = scene.cluster.wait_for_bulks("the share for es-0", |batches| batches.len() == 3).await?;
    assert_eq!(numbers_in(&batches), [[0], [2], [1]]);
    scene.wait_for_count("requests_total.outcome.abandoned", 1).await?;
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_body_is_not_sent() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let body = scene.cluster.write_book(0, 0)?;
    for part in [0, 10, body.len()] {
        let mut client = RawClient::connect(scene.envoy.addr()).await?;
        client.send_head("/_bulk", "content-length: 1000").await?;
        client.send(&body[..part]).await?;
        scene.wait_for_stat("http.elasticsearch.downstream_rq_active", |active| active == 1).await?;
        drop(client);
        scene.wait_for_stat("http.elasticsearch.downstream_rq_active", |active| active == 0).await?;
    }
    assert_eq!(Item::read_all(&scene.bulk("/_bulk", scene.cluster.write_book(0, 1)?).await?)?[0].number(), Some(1));
    assert_eq!(numbers_in(&scene.cluster.bulks()), [[1]]);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn three_thousand_clients_at_once_each_get_their_own_item() -> Result<()> {
    const CLIENTS: u64 = 3000;
    // Envoy inherits the limit, and has a connection to each client.
    raise_file_limit(2 * CLIENTS + 1000)?;
    let (scene, gate) = with_a_slow_node().await?;
    let id = scene.cluster.book(0, 0)?;
    let answers: Vec<_> =
        (0..CLIENTS).map(|number| scene.begin_bulk("/_bulk", &[], lines::index("books", &id, number))).collect();
    scene.wait_for_operations(CLIENTS).await?;
    assert_eq!(scene.cluster.bulks().len(), 1);
    gate.open();
    for (number, answer) in (0..).zip(answers) {
        assert_eq!(Item::outcomes(&answer.get().await?)?, [(Some(number), 201)]);
    }
    // All waiting requests were sent in one batch.
    assert_eq!(scene.cluster.bulks().len(), 2);
    assert_eq!(scene.counted("requests_total.outcome.merged").await?, CLIENTS);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_each_serve_their_own_clients() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).workers(2).start().await?;
    let mut answers = Vec::new();
    for number in 0..200_u64 {
        let body: String =
            (0..3).map(|node| lines::index("books", &scene.cluster.book(node, 0).unwrap(), number)).collect();
        answers.push((number, begin(&scene, &body).await?));
    }
    for (number, client) in answers {
        let items = Item::of_answer(&client.json().await?)?;
        let numbers: Vec<_> = items.iter().map(Item::number).collect();
        assert_eq!(numbers, [Some(number); 3]);
    }
    assert_eq!(scene.counted("requests_total.outcome.merged").await?, 200);
    assert_eq!(scene.passed_through().await?, [].into());
    scene.finish().await
}
