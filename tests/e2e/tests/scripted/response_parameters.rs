//! The filter applies parameters that select and format the answer; the nodes return complete answers.

use anyhow::Result;
use bulk_reshuffle_e2e::{ClusterScript, Reaction, Scene};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_filter_path_is_split_and_its_answer_filtered() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let body = scene.cluster.write_books(0);
    let path = "/_bulk?filter_path=errors,items.*.error,items.*.status&timeout=1m";
    let answer = scene.bulk(path, body.clone()).await?;
    let item = r#"{"index":{"status":201}}"#;
    assert_eq!(answer.text(), format!(r#"{{"errors":false,"items":[{item},{item},{item}]}}"#));
    assert_eq!(answer.headers["content-length"], answer.body.len().to_string());
    let batches = scene.cluster.bulks();
    assert_eq!(batches.len(), 3);
    assert!(batches.iter().all(|batch| batch.target == "/_bulk?timeout=1m"), "{batches:?}");

    // A request for one node alone, with a different kind of answer.
    let raw = r#"{"took":1,"errors":true,"items":[{"index":{"status":400,"error":{"type":"t","reason":"r"}}}]}"#;
    scene.cluster.react(move |_| Reaction::raw(raw));
    let answer = scene.bulk("/_bulk?filter_path=items.*.error.type", scene.cluster.write_book(0, 0)?).await?;
    assert_eq!(answer.text(), r#"{"items":[{"index":{"error":{"type":"t"}}}]}"#);

    // A refusal is not filtered.
    scene.cluster.react(|_| Reaction::refusal(403, "security_exception", "no"));
    let answer = scene.bulk("/_bulk?filter_path=items.*.error.type", body).await?;
    assert_eq!((answer.status.as_u16(), &answer.json()?["error"]["reason"]), (403, &"no".into()));
    assert_eq!(scene.passed_through().await?, [].into());
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_pretty_shares_a_batch_and_its_answer_is_formatted() -> Result<()> {
    let scene = Scene::of(ClusterScript::three_nodes()).start().await?;
    let (gate, book) = (scene.cluster.hold(), scene.cluster.write_book(0, 0)?);
    let first = scene.begin_bulk("/_bulk", &[], book.clone());
    scene.cluster.wait_for_bulks("the first batch", |batches| batches.len() == 1).await?;
    let queries = ["pretty", "pretty=false", "pretty&filter_path=items.*.status"];
    let answers: Vec<_> =
        queries.iter().map(|query| scene.begin_bulk(&format!("/_bulk?{query}"), &[], book.clone())).collect();
    scene.wait_for_operations(4).await?;
    gate.open();
    first.get().await?.ok()?;
    let mut texts = Vec::new();
    for answer in answers {
        let answer = answer.get().await?.ok()?;
        assert_eq!(answer.headers["content-length"], answer.body.len().to_string());
        texts.push(answer.text());
    }
    assert!(texts[0].starts_with("{\n  \"took\" : 0,\n  \"errors\" : false,\n  \"items\" : [\n"), "{}", texts[0]);
    assert!(texts[1].starts_with("{\"took\":0,"), "{}", texts[1]);
    assert_eq!(
        texts[2],
        "{\n  \"items\" : [\n    {\n      \"index\" : {\n        \"status\" : 201\n      }\n    }\n  ]\n}\n"
    );
    let batches = scene.cluster.bulks();
    assert_eq!(batches.len(), 2);
    assert!(batches.iter().all(|batch| batch.target == "/_bulk"), "{batches:?}");

    scene.cluster.react(|_| Reaction::refusal(403, "security_exception", "no"));
    let refusal = scene.bulk("/_bulk?pretty", scene.cluster.write_book(1, 0)?).await?;
    assert_eq!(refusal.status, 403);
    assert!(refusal.text().contains("\n    \"reason\" : \"no\""), "{}", refusal.text());
    assert_eq!(scene.passed_through().await?, [].into());
    scene.finish().await
}
