use std::collections::BTreeMap;

use serde_json::json;

use super::super::{PollEvent, StateQuery};
use super::cluster::{Cluster, Shard};
use super::world::{INTERVAL, World};
use crate::Time;
use crate::config::Config;
use crate::routing::{StateCache, Unshared};

/// Lets a cluster change under three workers that know it, and the interval pass. Returns the world, and the names of
/// which details were asked for.
fn after(change: impl FnOnce(&mut Cluster)) -> (World, Vec<String>) {
    let mut world = World::settled(3);
    change(&mut world.cluster.borrow_mut());
    world.run_for(INTERVAL);
    world.check();
    let details = world.details();
    (world, details)
}

/// The same with an alias, x, of the index i, and of j where `is_shared`, known before.
fn after_with_alias(change: impl FnOnce(&mut Cluster)) -> World {
    let mut world = World::settled(3);
    world.cluster.borrow_mut().alias("i", "x", json!({}));
    world.run_for(INTERVAL);
    world.check();
    world.forget();
    change(&mut world.cluster.borrow_mut());
    world.run_for(INTERVAL);
    world.check();
    world
}

#[test]
fn nothing_is_asked_before_the_first_request() {
    let config = Config::read(br#"{"coordinator":"es"}"#).unwrap();
    let mut cache = StateCache::new(&config, 1, Box::new(Unshared));
    assert_eq!((cache.due(), cache.next(Time::from_secs(1000))), (None, None));
    cache.hurry(Time::from_secs(1000));
    assert_eq!((cache.due(), cache.next(Time::from_secs(1000))), (None, None));
    cache.wake(Time::from_secs(1001));
    assert_eq!(cache.due(), Some(Time::from_secs(1001)));
    assert!(cache.next(Time::from_secs(1001)).is_some());
}

#[test]
fn everything_is_asked_for_once_at_first() {
    let mut world = World::new(1);
    world.run_for(Time::ZERO);
    world.check();
    let asked = world.asked();
    assert_eq!(asked[..2], [StateQuery::Overview, StateQuery::Settings]);
    assert!(matches!(&asked[2..], [StateQuery::Details(names)] if names.len() == 2), "{asked:?}");
    assert_eq!(world.workers[0].borrow().events, [PollEvent::Loaded]);
}

#[test]
fn as_long_as_nothing_changes_only_the_version_is_asked_for() {
    let mut world = World::settled(3);
    world.run_for(INTERVAL * 10);
    let asked = world.asked();
    assert!(asked.iter().all(|query| *query == StateQuery::Version), "{asked:?}");
    assert!((10..=13).contains(&asked.len()), "one of the workers asks once in an interval: {}", asked.len());
    assert!(world.workers.iter().all(|worker| worker.borrow().events.is_empty()));
}

#[test]
fn an_index_that_was_created_or_changed_or_deleted() {
    let (world, details) = after(|cluster| cluster.create("k", &["n2"]));
    assert_eq!(details, ["k"]);
    assert_eq!(world.count("aliases"), 0);
    let (_, details) = after(|cluster| cluster.change("j", |index| index.shards = vec![Shard::On("n0")]));
    assert_eq!(details, ["j"]);
    let (world, details) = after(|cluster| cluster.delete("j"));
    assert_eq!(details, [""; 0]);
    assert_eq!(world.route(2, "j", "1"), None);
    let (_, details) = after(|cluster| {
        let version = cluster.indices["j"].version;
        cluster.delete("j");
        cluster.create("j", &["n2", "n0"]);
        assert_eq!(cluster.indices["j"].version, version);
    });
    assert_eq!(details, ["j"], "another uuid is another index");
}

#[test]
fn an_alias_that_was_made_or_flipped_or_removed() {
    let world = after_with_alias(|cluster| {
        cluster.unalias("i", "x");
        cluster.alias("j", "x", json!({}));
    });
    assert_eq!((world.count("aliases"), world.count("overview")), (1, 1));
    let world = after_with_alias(|cluster| cluster.unalias("i", "x"));
    assert_eq!((world.route(0, "x", "1"), world.count("aliases")), (None, 0), "there are none to ask for");
    after_with_alias(|cluster| cluster.alias("i", "x", json!({"index_routing": "r"})));
    after_with_alias(|cluster| cluster.alias("j", "x", json!({"is_write_index": true})));
    let world = after_with_alias(|cluster| cluster.alias("j", "x", json!({})));
    assert_eq!(world.route(1, "x", "1"), None, "of two indices none is the one to write to");
}

#[test]
fn aliases_that_change_places() {
    for more in 0..20 {
        let mut world = World::settled(1);
        world.cluster.borrow_mut().alias("i", "x", json!({}));
        world.cluster.borrow_mut().alias("j", "y", json!({}));
        (0..more).for_each(|_| world.cluster.borrow_mut().change("i", |_| ()));
        world.run_for(INTERVAL);
        for index in ["i", "j"] {
            let aliases = BTreeMap::from([(if index == "i" { "y" } else { "x" }.to_owned(), json!({}))]);
            world.cluster.borrow_mut().change(index, |index| index.aliases = aliases);
        }
        world.run_for(INTERVAL);
        world.check();
    }
}

#[test]
fn aliases_are_asked_for_only_when_one_may_have_changed() {
    let world = after_with_alias(|cluster| cluster.change("j", |index| index.shards = vec![Shard::On("n2")]));
    assert_eq!((world.count("aliases"), world.details()), (0, vec!["j".to_owned()]));
    let world = after_with_alias(|cluster| cluster.change("i", |_| ()));
    assert_eq!(world.count("aliases"), 1);
}

#[test]
fn a_data_stream_that_rolled_over() {
    let mut world = World::settled(3);
    world.cluster.borrow_mut().create(".ds-1", &["n0"]);
    world.cluster.borrow_mut().data_streams.insert("logs".to_owned(), vec![".ds-1".to_owned()]);
    world.run_for(INTERVAL);
    world.check();
    assert_eq!(world.route(1, "logs", "1").as_deref(), Some("up-es-0"));
    world.cluster.borrow_mut().create(".ds-2", &["n1"]);
    world.cluster.borrow_mut().data_streams.insert("logs".to_owned(), vec![".ds-1".to_owned(), ".ds-2".to_owned()]);
    world.run_for(INTERVAL);
    world.check();
    assert_eq!(world.route(1, "logs", "1").as_deref(), Some("up-es-1"));
    world.cluster.borrow_mut().data_streams.clear();
    world.cluster.borrow_mut().delete(".ds-1");
    world.run_for(INTERVAL);
    assert_eq!(world.route(1, "logs", "1"), None);
}

#[test]
fn a_shard_that_moves_without_a_new_version_of_its_index() {
    let mut world = World::settled(3);
    world.cluster.borrow_mut().change("j", |index| index.shards = vec![Shard::Moving("n1", "n2")]);
    world.run_for(INTERVAL);
    world.check();
    world.cluster.borrow_mut().change_table("j", |index| index.shards = vec![Shard::On("n2")]);
    world.run_for(INTERVAL);
    world.check();
    assert_eq!(world.route(0, "j", "1").as_deref(), Some("up-es-2"));
}

#[test]
fn a_primary_that_starts_without_a_new_version_of_its_index() {
    let mut world = World::settled(3);
    world.cluster.borrow_mut().change("j", |index| index.shards = vec![Shard::Nowhere]);
    world.run_for(INTERVAL);
    assert_eq!(world.route(0, "j", "1"), None);
    world.cluster.borrow_mut().change_table("j", |index| index.shards = vec![Shard::On("n0")]);
    world.run_for(INTERVAL);
    world.check();
}

#[test]
fn a_node_that_left_or_joined() {
    let (world, _) = after(|cluster| {
        cluster.version += 1;
        cluster.nodes.remove("n1");
        cluster.change("j", |index| index.shards = vec![Shard::On("n0")]);
        cluster.change("i", |index| index.shards[1] = Shard::Nowhere);
    });
    assert_eq!(world.route(0, "j", "1").as_deref(), Some("up-es-0"));
    let (world, details) = after(|cluster| {
        cluster.nodes.insert("a".to_owned(), "es-9".to_owned());
        cluster.change("j", |index| index.shards = vec![Shard::On("a")]);
    });
    assert_eq!((world.route(0, "j", "1").as_deref(), details.as_slice()), (Some("up-es-9"), &["j".to_owned()][..]));
    let (world, details) = after(|cluster| {
        cluster.nodes.insert("n1".to_owned(), "renamed".to_owned());
        cluster.version += 1;
    });
    assert_eq!((world.route(2, "j", "1").as_deref(), details.len()), (Some("up-renamed"), 0));
}

#[test]
fn an_older_state_that_was_restored() {
    let mut world = World::settled(3);
    for _ in 0..3 {
        world.cluster.borrow_mut().change("j", |_| ());
    }
    world.run_for(INTERVAL);
    // Both have the number that was known, and are somewhere else.
    {
        let mut cluster = world.cluster.borrow_mut();
        cluster.change_table("j", |index| index.shards = vec![Shard::On("n2")]);
        cluster.change_table("i", |index| index.shards.reverse());
        cluster.version = 2;
    }
    world.run_for(INTERVAL);
    world.check();
    world.cluster.borrow_mut().change_table("j", |index| index.shards = vec![Shard::On("n0")]);
    world.cluster.borrow_mut().uuid = "another".to_owned();
    world.run_for(INTERVAL);
    world.check();
}

#[test]
fn where_nodes_take_requests_is_asked_for_where_a_node_has_started() {
    let config = r#"{"coordinator":"es","nodes":{"upstream":"up-{http_port}"}}"#;
    let mut world = World::new(0);
    world.join(config);
    world.run_for(INTERVAL);
    let route = |world: &World| world.route(0, "j", "1");
    assert_eq!((route(&world).as_deref(), world.count("nodes")), (Some("up-9201"), 1));
    world.cluster.borrow_mut().create("k", &["n0"]);
    world.run_for(INTERVAL);
    assert_eq!(world.count("nodes"), 1, "none has");
    {
        let mut cluster = world.cluster.borrow_mut();
        cluster.ports.insert("n1".to_owned(), 9300);
        cluster.starts.insert("n1".to_owned(), 2);
        cluster.version += 1;
    }
    world.run_for(INTERVAL);
    assert_eq!((route(&world).as_deref(), world.count("nodes")), (Some("up-9300"), 2));
}
