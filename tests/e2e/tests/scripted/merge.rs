//! Shares of many requests are merged into one batch.

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{Answer, ClusterScript, Gate, Index, Item, Recorded, Scene, lines};
use serde_json::json;

/// Starts a scene in which every bulk request waits for the gate.
async fn behind_a_gate(config: serde_json::Value) -> Result<(Scene, Gate)> {
    let scene = Scene::of(ClusterScript::three_nodes()).config(config).start().await?;
    let gate = scene.cluster.hold();
    Ok((scene, gate))
}

async fn only_item(answer: Answer) -> Result<Item> {
    let mut items = Item::read_all(&answer.get().await?)?;
    assert_eq!(items.len(), 1);
    Ok(items.remove(0))
}

fn operations_in(batches: &[Recorded]) -> Vec<usize> {
    batches.iter().map(|batch| batch.operations().unwrap().len()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_arrive_while_a_batch_is_in_flight_share_the_next_batch() -> Result<()> {
    let (scene, gate) = behind_a_gate(json!({})).await?;
    let first = scene.begin_bulk("/_bulk", &[], scene.cluster.write_book(0, 0)?);
    scene.cluster.wait_for_bulks("the first batch", |batches| batches.len() == 1).await?;
    // All requests write the same document, so that only its number identifies an item.
    let id = scene.cluster.book(0, 1)?;
    let waiting: Vec<_> =
        (1..=40).map(|number| (number, scene.begin_bulk("/_bulk", &[], lines::index("books", &id, number)))).collect();
    scene.wait_for_operations(41).await?;
    assert_eq!(scene.cluster.bulks().len(), 1);
    gate.open();

    assert_eq!(only_item(first).await?.number(), Some(0));
    for (number, answer) in waiting {
        let item = only_item(answer).await?;
        assert_eq!((item.number(), item.status), (Some(number), 201));
    }
    assert_eq!(operations_in(&scene.cluster.bulks_at(0)), [1, 40]);
    assert_eq!(scene.cluster.bulks().len(), 2);
    assert_eq!(scene.counted("batch_requests_total.upstream.es-0").await?, 41);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_batch_no_longer_delays_operations_for_other_shards() -> Result<()> {
    let script = ClusterScript::three_nodes().index(Index::new("others", [0, 1, 2]));
    let scene = Scene::of(script).config(json!({"hold": {"late_after": "20ms"}})).start().await?;
    let gate = scene.cluster.hold();
    let late = scene.begin_bulk("/_bulk", &[], scene.cluster.write_book(0, 0)?);
    scene.cluster.wait_for_bulks("the first batch", |batches| batches.len() == 1).await?;
    let other = scene.cluster.script().ids("others", 0)?.next().context("no id")?;
    let other = scene.begin_bulk("/_bulk", &[], lines::index("others", &other, 1));
    scene.cluster.wait_for_bulks("a batch beside the late one", |batches| batches.len() == 2).await?;
    scene.wait_for_count("batches_late_total.upstream.es-0", 1).await?;
    gate.open();
    assert_eq!(only_item(other).await?.number(), Some(1));
    assert_eq!(only_item(late).await?.number(), Some(0));
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_early_release_a_hold_is_sent_at_the_end_of_its_interval() -> Result<()> {
    let config = json!({"hold": {"early_release": false, "interval": "1s"}});
    let scene = Scene::of(ClusterScript::three_nodes()).config(config).start().await?;
    let (first, second) = (scene.cluster.write_book(0, 0)?, scene.cluster.write_book(0, 1)?);
    let (first, second) = (scene.begin_bulk("/_bulk", &[], first), scene.begin_bulk("/_bulk", &[], second));
    scene.wait_for_operations(2).await?;
    assert_eq!(scene.cluster.bulks().len(), 0);
    assert_eq!(only_item(first).await?.number(), Some(0));
    assert_eq!(only_item(second).await?.number(), Some(1));
    assert_eq!(operations_in(&scene.cluster.bulks()), [2]);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_early_release_a_hold_is_sent_when_it_has_enough_operations() -> Result<()> {
    let config = json!({"hold": {"early_release": false, "interval": "1h", "flush_threshold_docs": 2}});
    let scene = Scene::of(ClusterScript::three_nodes()).config(config).start().await?;
    for round in 1..=2 {
        let first = scene.begin_bulk("/_bulk", &[], scene.cluster.write_book(0, 0)?);
        scene.wait_for_operations(round * 2 - 1).await?;
        assert_eq!(scene.cluster.bulks().len() as u64, round - 1);
        let second = scene.begin_bulk("/_bulk", &[], scene.cluster.write_book(0, 1)?);
        assert_eq!(only_item(first).await?.number(), Some(0));
        assert_eq!(only_item(second).await?.number(), Some(1));
        assert_eq!(scene.cluster.bulks().len() as u64, round);
    }
    assert_eq!(operations_in(&scene.cluster.bulks()), [2, 2]);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_does_not_exceed_the_size_threshold_and_a_larger_request_is_sent_alone() -> Result<()> {
    let (scene, gate) = behind_a_gate(json!({"hold": {"flush_threshold_size": "10kb"}})).await?;
    let ids: Vec<_> = (0..5).map(|number| scene.cluster.book(0, number).unwrap()).collect();
    let mut answers = vec![scene.begin_bulk("/_bulk", &[], lines::large("books", &ids[0], 10))];
    scene.cluster.wait_for_bulks("the first batch", |batches| batches.len() == 1).await?;
    for (number, size) in [(1, 4000), (2, 4000), (3, 4000), (4, 30_000)] {
        answers.push(scene.begin_bulk("/_bulk", &[], lines::large("books", &ids[number], size)));
        scene.wait_for_operations(number as u64 + 1).await?;
    }
    gate.open();
    for (answer, id) in answers.into_iter().zip(&ids) {
        assert_eq!(&only_item(answer).await?.id, id);
    }
    assert_eq!(operations_in(&scene.cluster.bulks()), [1, 2, 1, 1]);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_batches_are_in_flight_than_allowed() -> Result<()> {
    let config = json!({
        "hold": {"early_release": false, "interval": "1h", "flush_threshold_docs": 1},
        "dispatch": {"max_in_flight": 2},
    });
    let (scene, gate) = behind_a_gate(config).await?;
    let mut answers = Vec::new();
    for number in 0..4 {
        answers.push(scene.begin_bulk("/_bulk", &[], scene.cluster.write_book(0, number)?));
        scene.wait_for_operations(number as u64 + 1).await?;
    }
    scene.cluster.wait_for_bulks("two batches", |batches| batches.len() == 2).await?;
    assert_eq!(scene.counted("batches_total.upstream.es-0").await?, 2);
    gate.open();
    for (answer, number) in answers.into_iter().zip(0..) {
        assert_eq!(only_item(answer).await?.number(), Some(number));
    }
    assert_eq!(operations_in(&scene.cluster.bulks()), [1, 1, 1, 1]);
    scene.finish().await
}

type Head = (&'static str, &'static [(&'static str, &'static str)]);

const CALLERS: &[Head] = &[
    ("/_bulk", &[("authorization", "Basic YQ==")]),
    ("/_bulk", &[("authorization", "Basic Yg==")]),
    ("/_bulk", &[]),
    ("/books/_bulk", &[("authorization", "Basic YQ==")]),
    ("/_bulk?refresh=true", &[("authorization", "Basic YQ==")]),
    ("/_bulk", &[("authorization", "Basic YQ=="), ("x-opaque-id", "mine")]),
    ("/_bulk", &[("authorization", "Basic YQ=="), ("es-security-runas-user", "root")]),
    ("/_bulk", &[("authorization", "Basic YQ=="), ("host", "tenant.example")]),
    ("/_bulk", &[("authorization", "Basic YQ=="), ("content-type", "application/json")]),
];

/// Headers that do not change the caller.
const HARMLESS: &[(&str, &str)] = &[
    ("user-agent", "another"),
    ("x-request-id", "another"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("accept-encoding", "gzip"),
    ("x-elastic-client-meta", "es=8"),
];

/// The number of slots that a node has at the start: of batches of one identity that may be in flight at once.
const SLOTS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn callers_never_mix() -> Result<()> {
    let (first, others) = CALLERS.split_first().context("no callers")?;
    for others in others.chunks(SLOTS - 1) {
        check_apart(&[&[*first], others].concat()).await?;
    }
    Ok(())
}

/// Checks that no requests of these callers share a batch.
async fn check_apart(callers: &[Head]) -> Result<()> {
    let (scene, gate) = behind_a_gate(json!({})).await?;
    let mut answers = Vec::new();
    // A caller's number is the thousands of its operations' numbers.
    let begin = |caller: usize, further: &[(&str, &str)], number: u64| {
        let (path, headers) = callers[caller];
        let headers: Vec<_> = headers.iter().chain(further).copied().collect();
        let number = caller as u64 * 1000 + number;
        let body = lines::index("books", &scene.cluster.book(0, 0).unwrap(), number);
        (number, scene.begin_bulk(path, &headers, body))
    };
    answers.extend((0..callers.len()).map(|caller| begin(caller, &[], 0)));
    scene.cluster.wait_for_bulks("a batch per caller", |batches| batches.len() == callers.len()).await?;
    for number in 1..=2 {
        answers.extend((0..callers.len()).map(|caller| begin(caller, &[], number)));
    }
    answers.extend(HARMLESS.iter().zip(3..).map(|(header, number)| begin(0, &[*header], number)));
    scene.wait_for_operations(answers.len() as u64).await?;
    gate.open();
    for (number, answer) in answers {
        assert_eq!(only_item(answer).await?.number(), Some(number));
    }

    let batches = scene.cluster.bulks();
    assert_eq!(batches.len(), 2 * callers.len());
    for batch in &batches {
        let operations = batch.operations()?;
        let numbers = operations.iter().map(|operation| operation.source.as_ref().unwrap()["n"].as_u64().unwrap());
        let senders: Vec<_> = numbers.map(|number| number / 1000).collect();
        let caller = senders[0] as usize;
        assert!(senders.iter().all(|other| *other == senders[0]), "callers {senders:?} share a batch");
        let (path, headers) = callers[caller];
        assert_eq!(batch.target, path);
        for name in ["authorization", "x-opaque-id", "es-security-runas-user"] {
            let expected = headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            assert_eq!(batch.header(name), expected, "{name} of caller {caller}");
        }
    }
    let mut sizes = operations_in(&batches);
    sizes.sort_unstable();
    let of_first = 2 + HARMLESS.len();
    assert_eq!(sizes, [vec![1; callers.len()], vec![2; callers.len() - 1], vec![of_first]].concat());
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_defines_the_harmless_headers() -> Result<()> {
    // Envoy gives every request an `x-request-id` of its own.
    let harmless = ["x-opaque-id", "x-sent-at", "x-request-id"];
    let (scene, gate) = behind_a_gate(json!({"harmless_headers": harmless})).await?;
    let begin = |headers: &[(&str, &str)], number: u64| {
        scene.begin_bulk("/_bulk", headers, lines::index("books", &scene.cluster.book(0, 0).unwrap(), number))
    };
    let mut answers = vec![begin(&[("user-agent", "one")], 0)];
    scene.cluster.wait_for_bulks("the first batch", |batches| batches.len() == 1).await?;
    answers.push(begin(&[("user-agent", "one"), ("x-opaque-id", "a"), ("x-sent-at", "noon")], 1));
    answers.push(begin(&[("user-agent", "one"), ("x-opaque-id", "b"), ("connection", "keep-alive")], 2));
    // `user-agent` is no longer harmless, so this is another caller.
    answers.push(begin(&[("user-agent", "other")], 3));
    scene.wait_for_operations(4).await?;
    gate.open();
    for (number, answer) in (0..).zip(answers) {
        assert_eq!(only_item(answer).await?.number(), Some(number));
    }

    let batches = scene.cluster.bulks();
    let software = |batch: &Recorded| batch.header("user-agent").map(str::to_owned);
    let (one, other): (Vec<_>, Vec<_>) =
        batches.into_iter().partition(|batch| software(batch).as_deref() == Some("one"));
    assert_eq!(operations_in(&one), [1, 2]);
    assert_eq!((operations_in(&other), software(&other[0]).as_deref()), (vec![1], Some("other")));
    for batch in one.iter().chain(&other) {
        assert_eq!((batch.header("x-opaque-id"), batch.header("x-sent-at")), (None, None), "{batch:?}");
    }
    scene.finish().await
}
