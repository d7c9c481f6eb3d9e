//! Requests that write a single document, and the same as a `_bulk` of one operation: each release answers, stores and
//! refuses both alike, or differs as `cases.yaml` says. Run with `make test-matrix`.

mod answers;
mod bulk_of_one;
mod case;
mod node;

use std::time::Instant;

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::chosen_releases;
use bulk_reshuffle_stack::Distribution::{self, Elasticsearch8, OpenSearch2};
use serde_json::json;

use self::answers::Answers;
use self::bulk_of_one::BulkOfOne;
use self::case::{Case, Cases};
use self::node::Node;

#[tokio::test(flavor = "multi_thread")]
async fn a_single_document_and_a_bulk_of_one_are_answered_alike() -> Result<()> {
    let (cases, mut failures) = (Cases::read()?, Vec::new());
    for release in chosen_releases(&Distribution::ALL)? {
        let none = json!({});
        let (one, other) = tokio::try_join!(Node::start(release, &none), Node::start(release, &none))?;
        let started = Instant::now();
        tokio::try_join!(one.take(&cases.steps, release), other.take(&cases.steps, release))?;
        for case in cases.of(release) {
            failures.extend(check(release, &case.with_ids(), &one, &other).await?);
        }
        println!("{}: {} cases in {:.1} s", release.name(), cases.of(release).count(), started.elapsed().as_secs_f64());
        tokio::try_join!(one.stop(), other.stop())?;
    }
    ensure!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n\n"));
    Ok(())
}

/// A cluster with this setting refuses each operation that names its index, but not single documents.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_explicit_indices_refuses_a_bulk_of_one() -> Result<()> {
    let settings = json!({"rest.action.multi.allow_explicit_index": false});
    let case = Case::new("PUT /i/_doc/1", "bulk 400, single 201");
    for release in chosen_releases(&[Elasticsearch8, OpenSearch2])? {
        if ![Elasticsearch8, OpenSearch2].contains(&release) {
            continue;
        }
        let node = Node::start(release, &settings).await?;
        let failure = check(release, &case, &node, &node).await?;
        node.stop().await?;
        ensure!(failure.is_none(), "{failure:?}");
    }
    Ok(())
}

/// Returns a description of what differs from the expected outcome, if anything does. One node gets the request, the
/// other one the bulk.
async fn check(release: Distribution, case: &Case, one: &Node, other: &Node) -> Result<Option<String>> {
    let single = one.send(&case.single()?).await?;
    let (bulk, outcome) = match BulkOfOne::of(case) {
        None => {
            // Both nodes must have the same documents.
            other.send(&case.single()?).await?;
            (None, format!("single {}", single.status.as_u16()))
        }
        Some(bulk) => {
            let answer = other.send(&bulk.request(case)?).await?;
            let answers = Answers::new(case, &bulk, &single, &answer);
            let mut outcome = answers.outcome();
            if answer.status != 200 {
                other.send(&case.single()?).await?;
            } else if let Some(path) = answers.document() {
                let (mine, theirs) = tokio::try_join!(one.document(&path), other.document(&path))?;
                outcome += if mine == theirs { "" } else { ", other document" };
            }
            (Some(format!("{}\n{}", bulk.line(), answer.text())), outcome)
        }
    };
    let expected = case.expected(release);
    let alike =
        outcome.starts_with(|first: char| first.is_ascii_digit()) && (outcome.len() == 3 || outcome.contains("item"));
    Ok((outcome != expected || (case.whole.is_none() && !alike)).then(|| {
        let (name, text) = (release.name(), single.text());
        format!(
            "{name}, case {}: {outcome}, not {expected:?}: {}\n{:?}\n{text}\n{bulk:?}",
            case.number,
            case.shown(),
            single.headers
        )
    }))
}
