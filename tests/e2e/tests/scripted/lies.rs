//! Nodes whose answers do not match the requests.

use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_e2e::{ClusterScript, Index, Item, Items, Reaction, Scene, lines};
use bulk_reshuffle_stack::wait::until;
use serde_json::{Value, json};

fn changed(change: impl Fn(&mut Vec<Value>) + Send + Sync + 'static) -> Reaction {
    Reaction::Items(Items::default().change(change))
}

/// Neither of two items is valid.
const NONE: [bool; 2] = [false; 2];

/// Returns wrong answers with 200 to two or more operations, and which of the first two operations nevertheless have a
/// valid item.
fn lies() -> Vec<(&'static str, [bool; 2], Reaction)> {
    let html = Reaction::Status(200, vec![("content-type".into(), "text/html".into())], "<html>200</html>".into());
    let other_item = || json!({"index": {"_index": "books", "_id": "other", "status": 201}});
    vec![
        ("too few items", [true, false], changed(|items| drop(items.pop()))),
        ("no items", NONE, changed(Vec::clear)),
        ("too many items", [true, true], changed(move |items| items.push(other_item()))),
        ("one item twice", [false, true], changed(|items| items.push(items[0].clone()))),
        (
            "an item of another request",
            [false, true],
            changed(|items| items[0] = json!({"index": {"_index": "books", "_id": "other", "status": 200}})),
        ),
        ("items in another order", [true, true], changed(|items| items.reverse())),
        ("an item of another action", [false, true], changed(|items| items[0] = json!({"delete": items[0]["index"]}))),
        ("an item of no action", NONE, changed(|items| items[0] = json!({}))),
        ("an item of two actions", NONE, changed(|items| items[0]["create"] = items[0]["index"].clone())),
        ("an item that is null", NONE, changed(|items| items[0] = Value::Null)),
        ("an item that is a list", NONE, changed(|items| items[0] = json!([1, 2]))),
        ("an id that is a number", NONE, changed(|items| items[0]["index"]["_id"] = json!(7))),
        (
            "an item without an id",
            [false, true],
            changed(|items| drop(items[0]["index"].as_object_mut().unwrap().remove("_id"))),
        ),
        ("an empty object", NONE, Reaction::raw("{}")),
        ("no body", NONE, Reaction::raw("")),
        ("truncated JSON", NONE, Reaction::raw("{\"took\":1,\"errors\":false,\"items\":[{\"index\":")),
        ("invalid UTF-8", NONE, Reaction::raw(b"{\"took\":1,\"items\":[\"\xff\"]}".to_vec())),
        ("a list", NONE, Reaction::raw("[]")),
        ("null", NONE, Reaction::raw("null")),
        ("items that are not a list", NONE, Reaction::raw("{\"took\":1,\"errors\":false,\"items\":{}}")),
        ("a took that is not a number", NONE, Reaction::raw("{\"took\":\"long\",\"errors\":false,\"items\":[]}")),
        ("deep nesting", NONE, Reaction::raw("[".repeat(1_000_000))),
        ("deep nesting in an item", NONE, Reaction::raw(format!("{{\"items\":[{}", "{\"index\":".repeat(100_000)))),
        ("HTML", NONE, html),
    ]
}

async fn with_short_refresh() -> Result<Scene> {
    let config = json!({"cluster_state": {"refresh": "100ms"}});
    Scene::of(ClusterScript::three_nodes()).config(config).start().await
}

