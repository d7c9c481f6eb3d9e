//! Settings that change while requests are being handled.

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use super::world::{World, id_on, index};
use crate::config::{Config, Switches};
use crate::engine::metrics::Counter;
use crate::engine::pass_through::PassThrough;
use crate::routing::Unrouted;

const MILLISECOND: Duration = Duration::from_millis(1);

fn world(config: Value) -> World {
    let mut whole = json!({"cluster_state": {"refresh": "1h"}});
    whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    World::new(whole)
}

/// Sends requests with one operation each for one node.
fn small(world: &mut World, count: usize) -> Vec<u32> {
    (0..count).map(|n| world.request("/_bulk", &index(&[id_on(0, n)]))).collect()
}

fn operations(world: &World, call: usize) -> usize {
    world.calls[call].body.iter().filter(|byte| **byte == b'\n').count() / 2
}

/// Applies these run-time settings, in the form in which the cluster returns them.
fn switch(world: &mut World, switches: Value) {
    let answer = json!({"persistent": {"cluster": {"metadata": {"bulk_reshuffle": switches}}}});
    let (switches, invalid) = Switches::read(answer.to_string().as_bytes()).unwrap();
    world.engine.switch(switches, invalid);
    world.woken();
}

#[test]
fn a_disabled_filter_accepts_nothing_and_loses_nothing() {
    let mut world = world(json!({"hold": {"early_release": false, "interval": "50ms"}}));
    let held = small(&mut world, 2);
    let reading = world.head("/_bulk", &[]);
    let body = index(&[id_on(0, 5)]);
    world.data(reading, &body[..10], false);
    switch(&mut world, json!({"enabled": "false"}));
    // This reason takes precedence over all others.
    for path in ["/_bulk", "/_bulk?pipeline=p"] {
        let off = world.head(path, &[]);
        assert_eq!(world.passed[&off], b"");
    }
    assert_eq!(world.passed_because(PassThrough::Disabled), 2);
    world.data(reading, &body[10..], true);
    world.tick_after(50 * MILLISECOND);
    assert_eq!(operations(&world, 0), 3);
    world.settle();
    for id in held.iter().chain([&reading]) {
        assert_eq!(world.items(*id).len(), 1);
    }
    assert!(world.engine.is_idle());
    switch(&mut world, json!({}));
    let on = small(&mut world, 1);
    assert!(!world.passed.contains_key(&on[0]));
}

#[test]
fn the_filter_may_be_configured_off_until_it_is_enabled() {
    let mut world = world(json!({"enabled": false}));
    let off = small(&mut world, 1);
    assert!(world.passed.contains_key(&off[0]));
    assert_eq!(PassThrough::Disabled.name(), "switched_off");
    switch(&mut world, json!({"enabled": "true"}));
    let on = small(&mut world, 1);
    assert!(!world.passed.contains_key(&on[0]));
}

#[test]
fn requests_with_operations_on_a_disabled_index_pass_through() {
    let mut world = world(json!({"indices": [{"pattern": "a*", "enabled": false}]}));
    let (line, fine) =
        (format!("{{\"delete\":{{\"_index\":\"a\",\"_id\":\"{}\"}}}}\n", id_on(0, 0)), index(&[id_on(1, 0)]));
    let body = fine.clone() + &line;
    let id = world.request("/_bulk", &body);
    assert_eq!(world.passed[&id], body.as_bytes());
    let by_path = world.request("/a/_bulk", "{\"index\":{}}\n{}\n");
    assert!(world.passed.contains_key(&by_path));
    assert_eq!(world.passed_because(PassThrough::Unrouted(Unrouted::Disabled)), 2);
    let id = world.request("/_bulk", &fine);
    assert!(!world.passed.contains_key(&id));
}

#[test]
fn a_shorter_interval_applies_to_held_shares() {
    let mut world = world(json!({"hold": {"early_release": false, "interval": "1m"}}));
    small(&mut world, 1);
    world.tick_after(30 * MILLISECOND);
    small(&mut world, 1);
    world.woken();
    switch(&mut world, json!({"interval": "50ms"}));
    assert_eq!((world.calls.len(), world.timer), (0, Some(20 * MILLISECOND)));
    world.tick_after(20 * MILLISECOND);
    assert_eq!((world.calls.len(), operations(&world, 0)), (1, 2));
    world.settle();
    // A hold that is overdue by the new rule leaves at once.
    switch(&mut world, json!({"interval": "1m"}));
    small(&mut world, 1);
    world.tick_after(30 * MILLISECOND);
    switch(&mut world, json!({"interval": "20ms"}));
    assert_eq!(world.calls.len(), 1);
}

#[test]
fn a_longer_interval_applies_to_held_shares() {
    let mut world = world(json!({"hold": {"early_release": false, "interval": "50ms"}}));
    small(&mut world, 1);
    world.woken();
    switch(&mut world, json!({"interval": "80ms"}));
    world.tick_after(50 * MILLISECOND);
    assert_eq!((world.calls.len(), world.timer), (0, Some(30 * MILLISECOND)));
    world.tick_after(30 * MILLISECOND);
    assert_eq!(world.calls.len(), 1);
}

#[test]
fn smaller_thresholds_apply_to_held_shares() {
    for threshold in [json!({"flush_threshold_docs": "2"}), json!({"flush_threshold_size": "100b"})] {
        let mut world = world(json!({"hold": {"early_release": false, "interval": "1m"}}));
        small(&mut world, 4);
        world.woken();
        assert!(world.calls.is_empty());
        switch(&mut world, threshold);
        let size = operations(&world, 0);
        assert!((1..=2).contains(&size), "{size}");
        while !world.calls.is_empty() {
            world.answer("es-0");
        }
        world.tick_after(Duration::from_secs(60));
        world.settle();
        assert_eq!(world.replies.len(), 4);
    }
}

