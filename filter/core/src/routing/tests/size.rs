use std::collections::HashSet;

use serde_json::json;

use super::super::StateQuery;
use super::cluster::Index;
use super::harness::{CONFIG, Harness, INTERVAL};
use crate::Time;

/// Adds `count` indices, each on one node.
fn fill(harness: &Harness, count: usize) {
    let mut cluster = harness.cluster();
    cluster.create("first", &["n0"]);
    let first = cluster.indices.remove("first").unwrap();
    for number in 0..count {
        cluster.indices.insert(format!("m{number:05}"), Index { uuid: format!("{number}"), ..first.clone() });
    }
}

#[test]
fn reads_a_large_state_in_steps() {
    let mut harness = Harness::new(1);
    fill(&harness, 10_000);
    let overview = harness.cluster().answer(&StateQuery::Overview.path()).to_string().len();
    assert!(overview > 500_000);
    harness.run_for(Time::ZERO);
    let details = harness.count("details of indices");
    // The overview takes steps of 256 kB, and each answer with details one step. Then the results are published.
    let least = overview / (256 << 10) + details;
    let pauses = harness.worker(0).pauses;
    assert!((least..least + 200).contains(&pauses), "{pauses} pauses, {least} steps at least");
    harness.check();
    harness.join(CONFIG);
    harness.follow_for(Time::ZERO);
    // There are 255 buckets in steps of 32.
    assert!((8..20).contains(&harness.worker(1).pauses), "{}", harness.worker(1).pauses);
}

#[test]
fn every_query_fits_a_clusters_limit() {
    let mut harness = Harness::new(1);
    let mut names: HashSet<String> = HashSet::new();
    for number in 0..40 {
        names.insert(format!("{number:0>255}"));
        names.insert(format!("{}{number}", "ü".repeat(120)));
        names.insert(format!("+{number}"));
    }
    // No cluster has a name like this.
    harness.cluster().create(&"n".repeat(5000), &["n0"]);
    names.iter().for_each(|name| harness.cluster().create(name, &["n0"]));
    harness.run_for(Time::ZERO);
    harness.cluster().indices.remove(&"n".repeat(5000));
    harness.check();
    assert!(harness.count("details of indices") > 10);
}

#[test]
fn with_very_many_indices_only_the_first_and_the_wanted_are_loaded() {
    let mut harness = Harness::new(2);
    fill(&harness, 20_100);
    harness.cluster().alias("m20050", "x", json!({}));
    harness.run_for(INTERVAL);
    let (first, beyond) = ("m00007", "m20090");
    for worker in [0, 1] {
        harness.check_one(worker, true);
        assert!(harness.route(worker, first, "1").is_some() && harness.route(worker, "i", "1").is_some());
        assert_eq!((harness.route(worker, beyond, "1"), harness.route(worker, "x", "1")), (None, None));
    }
    // A worker that wants it queries it, even if it has never polled before.
    for (worker, name) in [(1, beyond), (0, "x")] {
        harness.forget();
        harness.worker(worker).cache.want(name);
        harness.poll_soon(worker);
        harness.run_for(INTERVAL);
        assert!(harness.route(0, name, "1").is_some() && harness.route(1, name, "1").is_some(), "{name}");
        assert_eq!(harness.details().len(), 1);
    }
    // From then on its changes are followed.
    harness.cluster().change(beyond, |index| index.shards = vec![super::cluster::Shard::On("n2")]);
    harness.run_for(INTERVAL);
    assert_eq!(harness.route(0, beyond, "1").as_deref(), Some("up-es-2"));
}

/// Runs for `seconds` seconds. In each, clients use `names` nonexistent names, and the `others`.
fn guess(harness: &mut Harness, seconds: u64, names: usize, others: &[&str]) {
    for second in 0..seconds {
        {
            let mut worker = harness.worker(0);
            (0..names).for_each(|number| worker.cache.want(&format!("guess-{second}-{number}")));
            others.iter().for_each(|name| worker.cache.want(name));
            worker.cache.poll_soon(harness.now);
        }
        harness.run_for(Time::from_secs(1));
    }
}

fn large() -> Harness {
    let mut harness = Harness::new(1);
    fill(&harness, 20_100);
    harness.run_for(INTERVAL);
    harness.forget();
    harness
}

#[test]
fn nonexistent_names_cause_ever_fewer_overviews() {
    let mut harness = large();
    guess(&mut harness, 300, 1, &[]);
    // After 1, 2, 4, … 256 seconds.
    let first = harness.count("overview");
    assert!((2..=10).contains(&first), "{first} overviews in five minutes");
    guess(&mut harness, 1200, 1, &[]);
    let later = harness.count("overview") - first;
    assert!((1..=5).contains(&later), "{later} overviews in twenty minutes");
}

#[test]
fn nonexistent_names_cause_no_extra_overviews_while_the_state_changes() {
    let mut harness = large();
    guess(&mut harness, 60, 1, &[]);
    harness.forget();
    for _ in 0..60 {
        harness.cluster().version += 1;
        guess(&mut harness, 1, 1, &[]);
    }
    let overviews = harness.count("overview");
    assert!((10..=14).contains(&overviews), "{overviews} overviews in a minute");
}

#[test]
fn a_new_index_is_found_soon_despite_nonexistent_names() {
    let mut harness = large();
    guess(&mut harness, 300, 1, &[]);
    harness.cluster().create("today", &["n2"]);
    guess(&mut harness, INTERVAL.as_secs() + 1, 2000, &["today"]);
    assert_eq!(harness.route(0, "today", "1").as_deref(), Some("up-es-2"));
    // The next one is found at once.
    harness.cluster().create("tomorrow", &["n1"]);
    guess(&mut harness, 2, 2000, &["tomorrow"]);
    assert_eq!(harness.route(0, "tomorrow", "1").as_deref(), Some("up-es-1"));
}

#[test]
fn an_old_index_is_found_eventually_despite_nonexistent_names() {
    let mut harness = large();
    guess(&mut harness, 300, 1, &[]);
    guess(&mut harness, 301, 1, &["m20090"]);
    assert!(harness.route(0, "m20090", "1").is_some());
}
