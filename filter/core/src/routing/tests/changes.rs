use std::collections::BTreeMap;

use serde_json::json;

use super::super::{PollEvent, StateQuery};
use super::cluster::{Cluster, Shard};
use super::harness::{Harness, INTERVAL};
use crate::Time;
use crate::config::Config;
use crate::routing::table::BUCKETS;
use crate::routing::{StateCache, Unshared};

/// Changes the cluster while three workers know it, and runs for an interval. Returns the harness, and the names whose
/// details were queried.
fn after(change: impl FnOnce(&mut Cluster)) -> (Harness, Vec<String>) {
    let mut harness = Harness::settled(3);
    harness.follow(change);
    let details = harness.details();
    (harness, details)
}

/// Does the same with an alias x of index i (and of j if `is_shared`), which the workers already know.
fn after_with_alias(change: impl FnOnce(&mut Cluster)) -> Harness {
    let mut harness = Harness::settled(3);
    harness.follow(|cluster| cluster.alias("i", "x", json!({})));
    harness.forget();
    harness.follow(change);
    harness
}

#[test]
fn no_query_is_sent_before_the_first_request() {
    let config = Config::read(br#"{"coordinator":"es"}"#).unwrap();
    let mut cache = StateCache::new(&config, 1, Box::new(Unshared));
    assert_eq!((cache.due(), cache.next(Time::from_secs(1000))), (None, None));
    cache.poll_soon(Time::from_secs(1000));
    assert_eq!((cache.due(), cache.next(Time::from_secs(1000))), (None, None));
    cache.wake(Time::from_secs(1001));
    assert_eq!(cache.due(), Some(Time::from_secs(1001)));
    assert!(cache.next(Time::from_secs(1001)).is_some());
}

#[test]
fn everything_is_queried_once_at_the_start() {
    let mut harness = Harness::new(1);
    harness.follow_for(Time::ZERO);
    let asked = harness.asked();
    assert_eq!(asked[..4], [StateQuery::Version, StateQuery::Overview, StateQuery::Settings, StateQuery::Nodes]);
    assert!(matches!(&asked[4..], [StateQuery::Details(names)] if names.len() == 2), "{asked:?}");
    assert_eq!(harness.worker(0).events, [PollEvent::Loaded]);
}

#[test]
fn only_the_version_is_queried_while_nothing_changes() {
    let mut harness = Harness::settled(3);
    harness.run_for(INTERVAL * 10);
    let asked = harness.asked();
    assert!(asked.iter().all(|query| *query == StateQuery::Version), "{asked:?}");
    assert!((10..=13).contains(&asked.len()), "one of the workers polls once in an interval: {}", asked.len());
    assert!(harness.workers.iter().all(|worker| worker.borrow().events.is_empty()));
}

#[test]
fn follows_a_created_changed_or_deleted_index() {
    let (harness, details) = after(|cluster| cluster.create("k", &["n2"]));
    assert_eq!(details, ["k"]);
    assert_eq!(harness.count("aliases"), 0);
    let (_, details) = after(|cluster| cluster.place("j", "n0"));
    assert_eq!(details, ["j"]);
    let (harness, details) = after(|cluster| cluster.delete("j"));
    assert_eq!(details, [""; 0]);
    assert_eq!(harness.route(2, "j", "1"), None);
    let (_, details) = after(|cluster| {
        let version = cluster.indices["j"].version;
        cluster.delete("j");
        cluster.create("j", &["n2", "n0"]);
        assert_eq!(cluster.indices["j"].version, version);
    });
    assert_eq!(details, ["j"], "a new uuid means another index");
}

#[test]
fn follows_deleted_indices_whose_bucket_has_others() {
    // With twice as many names as buckets, some buckets have names of both halves.
    let names: Vec<String> = (0..2 * u16::from(BUCKETS)).map(|number| format!("index-{number}")).collect();
    let mut harness = Harness::settled(2);
    names.iter().for_each(|name| harness.cluster().create(name, &["n0"]));
    harness.run_for(INTERVAL);
    let (gone, left) = names.split_at(names.len() / 2);
    assert!(names.iter().all(|name| harness.route(1, name, "1").is_some()));
    gone.iter().for_each(|name| harness.cluster().delete(name));
    harness.follow_for(INTERVAL);
    assert!(gone.iter().all(|name| harness.route(1, name, "1").is_none()));
    assert!(left.iter().all(|name| harness.route(1, name, "1").is_some()));
}

#[test]
fn follows_a_created_moved_or_removed_alias() {
    let harness = after_with_alias(|cluster| {
        cluster.unalias("i", "x");
        cluster.alias("j", "x", json!({}));
    });
    assert_eq!((harness.count("aliases"), harness.count("overview")), (1, 1));
    let harness = after_with_alias(|cluster| cluster.unalias("i", "x"));
    assert_eq!((harness.route(0, "x", "1"), harness.count("aliases")), (None, 0), "no alias is left to query");
    after_with_alias(|cluster| cluster.alias("i", "x", json!({"index_routing": "r"})));
    after_with_alias(|cluster| cluster.alias("j", "x", json!({"is_write_index": true})));
    let harness = after_with_alias(|cluster| cluster.alias("j", "x", json!({})));
    assert_eq!(harness.route(1, "x", "1"), None, "neither of two indices is the write index");
}

#[test]
fn follows_aliases_that_swap_indices() {
    for more in 0..20 {
        let mut harness = Harness::settled(1);
        harness.cluster().alias("i", "x", json!({}));
        harness.cluster().alias("j", "y", json!({}));
        (0..more).for_each(|_| harness.cluster().change("i", |_| ()));
        harness.run_for(INTERVAL);
        for index in ["i", "j"] {
            let aliases = BTreeMap::from([(if index == "i" { "y" } else { "x" }.to_owned(), json!({}))]);
            harness.cluster().change(index, |index| index.aliases = aliases);
        }
        harness.follow_for(INTERVAL);
    }
}

#[test]
fn aliases_are_queried_only_if_one_may_have_changed() {
    let harness = after_with_alias(|cluster| cluster.place("j", "n2"));
    assert_eq!((harness.count("aliases"), harness.details()), (0, vec!["j".to_owned()]));
    let harness = after_with_alias(|cluster| cluster.change("i", |_| ()));
    assert_eq!(harness.count("aliases"), 1);
}

#[test]
fn follows_the_rollover_of_a_data_stream() {
    let mut harness = Harness::settled(3);
    harness.cluster().create(".ds-1", &["n0"]);
    harness.follow(|cluster| cluster.data_streams.insert("logs".to_owned(), vec![".ds-1".to_owned()]));
    assert_eq!(harness.route(1, "logs", "1").as_deref(), Some("up-es-0"));
    harness.cluster().create(".ds-2", &["n1"]);
    harness
        .follow(|cluster| cluster.data_streams.insert("logs".to_owned(), vec![".ds-1".to_owned(), ".ds-2".to_owned()]));
    assert_eq!(harness.route(1, "logs", "1").as_deref(), Some("up-es-1"));
    harness.cluster().data_streams.clear();
    harness.follow(|cluster| cluster.delete(".ds-1"));
    assert_eq!(harness.route(1, "logs", "1"), None);
}

#[test]
fn follows_a_shard_that_moves_without_a_new_index_version() {
    let mut harness = Harness::settled(3);
    harness.follow(|cluster| cluster.change("j", |index| index.shards = vec![Shard::Moving("n1", "n2")]));
    harness.follow(|cluster| cluster.change_table("j", |index| index.shards = vec![Shard::On("n2")]));
    assert_eq!(harness.route(0, "j", "1").as_deref(), Some("up-es-2"));
}

#[test]
fn follows_a_primary_that_starts_without_a_new_index_version() {
    let mut harness = Harness::settled(3);
    harness.follow(|cluster| cluster.change("j", |index| index.shards = vec![Shard::Nowhere]));
    assert_eq!(harness.route(0, "j", "1"), None);
    harness.follow(|cluster| cluster.change_table("j", |index| index.shards = vec![Shard::On("n0")]));
}

#[test]
fn follows_nodes_that_leave_or_join() {
    let (harness, _) = after(|cluster| {
        cluster.version += 1;
        cluster.nodes.remove("n1");
        cluster.place("j", "n0");
        cluster.change("i", |index| index.shards[1] = Shard::Nowhere);
    });
    assert_eq!(harness.route(0, "j", "1").as_deref(), Some("up-es-0"));
    let (harness, details) = after(|cluster| {
        cluster.place_on_new("j", "a", "es-9");
    });
    assert_eq!((harness.route(0, "j", "1").as_deref(), details.as_slice()), (Some("up-es-9"), &["j".to_owned()][..]));
    let (harness, details) = after(|cluster| {
        cluster.nodes.insert("n1".to_owned(), "renamed".to_owned());
        cluster.version += 1;
    });
    assert_eq!((harness.route(2, "j", "1").as_deref(), details.len()), (Some("up-renamed"), 0));
}

#[test]
fn follows_a_restored_older_state() {
    let mut harness = Harness::settled(3);
    for _ in 0..3 {
        harness.cluster().change("j", |_| ());
    }
    harness.run_for(INTERVAL);
    // Both have the number that was known, but their content differs.
    harness.follow(|cluster| {
        cluster.change_table("j", |index| index.shards = vec![Shard::On("n2")]);
        cluster.change_table("i", |index| index.shards.reverse());
        cluster.version = 2;
    });
    harness.cluster().change_table("j", |index| index.shards = vec![Shard::On("n0")]);
    harness.follow(|cluster| cluster.uuid = "another".to_owned());
}

#[test]
fn node_addresses_are_queried_after_a_node_has_started() {
    let config = r#"{"coordinator":"es","nodes":{"upstream":"up-{http_port}"}}"#;
    let mut harness = Harness::new(0);
    harness.join(config);
    harness.run_for(INTERVAL);
    let route = |harness: &Harness| harness.route(0, "j", "1");
    assert_eq!((route(&harness).as_deref(), harness.count("nodes")), (Some("up-9201"), 1));
    harness.cluster().create("k", &["n0"]);
    harness.run_for(INTERVAL);
    assert_eq!(harness.count("nodes"), 1, "no node has restarted");
    {
        let mut cluster = harness.cluster();
        cluster.ports.insert("n1".to_owned(), 9300);
        cluster.starts.insert("n1".to_owned(), 2);
        cluster.version += 1;
    }
    harness.run_for(INTERVAL);
    assert_eq!((route(&harness).as_deref(), harness.count("nodes")), (Some("up-9300"), 2));
}
