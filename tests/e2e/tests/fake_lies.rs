//! Nodes whose answers are not answers to what they were asked.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use anyhow::Result;
use bulk_reshuffle_e2e::{ClusterScript, Gate, Item, Items, Reaction, Scene, lines};
use serde_json::{Value, json};

fn changed(change: impl Fn(&mut Vec<Value>) + Send + Sync + 'static) -> Reaction {
    Reaction::Items(Items::default().change(change))
}

/// Answers with 200 to two or more operations that are no answers to them.
fn lies() -> Vec<(&'static str, Reaction)> {
    let html = Reaction::Status(200, vec![("content-type".into(), "text/html".into())], "<html>200</html>".into());
    let other_item = || json!({"index": {"_index": "books", "_id": "other", "status": 201}});
    vec![
        ("too few items", changed(|items| drop(items.pop()))),
        ("no items", changed(Vec::clear)),
        ("too many items", changed(move |items| items.push(other_item()))),
        ("one item twice", changed(|items| items.push(items[0].clone()))),
        ("items of another request", changed(|items| items[0]["index"]["_id"] = json!("other"))),
        ("items in another order", changed(|items| items.reverse())),
        ("an item of another action", changed(|items| items[0] = json!({"delete": items[0]["index"]}))),
        ("an item of no action", changed(|items| items[0] = json!({}))),
        ("an item of two actions", changed(|items| items[0]["create"] = items[0]["index"].clone())),
        ("an item that is null", changed(|items| items[0] = Value::Null)),
        ("an item that is a list", changed(|items| items[0] = json!([1, 2]))),
        ("an id that is a number", changed(|items| items[0]["index"]["_id"] = json!(7))),
        ("an item without an id", changed(|items| drop(items[0]["index"].as_object_mut().unwrap().remove("_id")))),
        ("an empty object", Reaction::raw("{}")),
        ("no body", Reaction::raw("")),
        ("no JSON", Reaction::raw("{\"took\":1,\"errors\":false,\"items\":[{\"index\":")),
        ("no UTF-8", Reaction::raw(b"{\"took\":1,\"items\":[\"\xff\"]}".to_vec())),
        ("a list", Reaction::raw("[]")),
        ("null", Reaction::raw("null")),
        ("items that are no list", Reaction::raw("{\"took\":1,\"errors\":false,\"items\":{}}")),
        ("a took that is no number", Reaction::raw("{\"took\":\"long\",\"errors\":false,\"items\":[]}")),
        ("an abyss", Reaction::raw("[".repeat(1_000_000))),
        ("an abyss in an item", Reaction::raw(format!("{{\"items\":[{}", "{\"index\":".repeat(100_000)))),
        ("HTML", html),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_without_a_true_answer_have_an_unknown_outcome() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let (honest, liar) = (scene.cluster.write_book(0, 0)?, scene.cluster.write_book(1, 0)?);
    let body = format!("{liar}{honest}{}", scene.cluster.write_book(1, 1)?);
    for (number, (lie, reaction)) in (1..).zip(lies()) {
        scene.cluster.forget();
        scene.cluster.react(move |request| match request.node {
            1 => reaction.clone(),
            _ => Reaction::items(),
        });
        let items = Item::read_all(&scene.bulk("/_bulk", body.clone()).await?)?;
        let found: Vec<_> = items.iter().map(|item| (item.id.clone(), item.status, item.error())).collect();
        let unknown = Some("bulk_outcome_unknown_exception");
        let id = |node, number| scene.cluster.book(node, number).unwrap();
        assert_eq!(found, [(id(1, 0), 503, unknown), (id(0, 0), 201, None), (id(1, 1), 503, unknown)], "{lie}");
        assert_eq!(scene.counted("operations_unknown_total.upstream.es-1").await?, 2 * number, "{lie}");
        assert_eq!(scene.cluster.bulks().len(), 2, "{lie}: sent twice");
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_gets_another_ones_item() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    for (lie, reaction) in lies() {
        let before = scene.counted("operations_total").await?;
        let gate = Gate::closed();
        let closed = gate.clone();
        scene.cluster.forget();
        scene.cluster.react(move |request| match request.operations().unwrap().len() {
            1 => Reaction::items().after(&closed),
            _ => reaction.clone(),
        });
        let first = scene.begin_bulk("/_bulk", &[], scene.cluster.write_book(0, 9)?);
        scene.cluster.wait_for_bulks("the first batch", |batches| batches.len() == 1).await?;
        let merged: Vec<_> = (0..3)
            .map(|number| scene.begin_bulk("/_bulk", &[], scene.cluster.write_book(0, number).unwrap()))
            .collect();
        scene.wait_for_operations(before + 4).await?;
        gate.open();
        assert_eq!(Item::read_all(&first.get().await?)?[0].status, 201);
        for (number, answer) in (0..).zip(merged) {
            let items = Item::read_all(&answer.get().await?)?;
            assert_eq!((items.len(), &items[0].id), (1, &scene.cluster.book(0, number)?), "{lie}");
            let found = (items[0].status, items[0].error());
            assert_eq!(found, (503, Some("bulk_outcome_unknown_exception")), "{lie}");
        }
    }
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_large_to_read_means_an_unknown_outcome() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let padding = "x".repeat(33 << 20);
    scene.cluster.react(move |request| match request.node {
        1 => Reaction::raw(format!("{{\"took\":1,\"errors\":false,\"padding\":\"{padding}\",\"items\":[]}}")),
        _ => Reaction::items(),
    });
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
async fn a_nodes_own_503_is_not_taken_for_a_connection_that_failed() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let words = "upstream connect error or disconnect/reset before headers. reset reason: remote connection failure";
    let error = json!({"error": {"type": "quoting_exception", "reason": words}, "status": 503});
    scene.cluster.react(move |request| match request.node {
        1 => Reaction::refusal(503, "quoting_exception", words),
        _ => Reaction::items(),
    });
    let body = format!("{}{}", lines::index("books", &scene.cluster.book(0, 0)?, 1), scene.cluster.write_book(1, 0)?);
    let items = Item::read_all(&scene.bulk("/_bulk", body).await?)?;
    assert_eq!(items[0].status, 201);
    assert_eq!((items[1].status, &items[1].fields["error"]), (503, &error["error"]));
    assert_eq!(scene.cluster.bulks().len(), 2, "sent again");
    scene.finish().await
}
