//! Requests that are small on the wire but large after they are inflated, split or answered.

use std::collections::HashSet;

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::{Answer, Index, QuickItems, RawClient};
use bytes::Bytes;
use serde_json::json;

use crate::bodies::{Ids, MIB, Operations, large_headers};
use crate::trial::{Cost, HOSTILE, Plan, Trial, expect_items};

const GZIP: &[(&str, &str)] = &[("content-encoding", "gzip")];

/// Sends one request whose operations must all get items with this status.
async fn send(trial: &Trial, headers: &[(&str, &str)], body: Bytes, ids: &Ids, status: u16) -> Result<Cost> {
    let wire = body.len();
    let answer = trial.send("/i/_bulk", headers, body).await?;
    Ok(Cost { wire, got: format!("{}, {}", expect_items(&answer, ids, &[status])?, trial.way().await?) })
}

/// A description, the MiB of `limits.memory`, whether the request is compressed, and its operations.
type Single = (&'static str, usize, bool, fn() -> Operations);

const SINGLE: &[Single] = &[
    ("gzip of 14 MiB of tiny deletes (57 kB)", 256, true, || Operations::tiny_deletes(14 * MIB)),
    ("gzip of 48 MiB of tiny deletes (195 kB)", 256, true, || Operations::tiny_deletes(48 * MIB)),
    ("gzip of 95 MiB of tiny deletes (387 kB)", 256, true, || Operations::tiny_deletes(95 * MIB)),
    ("gzip of 48 MiB of tiny deletes, limits.memory 64mb", 64, true, || Operations::tiny_deletes(48 * MIB)),
    ("48 MiB of tiny deletes", 256, false, || Operations::tiny_deletes(48 * MIB)),
    ("gzip of 48 MiB of deletes with ids of 512 bytes", 256, true, || {
        Operations::deletes(90_000, (0..10).map(|id| format!("{id:0>512}")))
    }),
    // A quote is one byte of an id, and two of JSON.
    ("gzip of 48 MiB of deletes with ids of 511 quotes", 256, true, || {
        Operations::deletes(45_000, (0..10).map(|id| format!("{id}{}", r#"\""#.repeat(511))))
    }),
    ("gzip of 48 MiB of deletes in an index with a name of 255 bytes", 256, true, || {
        let line = |id: &str| format!("{{\"delete\":{{\"_index\":\"{}\",\"_id\":\"{id}\"}}}}\n", long_name());
        Operations::new(170_000, (0..10).map(|id| id.to_string()), line)
    }),
    // The answer is larger than the largest one to a callout that Envoy keeps. Each document is deleted twice, so that
    // the order of operations is observable.
    ("640,000 deletes with ids", 256, false, || Operations::deletes(640_000, (0..320_000).map(|id| id.to_string()))),
];

fn long_name() -> String {
    "n".repeat(255)
}

#[tokio::test(flavor = "multi_thread")]
async fn all_operations_of_a_single_request_are_carried_out() -> Result<()> {
    for (sent, memory, is_gzip, operations) in SINGLE {
        let operations = operations();
        let plan = Plan::new(*sent).memory(*memory).index(Index::new(&long_name(), [0, 1]));
        plan.run(async |trial| match is_gzip {
            true => send(trial, GZIP, operations.gzip()?, &operations.ids, 200).await,
            false => send(trial, &[], operations.body.clone(), &operations.ids, 200).await,
        })
        .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_4_kb_for_each_operation_reach_the_client() -> Result<()> {
    let operations = Operations::deletes(8_000, (0..8_000).map(|id| id.to_string()));
    let plan = Plan::new("8,000 deletes that each fail with an error of 4 kB");
    plan.run(async |trial| {
        let items = QuickItems::default().errors(400, 4_000);
        trial.react(move |batch| items.answer(batch));
        send(trial, &[], operations.body.clone(), &operations.ids, 400).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_4_kb_for_each_operation_of_many_requests_are_answered() -> Result<()> {
    // Fewer than a node's slots, so that one is left for the other client.
    const REQUESTS: usize = 12;
    let operations = Operations::deletes(8_000, (0..8_000).map(|id| id.to_string()));
    let plan =
        Plan::new("12 callers, each with 8,000 deletes that fail with errors of 4 kB, limits.memory 64mb").memory(64);
    plan.run(async |trial| {
        let (gate, items) = (trial.gate.clone(), QuickItems::default().errors(400, 4_000));
        trial.react(move |batch| Ok(items.answer(batch)?.after(&gate)));
        let keys: Vec<String> = (0..REQUESTS).map(|number| format!("{HOSTILE} {number}")).collect();
        let begin = |key: &String| trial.begin("/i/_bulk", &[("authorization", key)], operations.body.clone());
        let held = trial.hold_all(keys.iter().map(begin), &operations).await?;
        // The filter cannot foresee such large errors. An item without room in memory becomes an unknown outcome.
        let got = trial.release(held, &operations.ids, &[400, 503]).await?;
        Ok(Cost { wire: REQUESTS * operations.body.len(), got })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_a_thousand_shards_are_carried_out() -> Result<()> {
    const REQUESTS: usize = 50;
    let plan = Plan::new("50 requests with 5,000 deletes on 1,000 shards, dispatch.level shard");
    let plan = plan.index(Index::new("wide", (0..1_000).map(|shard| shard % 3)));
    let operations = Operations::deletes(5_000, (0..5_000).map(|id| id.to_string()));
    let plan = plan.config(json!({"dispatch": {"level": "shard", "max_in_flight_per_node": 64}}));
    plan.run(async |trial| all_at_once(trial, REQUESTS, "/wide/_bulk", &operations, 200).await).await
}

/// Sends the same request many times. No node answers before all of them have arrived.
async fn all_at_once(trial: &Trial, requests: usize, path: &str, operations: &Operations, status: u16) -> Result<Cost> {
    trial.hold();
    let begin = |_| trial.begin(path, &[], operations.body.clone());
    let held = trial.hold_all((0..requests).map(begin), operations).await?;
    let got = trial.release(held, &operations.ids, &[status]).await?;
    Ok(Cost { wire: requests * operations.body.len(), got })
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_requests_of_a_megabyte_answered_at_once_are_carried_out() -> Result<()> {
    let operations = Operations::documents(3_600, 250);
    let plan = Plan::new("200 requests of 1 MB that are all answered at once");
    plan.run(async |trial| all_at_once(trial, 200, "/i/_bulk", &operations, 201).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_different_large_headers_are_carried_out() -> Result<()> {
    const REQUESTS: usize = 100;
    const BYTES: usize = 52_000;
    let plan = Plan::new("100 held requests with 52 kB of different headers each");
    plan.run(async |trial| {
        trial.hold();
        let operations = Operations::documents(50, 20);
        let begin = |number| begin_with_large_headers(trial, number, BYTES, &operations);
        let held = trial.hold_all((0..REQUESTS).map(begin), &operations).await?;
        let got = trial.release(held, &operations.ids, &[201]).await?;
        Ok(Cost { wire: REQUESTS * (BYTES + operations.body.len()), got })
    })
    .await
}

fn begin_with_large_headers(trial: &Trial, number: usize, bytes: usize, operations: &Operations) -> Answer {
    let headers = large_headers(number, bytes);
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    trial.begin("/i/_bulk", &headers, operations.body.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_callers_leave_no_memory_behind() -> Result<()> {
    const CALLERS: usize = 5_000;
    const CONCURRENT: usize = 20;
    const BYTES: usize = 4_000;
    let operations = Operations::documents(2, 10);
    let plan = Plan::new("5,000 callers, 20 at once, with 4 kB of headers each");
    plan.run(async |trial| {
        for first in (0..CALLERS).step_by(CONCURRENT) {
            let begin = |number| begin_with_large_headers(trial, number, BYTES, &operations);
            let answers: Vec<_> = (first..first + CONCURRENT).map(begin).collect();
            for answer in answers {
                expect_items(&answer.get().await?, &operations.ids, &[201])?;
            }
        }
        let got = format!("200, {CALLERS} × 2 items, {}", trial.way().await?);
        Ok(Cost { wire: CALLERS * (BYTES + operations.body.len()), got })
    })
    .await
}

/// Sends a large request with a parameter that changes the answer, which must contain these words for each operation.
async fn with_parameter(parameter: &str, words: &str) -> Result<()> {
    let operations = Operations::tiny_deletes(14 * MIB);
    let plan = Plan::new(format!("gzip of 14 MiB of tiny deletes, ?{parameter}"));
    plan.run(async |trial| {
        let body = operations.gzip()?;
        let wire = body.len();
        let path = format!("/i/_bulk?{parameter}");
        let answer = trial.send(&path, GZIP, body).await?.ok()?.text();
        let found = answer.split(words).skip(1).count();
        let way = trial.way().await?;
        // A scripted node ignores parameters.
        let plain = answer.split(r#""status":200"#).skip(1).count();
        let is_whole = way.contains("passed through") && plain == operations.ids.number;
        ensure!(is_whole || found == operations.ids.number, "{found} items for {} operations", operations.ids.number);
        Ok(Cost { wire, got: format!("200, {} bytes, {way}", answer.len()) })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_request_with_pretty_or_a_filter_path_is_carried_out() -> Result<()> {
    with_parameter("pretty", r#""status" : 200"#).await?;
    with_parameter("filter_path=items.*.status", r#"{"delete":{"status":200}}"#).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_costly_filter_path_delays_no_other_client() -> Result<()> {
    let costly = format!("filter_path=items.*.status,{}", ["items.*.*_*a"; 7].join(","));
    with_parameter(&costly, r#"{"delete":{"status":200}}"#).await?;
    // The filter does not apply this one.
    with_parameter(&format!("filter_path={}", ["**.a"; 50].join(",")), r#"{"delete":{"status":200}}"#).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_documents_without_ids_are_carried_out() -> Result<()> {
    const DOCUMENTS: usize = 1_000_000;
    let body = Bytes::from("{\"index\":{}}\n{}\n".repeat(DOCUMENTS));
    let plan = Plan::new("a million empty documents without ids");
    plan.run(async |trial| {
        let wire = body.len();
        let answer = trial.send("/i/_bulk", &[], body).await?;
        let items = QuickItems::read(&answer)?;
        ensure!(items.len() == DOCUMENTS, "{} items", items.len());
        let odd = items.iter().find(|item| item.status != 201);
        ensure!(odd.is_none(), "{odd:?}");
        let ids: HashSet<&str> = items.iter().map(|item| item.id).collect();
        ensure!(ids.len() == DOCUMENTS, "{} ids", ids.len());
        Ok(Cost { wire, got: format!("200, {DOCUMENTS} items, {}", trial.way().await?) })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_in_chunks_of_one_byte_is_carried_out() -> Result<()> {
    let operations = Operations::documents(500, 50);
    let plan = Plan::new("a body in chunks of one byte");
    plan.run(async |trial| {
        let mut client = RawClient::connect(trial.scene.envoy.addr()).await?;
        let framing = format!("authorization: {HOSTILE}\r\ntransfer-encoding: chunked");
        client.send_head("/i/_bulk", &framing).await?;
        for byte in operations.body.chunks(1) {
            client.send_chunk(byte).await?;
        }
        client.send("0\r\n\r\n").await?;
        let answer = client.json().await?;
        let items = answer["items"].as_array().map_or(0, Vec::len);
        ensure!(items == operations.ids.number, "{items} items");
        ensure!(answer["errors"] == false, "errors");
        Ok(Cost { wire: 6 * operations.body.len(), got: format!("200, {items} items, {}", trial.way().await?) })
    })
    .await
}
