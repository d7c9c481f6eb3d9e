//! When the definitions of ingest pipelines are queried, and how workers share the verdicts.

use serde_json::json;

use super::super::{Harmless, Ingest, StateQuery, Unrouted};
use super::harness::{CONFIG, Harness, INTERVAL, QueryOutcome};
use crate::Time;

/// Creates workers that know index i, whose default pipeline is p. The nodes return items in order.
fn harness(workers: usize) -> Harness {
    let mut harness = Harness::new(workers);
    harness.cluster().release = Some("9.5.3");
    harness.cluster().set_pipeline("p", json!([{"drop": {}}]));
    harness.follow(|cluster| cluster.change("i", |index| index.default_pipeline = Some("p".to_owned())));
    harness
}

const HARMLESS: Result<Ingest, Unrouted> = Ok(Ingest::Harmless(Harmless { reads_id: false }));

/// Returns the pipelines of a worker's operations on an index.
fn ingest(harness: &Harness, worker: usize, name: &str, pipeline: Option<&str>) -> Result<Ingest, Unrouted> {
    let worker = harness.worker(worker);
    let table = worker.table.as_ref().unwrap();
    table.write_target(name).unwrap().ingest(pipeline)
}

#[test]
fn pipelines_are_queried_only_if_an_index_has_one() {
    let mut harness = Harness::settled(1);
    harness.follow(|cluster| cluster.set_pipeline("p", json!([])));
    assert_eq!(harness.count("pipelines"), 0);
    harness.follow(|cluster| cluster.change("i", |index| index.default_pipeline = Some("p".to_owned())));
    assert_eq!(harness.count("pipelines"), 1);
    harness.run_for(INTERVAL * 5);
    assert_eq!(harness.count("pipelines"), 1, "the state has not changed");
}

#[test]
fn all_workers_share_the_verdicts_and_follow_changes() {
    let mut harness = harness(3);
    let late = harness.join(CONFIG);
    harness.run_for(INTERVAL);
    for worker in 0..=late {
        assert_eq!(ingest(&harness, worker, "i", None), HARMLESS);
        assert_eq!(ingest(&harness, worker, "i", Some("_none")), Ok(Ingest::None));
        assert_eq!(ingest(&harness, worker, "j", None), Ok(Ingest::None));
        assert_eq!(ingest(&harness, worker, "j", Some("p")), HARMLESS);
        assert_eq!(ingest(&harness, worker, "j", Some("q")), Ok(Ingest::Unproven));
    }
    assert_eq!(harness.count("pipelines"), 1);
    harness.follow(|cluster| cluster.set_pipeline("p", json!([{"script": {}}])));
    for worker in 0..=late {
        assert_eq!(ingest(&harness, worker, "i", None), Ok(Ingest::Unproven));
    }
    assert_eq!(harness.count("pipelines"), 2);
    harness.check();
}

/// A node lacks the state that others have adopted.
#[test]
fn definitions_from_a_node_that_lags_are_not_used() {
    let mut harness = harness(1);
    let lagging = harness.cluster().answer(&StateQuery::Pipelines.path()).to_string().into_bytes();
    harness.cluster().set_pipeline("p", json!([{"script": {}}]));
    harness.now += INTERVAL;
    harness.run_with(Time::ZERO, |_, query| match query {
        StateQuery::Pipelines => QueryOutcome::With(200, lagging.clone()),
        _ => QueryOutcome::Answered,
    });
    assert_eq!(harness.worker(0).errors(), []);
    harness.follow_for(INTERVAL);
    assert_eq!(ingest(&harness, 0, "i", None), Ok(Ingest::Unproven));
}

#[test]
fn a_pipeline_that_a_request_names_is_queried_soon() {
    let mut harness = Harness::settled(2);
    harness.cluster().release = Some("9.5.3");
    harness.follow(|cluster| cluster.set_pipeline("p", json!([])));
    assert_eq!(ingest(&harness, 1, "i", Some("p")), Ok(Ingest::Unproven));
    let now = harness.now;
    (0..10).for_each(|_| harness.worker(1).cache.want_pipelines(now));
    harness.run_for(Time::from_secs(2));
    assert_eq!(ingest(&harness, 1, "i", Some("p")), HARMLESS);
    assert_eq!(harness.count("pipelines"), 1);
    harness.worker(0).cache.want_pipelines(now);
    harness.run_for(INTERVAL);
    assert_eq!(harness.count("pipelines"), 1);
}

#[test]
fn without_an_answer_no_pipeline_is_harmless_until_the_next_poll() {
    let mut harness = harness(1);
    harness.cluster().set_pipeline("p", json!([{"script": {}}]));
    harness.run_with(INTERVAL, |_, query| match query.to_string().as_str() {
        "pipelines" => QueryOutcome::With(200, b"{\"metadata\":{\"ingest\":{\"pipeline\":7}}}".to_vec()),
        _ => QueryOutcome::Answered,
    });
    assert_eq!(ingest(&harness, 0, "i", None), Ok(Ingest::Unproven));
    assert_eq!(harness.worker(0).errors()[0].to_string(), "pipelines: byte 34: expected `[`");
    harness.check();
    harness.follow(|cluster| cluster.pipelines.insert("p".to_owned(), json!([])));
    assert_eq!(ingest(&harness, 0, "i", None), HARMLESS);
}

#[test]
fn releases_that_reorder_items_run_no_pipeline_for_split_operations() {
    for (release, is_ordered) in
        [("8.13.0", true), ("7.17.18", true), ("9.0.0", true), ("8.12.2", false), ("7.17.17", false), ("3.8.0", false)]
    {
        let mut harness = harness(1);
        harness.cluster().release = Some(release);
        harness.follow(|cluster| cluster.version += 1);
        let expected = if is_ordered { HARMLESS } else { Err(Unrouted::IndexPipeline) };
        assert_eq!(ingest(&harness, 0, "i", None), expected, "{release}");
    }
}
