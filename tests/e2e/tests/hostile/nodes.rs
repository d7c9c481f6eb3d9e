//! Nodes that return large answers, nonsense, or repeated refusals.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::{QuickItems, Reaction};
use bytes::Bytes;

use crate::bodies::{MIB, Operations};
use crate::trial::{Cost, Plan, Trial, expect_items};

/// The number of requests in the affected batch.
const REQUESTS: usize = 200;

/// Answers one batch of many requests with this reaction. Each request must get items or a refusal.
async fn answer_a_batch(trial: &Trial, reaction: Reaction) -> Result<Cost> {
    let (gate, items) = (trial.gate.clone(), trial.items.clone());
    let operations = Operations::documents(50, 10);
    let one = operations.body.len();
    trial.react(move |batch| match batch.body.len() > 2 * one {
        true => Ok(reaction.clone()),
        false => Ok(items.answer(batch)?.after(&gate)),
    });
    let begin = |_| trial.begin("/i/_bulk", &[], operations.body.clone());
    let mut answers = vec![begin(0)];
    trial
        .scene
        .cluster
        .wait_for_bulks("the first batch", |bulks| bulks.iter().any(|bulk| bulk.target == "/i/_bulk"))
        .await?;
    answers.extend((1..=REQUESTS).map(begin));
    trial.wait_for_requests(REQUESTS + 1, &operations).await?;
    trial.wait_for_neighbour().await;
    trial.gate.open();
    let mut statuses = BTreeMap::new();
    for answer in answers {
        let answer = answer.get().await?;
        let status = answer.status.as_u16();
        if status == 200 {
            ensure!(QuickItems::read(&answer)?.len() == 50, "{}", answer.text());
        }
        *statuses.entry(status).or_insert(0) += 1;
    }
    // A node gets about half of each request.
    let merged = trial.arrived().iter().any(|batch| batch.body.len() > REQUESTS / 4 * one);
    ensure!(merged, "no batch held many requests");
    Ok(Cost { wire: one * (REQUESTS + 1), got: format!("{statuses:?}") })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_31_mib_of_nested_brackets_does_not_affect_other_clients() -> Result<()> {
    let plan = Plan::new("200 requests whose batch is answered with 31 MiB of brackets");
    plan.run(async |trial| {
        let depth = 31 * MIB / 20;
        let nested = format!("{}{}", r#"{"items":["#.repeat(depth), "]}".repeat(depth));
        answer_a_batch(trial, Reaction::raw(nested)).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_20_mb_does_not_affect_other_clients() -> Result<()> {
    let reason = "r".repeat(20_000_000);
    for status in [400, 401, 503] {
        let plan = Plan::new(format!("200 requests whose batch is refused with {status} and 20 MB"));
        let refusal = Reaction::refusal(status, "scripted_exception", &reason);
        plan.run(async |trial| answer_a_batch(trial, refusal).await).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn items_that_are_always_refused_with_429_and_4_kb_become_errors() -> Result<()> {
    let operations = Operations::documents(6_000, 100);
    let plan = Plan::new("6,000 documents, each refused with 429 and 4 kB every time, limits.memory 64mb").memory(64);
    plan.run(async |trial| {
        let items = QuickItems::default().errors(429, 4_000);
        trial.react(move |batch| items.answer(batch));
        let answer = trial.send("/i/_bulk", &[], operations.body.clone()).await?;
        let got = format!("{}, {}", expect_items(&answer, &operations.ids, &[429])?, trial.way().await?);
        ensure!(trial.arrived().len() > 2, "no item was retried");
        Ok(Cost { wire: operations.body.len(), got })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn items_in_the_wrong_order_in_a_large_answer_are_matched_to_their_operations() -> Result<()> {
    let operations = Operations::deletes(50_000, (0..50_000).map(|id| id.to_string()));
    let plan = Plan::new("50,000 deletes whose items are in the wrong order, limits.memory 64mb").memory(64);
    plan.run(async |trial| {
        let items = QuickItems::default().reversed();
        trial.react(move |batch| items.answer(batch));
        let body: Bytes = operations.body.clone();
        let answer = trial.send("/i/_bulk", &[], body).await?;
        let items = QuickItems::read(&answer)?;
        ensure!(items.iter().map(|item| item.id).eq(operations.ids.iter()), "not the items of these operations");
        let unknown = items.iter().filter(|item| item.status != 200).count();
        Ok(Cost {
            wire: operations.body.len(),
            got: format!("200, {} items, {unknown} of unknown outcome", items.len()),
        })
    })
    .await
}
