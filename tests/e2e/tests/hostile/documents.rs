//! Requests for single documents that are refused, never end, grow, or whose clients leave.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::gzip::{Compression, gzip};
use bulk_reshuffle_e2e::{QuickItems, RawClient, Reaction, Recorded};
use bulk_reshuffle_stack::Response;
use bytes::Bytes;
use hyper::Request;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::bodies::MIB;
use crate::trial::{Cost, HOSTILE, Plan, Trial};

/// The largest number of batches of one identity at a node, with those that are late.
const IN_FLIGHT: usize = 32;

fn plan(sent: impl Into<String>) -> Plan {
    Plan::new(sent).config(json!({"single_documents": true}))
}

/// Begins a request for a single document.
fn begin(trial: &Trial, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> JoinHandle<Result<Response>> {
    let mut request = Request::put(trial.scene.envoy.url(path));
    for (name, value) in [("authorization", HOSTILE), ("content-type", "application/json")].iter().chain(headers) {
        request = request.header(*name, *value);
    }
    let (client, request) = (trial.scene.client.clone(), request.body(body.into()));
    tokio::spawn(async move { client.send(request?).await })
}

/// Returns whether a request is for a single document, and not a batch.
fn is_original(request: &Recorded) -> bool {
    request.path().starts_with("/i/")
}

/// Returns the requests for single documents that have arrived by themselves.
fn originals(trial: &Trial) -> Vec<Recorded> {
    trial.scene.cluster.others().into_iter().filter(is_original).collect()
}

/// Returns how many operations of the hostile client have arrived in batches.
fn operations(trial: &Trial) -> Result<usize> {
    let sizes = trial.arrived().iter().map(|batch| Ok(batch.operations()?.len())).collect::<Result<Vec<_>>>()?;
    Ok(sizes.into_iter().sum())
}

/// Lets the nodes refuse each document with this status, in a batch and by itself.
fn refuse(trial: &Trial, status: u16, original: Reaction) {
    let items = QuickItems::default().errors(status, 100);
    trial.react(move |batch| items.answer(batch));
    trial.scene.cluster.react_to_state_queries(move |request| is_original(request).then(|| original.clone()));
}

fn refusal(status: u16) -> Reaction {
    Reaction::refusal(status, "scripted_exception", "as the cluster says")
}

/// Sends this many documents, some at once, each with further headers. Returns how many answers have each status.
async fn send_all(
    trial: &Trial,
    documents: usize,
    at_once: usize,
    headers: impl Fn(usize) -> Vec<(&'static str, String)>,
) -> Result<BTreeMap<u16, usize>> {
    let mut statuses = BTreeMap::new();
    for first in (0..documents).step_by(at_once) {
        let begin = |number: usize| {
            let headers = headers(number);
            let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            begin(trial, &format!("/i/_create/{}", number % 100), &headers, "{}")
        };
        let answers: Vec<_> = (first..documents.min(first + at_once)).map(begin).collect();
        for answer in answers {
            *statuses.entry(answer.await??.status.as_u16()).or_default() += 1;
        }
    }
    Ok(statuses)
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_documents_of_thousands_of_callers_are_sent_twice_and_no_more() -> Result<()> {
    const DOCUMENTS: usize = 4_000;
    plan("4,000 documents that exist, each of another caller, 50 at once")
        .run(async |trial| {
            refuse(trial, 409, refusal(409));
            let got = send_all(trial, DOCUMENTS, 50, |number| vec![("x-opaque-id", number.to_string())]).await?;
            ensure!(got == BTreeMap::from([(409, DOCUMENTS)]), "{got:?}");
            let found = (operations(trial)?, originals(trial).len());
            ensure!(found == (DOCUMENTS, DOCUMENTS), "{found:?} in batches and by themselves");
            Ok(Cost { wire: DOCUMENTS * 2, got: format!("{got:?}, {}", trial.way().await?) })
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_documents_of_one_caller_soon_pass_through() -> Result<()> {
    const DOCUMENTS: usize = 3_000;
    const AT_ONCE: usize = 10;
    plan("3,000 documents that exist, all of one caller, 10 at once")
        .run(async |trial| {
            refuse(trial, 409, refusal(409));
            let got = send_all(trial, DOCUMENTS, AT_ONCE, |_| Vec::new()).await?;
            ensure!(got == BTreeMap::from([(409, DOCUMENTS)]), "{got:?}");
            let found = (operations(trial)?, originals(trial).len());
            // Sixteen refusals, and then, after each hundred, as many as are sent at once.
            ensure!(found.0 <= 16 + AT_ONCE * (DOCUMENTS / 100 + 2), "{found:?} in batches and by themselves");
            ensure!(found.1 == DOCUMENTS, "{found:?} in batches and by themselves");
            Ok(Cost { wire: DOCUMENTS * 2, got: format!("{got:?}, {}", trial.way().await?) })
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_are_always_refused_with_429_are_sent_ten_times_at_most() -> Result<()> {
    const DOCUMENTS: usize = 200;
    plan("200 documents that are always refused with 429")
        .run(async |trial| {
            refuse(trial, 429, refusal(429));
            let got = send_all(trial, DOCUMENTS, DOCUMENTS, |_| Vec::new()).await?;
            ensure!(got == BTreeMap::from([(429, DOCUMENTS)]), "{got:?}");
            let found = (operations(trial)?, originals(trial).len());
            ensure!(found.0 <= 9 * DOCUMENTS && found.0 > DOCUMENTS, "{found:?} in batches and by themselves");
            ensure!(found.1 == DOCUMENTS, "{found:?} in batches and by themselves");
            Ok(Cost { wire: DOCUMENTS * 2, got: format!("{got:?}, {} times in batches", found.0) })
        })
        .await
}

/// Sends the headers of a request for a single document, and this part of its body.
async fn begin_raw(trial: &Trial, path: &str, framing: &str, body: &[u8]) -> Result<RawClient> {
    let mut client = RawClient::connect(trial.scene.envoy.addr()).await?;
    let fixed =
        format!("host: fake\r\nauthorization: {HOSTILE}\r\ncontent-type: application/json\r\nconnection: close");
    client.send(format!("PUT {path} HTTP/1.1\r\n{fixed}\r\n{framing}\r\n\r\n")).await?;
    client.send(body).await?;
    Ok(client)
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_never_end_do_not_delay_other_clients() -> Result<()> {
    const REQUESTS: usize = 300;
    const SENT: usize = 10_000;
    plan("300 documents that never end, with lines of 3 kB")
        .run(async |trial| {
            let body = "x".repeat(SENT);
            let mut clients = Vec::new();
            for number in 0..REQUESTS {
                let path = format!("/i/_doc/{}{number}", "%01".repeat(500));
                clients.push(begin_raw(trial, &path, "content-length: 10000000", body.as_bytes()).await?);
            }
            trial.wait_for_count("memory_bytes", REQUESTS * SENT / 2).await?;
            trial.wait_for_neighbour().await;
            drop(clients);
            Ok(Cost { wire: REQUESTS * SENT, got: trial.way().await? })
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_are_too_large_pass_through_as_they_arrive() -> Result<()> {
    let bomb: Bytes = gzip(&vec![b' '; 200 * MIB], Compression::best())?.into();
    let large = Bytes::from(vec![b' '; 70 * MIB]);
    for (what, body, headers) in [
        ("gzip of a document of 200 MiB", bomb, &[("content-encoding", "gzip")][..]),
        ("a document of 70 MiB", large, &[]),
    ] {
        let plan = plan(format!("10 times {what}, limits.memory 64mb")).memory(64);
        plan.run(async |trial| {
            let answers: Vec<_> =
                (0..10).map(|number| begin(trial, &format!("/i/_doc/{number}"), headers, body.clone())).collect();
            for answer in answers {
                ensure!(answer.await??.status == 200, "the node does not answer");
            }
            let arrived = originals(trial);
            ensure!(arrived.len() == 10 && arrived.iter().all(|request| request.body == body), "another body arrived");
            ensure!(operations(trial)? == 0, "a batch arrived");
            Ok(Cost { wire: 10 * body.len(), got: trial.way().await? })
        })
        .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_disconnect_while_their_refused_documents_are_sent_again_leave_no_memory_behind() -> Result<()> {
    const REQUESTS: usize = 1_000;
    plan("1,000 clients that disconnect while their refused documents are sent again")
        .run(async |trial| {
            refuse(trial, 409, refusal(409).after(&trial.gate));
            let mut clients = Vec::new();
            for _ in 0..REQUESTS {
                clients.push(begin_raw(trial, "/i/_create/1", "content-length: 2", b"{}").await?);
            }
            let of_hostile = |batch: &&Recorded| batch.header("authorization") == Some(HOSTILE);
            let all = |batches: &[Recorded]| {
                let sizes =
                    batches.iter().filter(of_hostile).map(|batch| batch.operations().map_or(0, |all| all.len()));
                sizes.sum::<usize>() == REQUESTS
            };
            trial.scene.cluster.wait_for_bulks("all documents have arrived", all).await?;
            trial.scene.cluster.wait_for_others("one is sent again", |others| others.iter().any(is_original)).await?;
            drop(clients);
            trial.wait_for_count("requests_total.outcome.abandoned", REQUESTS - IN_FLIGHT).await?;
            trial.wait_for_neighbour().await;
            let sent = originals(trial).len();
            ensure!(sent <= IN_FLIGHT, "{sent} requests of clients that have left");
            trial.gate.open();
            Ok(Cost { wire: REQUESTS * 2, got: "nothing".into() })
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn enormous_answers_to_single_documents_do_not_affect_other_clients() -> Result<()> {
    const DOCUMENTS: usize = 12;
    let reason = "r".repeat(20_000_000);
    for status in [409, 503] {
        let plan = plan(format!("12 documents that are refused with {status} and 20 MB each"));
        plan.run(async |trial| {
            refuse(trial, 409, Reaction::refusal(409, "scripted_exception", &reason));
            if status == 503 {
                let items = QuickItems::default().errors(503, reason.len());
                trial.react(move |batch| items.answer(batch));
            }
            let got = send_all(trial, DOCUMENTS, DOCUMENTS, |number| vec![("x-opaque-id", number.to_string())]).await?;
            // Without room for the answer, the outcome is unknown.
            ensure!(got.keys().all(|found| [status, 503].contains(found)), "{got:?}");
            Ok(Cost { wire: DOCUMENTS * 2, got: format!("{got:?}") })
        })
        .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_makes_a_second_operation() -> Result<()> {
    let long = ["%C3%A9".repeat(256), "%01".repeat(512)];
    let texts = [
        ("a%0A%7B%22delete%22%3A%7B%22_id%22%3A%22b%22%7D%7D%0A", "a\n{\"delete\":{\"_id\":\"b\"}}\n"),
        ("a%0D%0A%0D%0Ab", "a\r\n\r\nb"),
        ("a%22%7D%7D%0a%7b%22x%22:%22", "a\"}}\n{\"x\":\""),
        ("%5C%22%5Cn%5Cu000A", "\\\"\\n\\u000A"),
        ("a%01%1F%7F%C2%80%E2%80%A8", "a\u{1}\u{1f}\u{7f}\u{80}\u{2028}"),
        (&long[0], &"é".repeat(256)),
        (&long[1], &"\u{1}".repeat(512)),
    ];
    plan("documents whose ids and routing values have encoded newlines, quotes and control characters")
        .run(async |trial| {
            let mut wire = 0;
            for (coded, plain) in texts {
                for (path, id) in [(format!("/i/_doc/{coded}"), plain), (format!("/i/_doc/1?routing={coded}"), "1")] {
                    trial.scene.cluster.forget();
                    let answer = begin_raw(trial, &path, "content-length: 2", b"{}").await?.read_to_end().await?;
                    ensure!(answer.starts_with("HTTP/1.1 201 "), "{path}: {answer}");
                    let found: Vec<_> =
                        trial.arrived().iter().map(Recorded::operations).collect::<Result<Vec<_>>>()?.concat();
                    let ids: Vec<_> = found.iter().map(|operation| operation.id.as_deref()).collect();
                    ensure!(ids == [Some(id)], "{path}: {ids:?}");
                    wire += path.len();
                }
            }
            for path in ["/i/_doc/a\0b", "/i/_doc/a\u{1}b", "/i/_doc/a\tb", "/i/_doc/a\x0bb"] {
                trial.scene.cluster.forget();
                // Envoy refuses the path before it reads a body, and would reset the connection for unread bytes.
                let answer = begin_raw(trial, path, "content-length: 0", b"").await?.read_to_end().await?;
                let status = answer.split(' ').nth(1).context("no status")?;
                ensure!(status == "400" && trial.arrived().is_empty(), "{path:?}: {answer}");
            }
            Ok(Cost { wire, got: trial.way().await? })
        })
        .await
}