/// Waits until the filter merges requests for the index again, after a poll of the state.
async fn wait_for_trust(scene: &Scene) -> Result<()> {
    scene.cluster.react(|_| Reaction::items());
    until(Duration::from_secs(10), "the index is trusted again", async || {
        let before = scene.counted("requests_total.outcome.merged").await?;
        scene.bulk("/_bulk", scene.cluster.write_book(2, 0)?).await?;
        Ok((scene.counted("requests_total.outcome.merged").await? > before).then_some(()))
    })
    .await?;
    scene.cluster.forget();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_without_a_valid_item_have_an_unknown_outcome() -> Result<()> {
    let scene = with_short_refresh().await?;
    let (honest, liar) = (scene.cluster.write_book(0, 0)?, scene.cluster.write_book(1, 0)?);
    let body = format!("{liar}{honest}{}", scene.cluster.write_book(1, 1)?);
    let mut unknown = 0;
    for (lie, true_items, reaction) in lies() {
        wait_for_trust(&scene).await?;
        scene.cluster.react_at(1, reaction);
        let items = Item::read_all(&scene.bulk("/_bulk", body.clone()).await?)?;
        let found: Vec<_> = items.iter().map(|item| (item.id.clone(), item.number(), item.error())).collect();
        let expected = |number: usize| match true_items[number] {
            true => (scene.cluster.book(1, number).unwrap(), Some(number as u64), None),
            false => (scene.cluster.book(1, number).unwrap(), None, Some("bulk_outcome_unknown_exception")),
        };
        assert_eq!(found, [expected(0), (scene.cluster.book(0, 0)?, Some(0), None), expected(1)], "{lie}");
        unknown += true_items.iter().filter(|is_true| !**is_true).count() as u64;
        assert_eq!(scene.counted("operations_unknown_total.upstream.es-1").await?, unknown, "{lie}");
        assert_eq!(scene.cluster.bulks().len(), 2, "{lie}: sent twice");
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_gets_another_requests_item() -> Result<()> {
    let scene = with_short_refresh().await?;
    for (lie, true_items, reaction) in lies() {
        wait_for_trust(&scene).await?;
        let before = scene.counted("operations_total").await?;
        let gate = scene.cluster.react_with_gate(move |request, gate| match request.operations().unwrap().len() {
            1 => Reaction::items().after(gate),
            _ => reaction.clone(),
        });
        let first = scene.begin_bulk("/_bulk", &[], scene.cluster.write_book(0, 9)?);
        scene.cluster.wait_for_bulks("the first batch", |batches| batches.len() == 1).await?;
        let mut merged = Vec::new();
        for number in 0..2 {
            merged.push(scene.begin_bulk("/_bulk", &[], scene.cluster.write_book(0, number)?));
            // Sent one after the other to fix their order in the batch.
            scene.wait_for_operations(before + 2 + number as u64).await?;
        }
        gate.open();
        assert_eq!(Item::read_all(&first.get().await?)?[0].status, 201);
        for (number, answer) in merged.into_iter().enumerate() {
            let items = Item::read_all(&answer.get().await?)?;
            assert_eq!((items.len(), &items[0].id), (1, &scene.cluster.book(0, number)?), "{lie}");
            let expected = match true_items[number] {
                true => (Some(number as u64), None),
                false => (None, Some("bulk_outcome_unknown_exception")),
            };
            assert_eq!((items[0].number(), items[0].error()), expected, "{lie}");
        }
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_wrong_answer_the_state_is_polled_soon_and_then_requests_are_merged_again() -> Result<()> {
    let config = json!({"cluster_state": {"refresh": "1h"}});
    let script = ClusterScript::three_nodes().index(Index::new("films", [2]));
    let scene = Scene::of(script).config(config).start().await?;
    scene.cluster.react_at(1, changed(|items| items.reverse()));
    let (one, two) = (scene.cluster.write_book(1, 0)?, scene.cluster.write_book(1, 1)?);
    scene.bulk("/_bulk", format!("{one}{two}{}", scene.cluster.write_book(0, 0)?)).await?;
    assert_eq!(scene.counted("answers_mismatched_total.upstream.es-1").await?, 1);
    scene.cluster.wait_for_others("a poll", |polls| !polls.is_empty()).await?;
    wait_for_trust(&scene).await?;
    let before = scene.passed_through().await?;
    for body in [one, lines::index("films", "f", 1)] {
        scene.bulk("/_bulk", body).await?;
    }
    assert_eq!(scene.passed_through().await?, before);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_large_to_read_means_an_unknown_outcome() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let padding = "x".repeat(33 << 20);
    let answer = format!("{{\"took\":1,\"errors\":false,\"padding\":\"{padding}\",\"items\":[]}}");
    scene.cluster.react_at(1, Reaction::raw(answer));
    let body = format!("{}{}", scene.cluster.write_book(0, 0)?, scene.cluster.write_book(1, 0)?);
    let items = Item::read_all(&scene.bulk("/_bulk", body).await?)?;
    assert_eq!((items[0].status, items[0].error()), (201, None));
    assert_eq!((items[1].status, items[1].error()), (503, Some("bulk_outcome_unknown_exception")));
    assert_eq!(scene.cluster.bulks().len(), 2);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_is_read() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    scene.cluster.react(|_| {
        changed(|items| items.iter_mut().for_each(|item| item["index"]["padding"] = json!("x".repeat(500_000))))
    });
    let write = |node: usize| (0..20).map(move |number| (node, number));
    let body: String =
        write(0).chain(write(1)).map(|(node, number)| scene.cluster.write_book(node, number).unwrap()).collect();
    let answer = scene.bulk("/_bulk", body).await?;
    let numbers: Vec<_> = Item::read_all(&answer)?.iter().map(|item| item.number().unwrap()).collect();
    assert_eq!(numbers, (0..20).chain(0..20).collect::<Vec<_>>());
    assert!(answer.body.len() > 20_000_000);
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_503_from_a_node_is_not_mistaken_for_a_failed_connection() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let words = "upstream connect error or disconnect/reset before headers. reset reason: remote connection failure";
    let error = json!({"error": {"type": "quoting_exception", "reason": words}, "status": 503});
    scene.cluster.react_at(1, Reaction::refusal(503, "quoting_exception", words));
    let body = format!("{}{}", lines::index("books", &scene.cluster.book(0, 0)?, 1), scene.cluster.write_book(1, 0)?);
    let items = Item::read_all(&scene.bulk("/_bulk", body).await?)?;
    assert_eq!(items[0].status, 201);
    assert_eq!((items[1].status, &items[1].fields["error"]), (503, &error["error"]));
    assert_eq!(scene.cluster.bulks().len(), 2, "retried");
    scene.finish().await
}
