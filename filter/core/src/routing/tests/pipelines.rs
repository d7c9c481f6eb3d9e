//! When the definitions of ingest pipelines are queried, and how workers share the verdicts.

use serde_json::json;

use super::super::{Ingest, Unrouted};
use super::harness::{CONFIG, Harness, INTERVAL, QueryOutcome};
use crate::Time;

/// Creates workers that know index i, whose default pipeline is p. The nodes return items in order.
fn harness(workers: usize) -> Harness {
    let mut harness = Harness::new(workers);
    harness.cluster.borrow_mut().release = Some("9.5.3");
    harness.cluster.borrow_mut().set_pipeline("p", json!([{"drop": {}}]));
    harness.cluster.borrow_mut().change("i", |index| index.default_pipeline = Some("p".to_owned()));
    harness.run_for(INTERVAL);
    harness
}

/// Returns whether operations of a worker on an index are under a harmless pipeline.
fn is_harmless(harness: &Harness, worker: usize, name: &str, pipeline: Option<&str>) -> Result<bool, Unrouted> {
    let worker = harness.workers[worker].borrow();
    let table = worker.table.as_ref().unwrap();
    table.write_target(name).unwrap().ingest(pipeline).map(|ingest| ingest != Ingest::None)
}

#[test]
fn pipelines_are_queried_only_if_an_index_has_one() {
    let mut harness = Harness::settled(1);
    harness.cluster.borrow_mut().set_pipeline("p", json!([]));
    harness.run_for(INTERVAL);
    assert_eq!(harness.count("pipelines"), 0);
    harness.cluster.borrow_mut().change("i", |index| index.default_pipeline = Some("p".to_owned()));
    harness.run_for(INTERVAL);
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
        assert_eq!(is_harmless(&harness, worker, "i", None), Ok(true));
        assert_eq!(is_harmless(&harness, worker, "i", Some("_none")), Ok(false));
        assert_eq!(is_harmless(&harness, worker, "j", None), Ok(false));
        assert_eq!(is_harmless(&harness, worker, "j", Some("p")), Ok(true));
        assert_eq!(is_harmless(&harness, worker, "j", Some("q")), Err(Unrouted::NamedPipeline));
    }
    assert_eq!(harness.count("pipelines"), 1);
    harness.cluster.borrow_mut().set_pipeline("p", json!([{"script": {}}]));
    harness.run_for(INTERVAL);
    for worker in 0..=late {
        assert_eq!(is_harmless(&harness, worker, "i", None), Err(Unrouted::IndexPipeline));
    }
    assert_eq!(harness.count("pipelines"), 2);
    harness.check();
}

#[test]
fn a_pipeline_that_a_request_names_is_queried_soon() {
    let mut harness = Harness::settled(2);
    harness.cluster.borrow_mut().release = Some("9.5.3");
    harness.cluster.borrow_mut().set_pipeline("p", json!([]));
    harness.run_for(INTERVAL);
    assert_eq!(is_harmless(&harness, 1, "i", Some("p")), Err(Unrouted::NamedPipeline));
    let now = harness.now;
    (0..10).for_each(|_| harness.workers[1].borrow_mut().cache.want_pipelines(now));
    harness.run_for(Time::from_secs(2));
    assert_eq!(is_harmless(&harness, 1, "i", Some("p")), Ok(true));
    assert_eq!(harness.count("pipelines"), 1);
    harness.workers[0].borrow_mut().cache.want_pipelines(now);
    harness.run_for(INTERVAL);
    assert_eq!(harness.count("pipelines"), 1);
}

#[test]
fn without_an_answer_no_pipeline_is_harmless_until_the_next_poll() {
    let mut harness = harness(1);
    harness.cluster.borrow_mut().set_pipeline("p", json!([{"script": {}}]));
    harness.run_with(INTERVAL, |_, query| match query.to_string().as_str() {
        "pipelines" => QueryOutcome::With(200, b"{\"metadata\":{\"ingest\":{\"pipeline\":7}}}".to_vec()),
        _ => QueryOutcome::Answered,
    });
    assert_eq!(is_harmless(&harness, 0, "i", None), Err(Unrouted::IndexPipeline));
    assert_eq!(harness.workers[0].borrow().errors()[0].to_string(), "pipelines: byte 34: expected `[`");
    harness.check();
    harness.cluster.borrow_mut().pipelines.insert("p".to_owned(), json!([]));
    harness.run_for(INTERVAL);
    assert_eq!(is_harmless(&harness, 0, "i", None), Ok(true));
}

#[test]
fn releases_that_reorder_items_make_all_pipelines_unsafe() {
    for (release, is_ordered) in [
        (Some("8.13.0"), true),
        (Some("7.17.18"), true),
        (Some("9.0.0"), true),
        (Some("8.12.2"), false),
        (Some("7.17.17"), false),
        (Some("3.8.0"), false),
        (None, false),
    ] {
        let mut harness = harness(1);
        harness.cluster.borrow_mut().release = release;
        harness.cluster.borrow_mut().version += 1;
        harness.run_for(INTERVAL);
        assert_eq!(is_harmless(&harness, 0, "i", None).is_ok(), is_ordered, "{release:?}");
    }
}