#[test]
fn early_release_lets_held_shares_leave_at_once() {
    let mut world = world(json!({"hold": {"early_release": false, "interval": "1m"}}));
    small(&mut world, 2);
    world.woken();
    switch(&mut world, json!({"early_release": "true"}));
    assert_eq!(operations(&world, 0), 2);
}

#[test]
fn without_early_release_waiting_shares_wait_for_their_interval() {
    let mut world = world(json!({"hold": {"interval": "50ms"}}));
    small(&mut world, 1);
    world.woken();
    let late = small(&mut world, 1);
    // It was to leave with the answer. A hold that was to leave at once stays too.
    world.request("/_bulk", &index(&[id_on(1, 0)]));
    switch(&mut world, json!({"early_release": "false"}));
    assert_eq!(world.upstreams(), ["es-0"]);
    world.answer("es-0");
    assert!(world.calls.is_empty());
    assert_eq!(world.timer, Some(50 * MILLISECOND));
    world.tick_after(50 * MILLISECOND);
    assert_eq!(world.upstreams(), ["es-0", "es-1"]);
    world.settle();
    assert_eq!(world.items(late[0]).len(), 1);
    assert!(world.engine.is_idle());
}

#[test]
fn the_maximum_number_of_batches_in_flight_may_change() {
    let mut world = world(json!({"hold": {"flush_threshold_docs": 1}}));
    small(&mut world, 6);
    world.woken();
    assert_eq!(world.calls.len(), 1);
    switch(&mut world, json!({"max_in_flight": "3"}));
    assert_eq!(world.calls.len(), 3);
    switch(&mut world, json!({"max_in_flight": "1"}));
    world.answer("es-0");
    world.answer("es-0");
    assert_eq!(world.calls.len(), 1);
    world.answer("es-0");
    assert_eq!(world.calls.len(), 1);
    world.settle();
    assert_eq!(world.replies.len(), 6);
    assert!(world.engine.is_idle());
}

#[test]
fn a_ready_hold_stays_if_the_maximum_in_flight_is_lowered() {
    let config = json!({"hold": {"flush_threshold_docs": 1}, "dispatch": {"max_in_flight": 2}});
    let mut world = world(config);
    small(&mut world, 1);
    world.woken();
    // The batch is ready, but was not polled yet.
    let ready = small(&mut world, 1);
    switch(&mut world, json!({"max_in_flight": "1"}));
    assert_eq!(world.calls.len(), 1);
    world.settle();
    assert_eq!(world.items(ready[0]).len(), 1);
    assert!(world.engine.is_idle());
}

#[test]
fn a_node_with_more_slots_gets_waiting_batches() {
    let config = |most: u64| json!({"coordinator": "es", "cluster_state": {"refresh": "1h"}, "dispatch": {"max_in_flight_per_node": most}});
    let mut world = World::new(config(1));
    for caller in ["a", "b", "c"] {
        world.request_with("/_bulk", &[("authorization", caller)], &index(&[id_on(0, 0)]));
    }
    world.woken();
    assert_eq!(world.calls.len(), 1);
    world.engine.reconfigure(Rc::new(Config::read(config(2).to_string().as_bytes()).unwrap()));
    world.woken();
    assert_eq!(world.calls.len(), 2);
    world.settle();
    assert_eq!(world.replies.len(), 3);
    assert!(world.engine.is_idle());
}

#[test]
fn a_change_of_missing_id_applies_to_later_requests() {
    let mut world = world(json!({"missing_id": "pass"}));
    let line = "{\"index\":{}}\n{}\n";
    let reading = world.head("/i/_bulk", &[]);
    world.data(reading, line, false);
    switch(&mut world, json!({"missing_id": "generate"}));
    world.data(reading, line, true);
    world.woken();
    // Each request keeps one mode.
    assert_eq!(world.calls[0].body, line.repeat(2).as_bytes());
    world.settle();
    world.request("/i/_bulk", line);
    world.woken();
    assert!(world.calls[0].body.starts_with(b"{\"index\":{\"_id\":\""));
}

#[test]
fn new_problems_are_logged_and_counted_once() {
    let mut world = world(json!({"hold": {"early_release": false, "interval": "1m"}}));
    small(&mut world, 1);
    world.woken();
    for _ in 0..2 {
        switch(&mut world, json!({"interval": "soon", "max_in_flight": "17", "early_release": "true"}));
        assert_eq!((world.warnings.len(), world.counts[&Counter::SwitchesInvalid]), (2, 2), "{:?}", world.warnings);
    }
    assert!(world.warnings[0].contains(".interval`") && world.warnings[1].contains(".max_in_flight`"));
    // The other settings apply.
    assert_eq!(world.calls.len(), 1);
    switch(&mut world, json!({"interval": "later", "max_in_flight": "17"}));
    assert_eq!((world.warnings.len(), world.counts[&Counter::SwitchesInvalid]), (3, 3));
    switch(&mut world, json!({}));
    // A warning may be repeated after a minute.
    world.now += Duration::from_secs(60);
    world.woken();
    switch(&mut world, json!({"max_in_flight": "17"}));
    assert_eq!((world.warnings.len(), world.counts[&Counter::SwitchesInvalid]), (4, 4));
}
