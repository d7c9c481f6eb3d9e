//! Requests that write a single document, and the same as a `_bulk` of one operation: each release answers, stores and
//! refuses both alike, or differs as `cases.yaml` says. The same requests through the filter get the answers of the
//! release. Run with `make test-matrix`.

mod answers;
mod bulk_of_one;
mod case;
mod node;

use std::time::Instant;

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::chosen_releases;
use bulk_reshuffle_stack::Distribution::{self, Elasticsearch8, OpenSearch2};
use bulk_reshuffle_stack::Response;
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
        let start = || Node::start(release, &none);
        let (one, other, third) = tokio::try_join!(start(), start(), start())?;
        let started = Instant::now();
        let steps = &cases.steps;
        tokio::try_join!(one.take(steps, release), other.take(steps, release), third.take(steps, release))?;
        let third = third.behind_the_filter().await?;
        for case in cases.of(release).map(Case::with_ids) {
            let single = one.send(&case.single()?).await?;
            failures.extend(compare(release, &case, &single, (&one, &other)).await?);
            failures.extend(through(release, &case, &single, (&one, &third)).await?);
        }
        let (count, merged) = (cases.of(release).count(), third.merged().await?);
        println!("{}: {count} cases in {:.1} s, {merged} merged", release.name(), started.elapsed().as_secs_f64());
        ensure!(merged * 3 > count as u64, "the filter merged only a part of the requests");
        tokio::try_join!(one.stop(), other.stop(), third.stop())?;
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
        let single = node.send(&case.single()?).await?;
        let failure = compare(release, &case, &single, (&node, &node)).await?;
        node.stop().await?;
        ensure!(failure.is_none(), "{failure:?}");
    }
    Ok(())
}

/// Sends a request through the filter. Returns a description of what differs from the answer and the document of the
/// other node, if anything does.
async fn through(
    release: Distribution,
    case: &Case,
    single: &Response,
    (one, third): (&Node, &Node),
) -> Result<Option<String>> {
    let mut request = case.single()?;
    // Refusals of one caller let its next requests pass through.
    request.headers_mut().insert("user-agent", case.number.into());
    let answer = third.send(&request).await?;
    let (mut mine, mut theirs) = (answers::shown(&answer), answers::shown(single));
    if let Some(path) = answers::document(case, single) {
        let documents = tokio::try_join!(third.document(&path), one.document(&path))?;
        mine += &documents.0;
        theirs += &documents.1;
    }
    Ok((mine != theirs).then(|| {
        let (name, number) = (release.name(), case.number);
        format!("{name}, case {number}, through the filter: {}\n{mine}\nnot\n{theirs}", case.shown())
    }))
}

/// Returns a description of what differs from the expected outcome, if anything does. One node has given this answer to
/// the request, and the other one gets the bulk.
async fn compare(
    release: Distribution,
    case: &Case,
    single: &Response,
    (one, other): (&Node, &Node),
) -> Result<Option<String>> {
    let (bulk, outcome) = match BulkOfOne::of(case) {
        None => {
            // Both nodes must have the same documents.
            other.send(&case.single()?).await?;
            (None, format!("single {}", single.status.as_u16()))
        }
        Some(bulk) => {
            let answer = other.send(&bulk.request(case)?).await?;
            let answers = Answers::new(case, &bulk, single, &answer);
            let mut outcome = answers.outcome();
            if answer.status != 200 {
                other.send(&case.single()?).await?;
            } else if let Some(path) = answers::document(case, single) {
                let (mine, theirs) = tokio::try_join!(one.document(&path), other.document(&path))?;
                outcome += if mine == theirs { "" } else { ", other document" };
            }
            (Some(format!("{}\n{}", bulk.line(), answer.text())), outcome)
        }
    };
    let expected = case.expected(release);
    let is_alike = outcome.starts_with(|first: char| first.is_ascii_digit())
        && (outcome.len() == 3 || outcome.contains("item") || outcome.ends_with("unchanged"));
    Ok((outcome != expected || (case.whole.is_none() && !case.formed && !is_alike)).then(|| {
        let (name, text) = (release.name(), single.text());
        format!(
            "{name}, case {}: {outcome}, not {expected:?}: {}\n{:?}\n{text}\n{bulk:?}",
            case.number,
            case.shown(),
            single.headers
        )
    }))
}
