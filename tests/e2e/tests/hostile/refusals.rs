//! Refusals and headers of a node for a batch of several requests, and which requests get them.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::{Gate, Index, Reaction, Recorded};
use bulk_reshuffle_stack::Response;

use crate::bodies::Operations;
use crate::trial::{Cost, Plan, Trial};

const REQUESTS: usize = 5;

/// Returns a text that only the request with this number contains.
fn secret(number: usize) -> String {
    format!("secret-of-{number}-")
}

/// Returns fifty operations that contain the request's secret.
fn operations(number: usize) -> Operations {
    let line = |id: &str| format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{{\"text\":\"{}\"}}\n", secret(number));
    Operations::new(50, (0..50).map(|id| format!("{}{id}", secret(number))), line)
}

/// Sends requests that share a batch, to which the node has this reaction. Returns their answers and the bytes sent.
async fn share_a_batch(
    trial: &Trial,
    react: impl Fn(&Recorded) -> Result<Reaction> + Send + Sync + 'static,
) -> Result<(Vec<Response>, usize)> {
    let gate = Gate::closed();
    let (closed, items) = (gate.clone(), trial.items.clone());
    let one = operations(0).body.len();
    trial.react(move |batch| match batch.body.len() > one {
        true => react(batch),
        false => Ok(items.answer(batch)?.after(&closed)),
    });
    trial.scene.cluster.forget();
    let before = trial.requests(&operations(0)).await?;
    let begin = |number: usize| trial.begin("/one/_bulk", &[], operations(number).body);
    let mut answers = vec![begin(0)];
    let is_first = |batch: &Recorded| batch.target == "/one/_bulk";
    trial.scene.cluster.wait_for_bulks("the first batch", |batches| batches.iter().any(is_first)).await?;
    answers.extend((1..=REQUESTS).map(begin));
    trial.wait_for_requests(before + REQUESTS + 1, &operations(0)).await?;
    gate.open();
    let mut responses = Vec::new();
    for answer in answers {
        responses.push(answer.get().await?);
    }
    let is_merged = |batch: &Recorded| (1..=REQUESTS).all(|number| batch.text().contains(&secret(number)));
    ensure!(trial.arrived().iter().any(is_merged), "the requests did not share a batch");
    Ok((responses, one * (REQUESTS + 1)))
}

fn plan(sent: &str) -> Plan {
    Plan::new(sent).index(Index::new("one", [0]))
}

/// Refuses a batch and quotes it, as Elasticsearch 7 does. Returns the bytes sent and the requests' statuses.
async fn refuse_and_quote(trial: &Trial, status: u16) -> Result<(usize, BTreeSet<u16>)> {
    let react = move |batch: &Recorded| {
        let reason = format!("Malformed [Source: (byte[])\"{}\"; line: 1, column: 2]", batch.text());
        Ok(Reaction::refusal(status, "x_content_parse_exception", &reason))
    };
    let (answers, wire) = share_a_batch(trial, react).await?;
    for (number, answer) in answers.iter().enumerate() {
        let text = answer.text();
        let leaked = (0..=REQUESTS).find(|other| *other != number && text.contains(&secret(*other)));
        ensure!(leaked.is_none(), "{status}: the answer to request {number} quotes a document of another: {leaked:?}");
    }
    Ok((wire, answers.iter().map(|answer| answer.status.as_u16()).collect()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_does_not_quote_other_requests_documents() -> Result<()> {
    let plan = plan("requests whose batch is refused with 400, 401, 403, 500 or 503 and a quote of the batch");
    plan.run(async |trial| {
        let (mut sent, mut got) = (0, BTreeSet::new());
        let mut leaks = Vec::new();
        for status in [400, 401, 403, 500, 503] {
            match refuse_and_quote(trial, status).await {
                Ok((wire, statuses)) => {
                    sent += wire;
                    got.extend(statuses);
                }
                Err(error) => leaks.push(format!("{error:#}")),
            }
        }
        ensure!(leaks.is_empty(), "{}", leaks.join("; "));
        Ok(Cost { wire: sent, got: format!("{got:?}") })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_for_a_batch_of_several_requests_is_dropped() -> Result<()> {
    plan("requests whose batch is answered with set-cookie")
        .run(async |trial| {
            let items = trial.items.clone();
            let react = move |batch: &Recorded| Ok(items.answer(batch)?.header("set-cookie", "session=1"));
            let (answers, wire) = share_a_batch(trial, react).await?;
            let with_cookie = answers.iter().filter(|answer| answer.headers.contains_key("set-cookie")).count();
            ensure!(with_cookie == 0, "{with_cookie} of {} requests got the cookie", answers.len());
            Ok(Cost { wire, got: "200 without the cookie".into() })
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_passes_through_gets_its_cookie() -> Result<()> {
    plan("a request that passes through and is answered with set-cookie")
        .run(async |trial| {
            let items = trial.items.clone();
            trial.react(move |batch| Ok(items.answer(batch)?.header("set-cookie", "session=1")));
            let answer = trial.send("/one/_bulk?pipeline=p", &[], operations(0).body).await?.ok()?;
            ensure!(answer.headers.get("set-cookie") == Some(&"session=1".parse()?), "{:?}", answer.headers);
            Ok(Cost { wire: operations(0).body.len(), got: "200 with its cookie".into() })
        })
        .await
}
