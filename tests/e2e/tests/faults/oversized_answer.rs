use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::fault_scene::Plan;

/// The largest answer to a callout that Envoy keeps.
const MOST: u64 = 32 << 20;

const PAIRS: usize = 10_000;

/// Returns a long id, for a valid or an invalid document.
fn id(kind: &str, number: usize) -> String {
    format!("{kind}-{number}-{}", "i".repeat(400))
}

/// Returns operations of which every second one fails; its error quotes the invalid number twice. Some operations are
/// for another index.
fn body(large: &str, other: &str) -> String {
    let not_a_number = "x".repeat(1_500);
    let mut body = String::new();
    for number in 0..PAIRS {
        let (good, bad) = (id("good", number), id("bad", number));
        body += &format!("{{\"index\":{{\"_index\":\"{large}\",\"_id\":\"{good}\"}}}}\n{{\"n\":{number}}}\n");
        body += &format!("{{\"index\":{{\"_index\":\"{large}\",\"_id\":\"{bad}\"}}}}\n{{\"n\":\"{not_a_number}\"}}\n");
        if number % 100 == 0 {
            body += &format!("{{\"create\":{{\"_index\":\"{other}\",\"_id\":\"{number}\"}}}}\n{{\"n\":{number}}}\n");
        }
    }
    body
}

/// With the shipped configuration no answer becomes too large: the filter sends such a share in parts.
#[tokio::test(flavor = "multi_thread")]
async fn a_share_whose_answer_would_be_too_large_is_sent_in_parts() -> Result<()> {
    let plan = Plan::new("answers in parts").alone().index("parts-large", json!({"number_of_shards": 1}));
    let scene = plan.index("parts-other", json!({})).start().await?;
    let client = scene.backend.client.with_timeout(Duration::from_secs(120));
    let answer = client.post_ndjson(&scene.envoy.url("/_bulk"), body("parts-large", "parts-other")).await?.ok()?;
    ensure!(answer.body.len() as u64 > MOST, "{} bytes are not too large", answer.body.len());
    let answer = answer.json()?;
    let items = answer["items"].as_array().context("no items")?;
    let statuses = |status: u64| items.iter().filter(|item| status_of(item) == Some(status)).count();
    let expected = (items.len(), statuses(201), statuses(400));
    ensure!(expected == (2 * PAIRS + PAIRS / 100, PAIRS + PAIRS / 100, PAIRS), "{expected:?}");
    ensure!(scene.backend.documents("parts-large").await?.len() == PAIRS, "documents are missing");
    scene.stop(Duration::ZERO).await
}

fn status_of(item: &Value) -> Option<u64> {
    item.as_object()?.values().next()?["status"].as_u64()
}

/// If `limits.max_answer` is more than Envoy keeps, the filter cannot read the answer. Half of the operations were
/// carried out, so the client is told that every outcome is unknown.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_large_to_read_makes_outcomes_unknown() -> Result<()> {
    let plan = Plan::new("answer over 32 MiB")
        .alone()
        .config("limits", json!({"max_answer": "1gb"}))
        .index("unread-load", json!({}));
    let scene =
        plan.index("unread-large", json!({"number_of_shards": 1})).index("unread-other", json!({})).start().await?;
    let mut load = scene.load("unread-load", "");
    let before = load.steady_rate().await?;
    let body = body("unread-large", "unread-other");
    let client = scene.backend.client.with_timeout(Duration::from_secs(120));
    let answer = client.post_ndjson(&scene.envoy.url("/_bulk"), body.clone()).await?.ok()?.json()?;
    let recovered = load.recovers(before).await?;

    let items = answer["items"].as_array().context("no items")?;
    ensure!(items.len() == 2 * PAIRS + PAIRS / 100, "{} items", items.len());
    let mut left = items.iter();
    let mut next = || left.next().context("no item");
    let (mut unknown, mut acknowledged) = (0, 0);
    let others: HashSet<String> =
        scene.backend.documents("unread-other").await?.into_iter().map(|(id, _)| id).collect();
    for number in 0..PAIRS {
        for kind in ["good", "bad"] {
            let item = &next()?["index"];
            ensure!(item["_id"] == id(kind, number), "{item}");
            ensure!(item["status"] == 503 && item["error"]["type"] == "bulk_outcome_unknown_exception", "{item}");
            unknown += 1;
        }
        if number % 100 == 0 {
            let item = &next()?["create"];
            ensure!(item["_id"].as_str() == Some(&number.to_string()), "{item}");
            // The operations for the node with the large index were in the same batch.
            match item["status"].as_u64() {
                Some(201) => {
                    ensure!(others.contains(&number.to_string()), "{number} was acknowledged, but is missing")
                }
                _ => ensure!(item["error"]["type"] == "bulk_outcome_unknown_exception", "{item}"),
            }
            acknowledged += usize::from(item["status"] == 201);
        }
    }
    ensure!(acknowledged > 0, "nothing was acknowledged");
    let written = scene.backend.documents("unread-large").await?.len();
    println!(
        "answer over 32 MiB: {unknown} outcomes unknown, {written} of them carried out, {acknowledged} acknowledged"
    );
    ensure!(written == PAIRS, "{written} documents");
    let direct = client.post_ndjson(&scene.backend.direct(0, "/_bulk")?, body).await?.ok()?;
    ensure!(direct.body.len() as u64 > MOST, "{} bytes are not too large", direct.body.len());
    // A node that has no memory left beside such an answer refuses other operations, with or without the filter.
    scene.end(vec![load], recovered).await?.iter().try_for_each(|tally| tally.check(&[429]))
}
