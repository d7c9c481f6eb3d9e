//! Settings that change while requests are being handled.

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Harness, id_on, index};
use crate::config::{Config, RuntimeSettings};
use crate::engine::metrics::Counter;
use crate::engine::pass_through::PassThrough;
use crate::routing::Unrouted;

const MILLISECOND: Duration = Duration::from_millis(1);

fn harness(config: Value) -> Harness {
    let mut whole = json!({"cluster_state": {"refresh": "1h"}});
    whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    Harness::new(whole)
}

/// Sends requests with one operation each for one node.
fn small(harness: &mut Harness, count: usize) -> Vec<u32> {
    (0..count).map(|n| harness.request("/_bulk", &index(&[id_on(0, n)]))).collect()
}

fn operations(harness: &Harness, call: usize) -> usize {
    harness.calls[call].body.iter().filter(|byte| **byte == b'\n').count() / 2
}

/// Applies these run-time settings, in the form in which the cluster returns them.
fn switch(harness: &mut Harness, settings: Value) {
    let answer = json!({"persistent": {"cluster": {"metadata": {"bulk_reshuffle": settings}}}});
    let (settings, invalid) = RuntimeSettings::read(answer.to_string().as_bytes()).unwrap();
    harness.engine.apply_runtime_settings(settings, invalid);
    harness.woken();
}

#[test]
fn a_disabled_filter_accepts_nothing_and_loses_nothing() {
    let mut harness = harness(json!({"hold": {"early_release": false, "interval": "50ms"}}));
    let held = small(&mut harness, 2);
    let reading = harness.head("/_bulk", &[]);
    let body = index(&[id_on(0, 5)]);
    harness.data(reading, &body[..10], false);
    switch(&mut harness, json!({"enabled": "false"}));
    // This reason takes precedence over all others.
    for path in ["/_bulk", "/_bulk?pipeline=p"] {
        let off = harness.head(path, &[]);
        assert_eq!(harness.passed[&off], b"");
    }
    assert_eq!(harness.passed_because(PassThrough::Disabled), 2);
    harness.data(reading, &body[10..], true);
    harness.tick_after(50 * MILLISECOND);
    assert_eq!(operations(&harness, 0), 3);
    harness.settle();
    for id in held.iter().chain([&reading]) {
        assert_eq!(harness.items(*id).len(), 1);
    }
    assert!(harness.engine.is_idle());
    switch(&mut harness, json!({}));
    let on = small(&mut harness, 1);
    assert!(!harness.passed.contains_key(&on[0]));
}

#[test]
fn the_filter_may_be_configured_off_until_it_is_enabled() {
    let mut harness = harness(json!({"enabled": false}));
    let off = small(&mut harness, 1);
    assert!(harness.passed.contains_key(&off[0]));
    assert_eq!(PassThrough::Disabled.name(), "switched_off");
    switch(&mut harness, json!({"enabled": "true"}));
    let on = small(&mut harness, 1);
    assert!(!harness.passed.contains_key(&on[0]));
}

#[test]
fn requests_with_operations_on_a_disabled_index_pass_through() {
    let mut harness = harness(json!({"indices": [{"pattern": "a*", "enabled": false}]}));
    let (line, fine) =
        (format!("{{\"delete\":{{\"_index\":\"a\",\"_id\":\"{}\"}}}}\n", id_on(0, 0)), index(&[id_on(1, 0)]));
    let body = fine.clone() + &line;
    let id = harness.request("/_bulk", &body);
    assert_eq!(harness.passed[&id], body.as_bytes());
    let by_path = harness.request("/a/_bulk", "{\"index\":{}}\n{}\n");
    assert!(harness.passed.contains_key(&by_path));
    assert_eq!(harness.passed_because(PassThrough::Unrouted(Unrouted::Disabled)), 2);
    let id = harness.request("/_bulk", &fine);
    assert!(!harness.passed.contains_key(&id));
}

#[test]
fn a_shorter_interval_applies_to_held_shares() {
    let mut harness = harness(json!({"hold": {"early_release": false, "interval": "1m"}}));
    small(&mut harness, 1);
    harness.tick_after(30 * MILLISECOND);
    small(&mut harness, 1);
    harness.woken();
    switch(&mut harness, json!({"interval": "50ms"}));
    assert_eq!((harness.calls.len(), harness.timer), (0, Some(20 * MILLISECOND)));
    harness.tick_after(20 * MILLISECOND);
    assert_eq!((harness.calls.len(), operations(&harness, 0)), (1, 2));
    harness.settle();
    // A hold that is overdue by the new rule leaves at once.
    switch(&mut harness, json!({"interval": "1m"}));
    small(&mut harness, 1);
    harness.tick_after(30 * MILLISECOND);
    switch(&mut harness, json!({"interval": "20ms"}));
    assert_eq!(harness.calls.len(), 1);
}

#[test]
fn a_longer_interval_applies_to_held_shares() {
    let mut harness = harness(json!({"hold": {"early_release": false, "interval": "50ms"}}));
    small(&mut harness, 1);
    harness.woken();
    switch(&mut harness, json!({"interval": "80ms"}));
    harness.tick_after(50 * MILLISECOND);
    assert_eq!((harness.calls.len(), harness.timer), (0, Some(30 * MILLISECOND)));
    harness.tick_after(30 * MILLISECOND);
    assert_eq!(harness.calls.len(), 1);
}

#[test]
fn smaller_thresholds_apply_to_held_shares() {
    for threshold in [json!({"flush_threshold_docs": "2"}), json!({"flush_threshold_size": "100b"})] {
        let mut harness = harness(json!({"hold": {"early_release": false, "interval": "1m"}}));
        small(&mut harness, 4);
        harness.woken();
        assert!(harness.calls.is_empty());
        switch(&mut harness, threshold);
        let size = operations(&harness, 0);
        assert!((1..=2).contains(&size), "{size}");
        while !harness.calls.is_empty() {
            harness.answer("es-0");
        }
        harness.tick_after(Duration::from_secs(60));
        harness.settle();
        assert_eq!(harness.replies.len(), 4);
    }
}

#[test]
fn early_release_lets_held_shares_leave_at_once() {
    let mut harness = harness(json!({"hold": {"early_release": false, "interval": "1m"}}));
    small(&mut harness, 2);
    harness.woken();
    switch(&mut harness, json!({"early_release": "true"}));
    assert_eq!(operations(&harness, 0), 2);
}

#[test]
fn without_early_release_waiting_shares_wait_for_their_interval() {
    let mut harness = harness(json!({"hold": {"interval": "50ms"}}));
    small(&mut harness, 1);
    harness.woken();
    let late = small(&mut harness, 1);
    // It was to leave with the answer. A hold that was to leave at once stays too.
    harness.request("/_bulk", &index(&[id_on(1, 0)]));
    switch(&mut harness, json!({"early_release": "false"}));
    assert_eq!(harness.upstreams(), ["es-0"]);
    harness.answer("es-0");
    assert!(harness.calls.is_empty());
    assert_eq!(harness.timer, Some(50 * MILLISECOND));
    harness.tick_after(50 * MILLISECOND);
    assert_eq!(harness.upstreams(), ["es-0", "es-1"]);
    harness.settle();
    assert_eq!(harness.items(late[0]).len(), 1);
    assert!(harness.engine.is_idle());
}

#[test]
fn the_maximum_number_of_batches_in_flight_may_change() {
    let mut harness = harness(json!({"hold": {"flush_threshold_docs": 1}}));
    small(&mut harness, 6);
    harness.woken();
    assert_eq!(harness.calls.len(), 1);
    switch(&mut harness, json!({"max_in_flight": "3"}));
    assert_eq!(harness.calls.len(), 3);
    switch(&mut harness, json!({"max_in_flight": "1"}));
    harness.answer("es-0");
    harness.answer("es-0");
    assert_eq!(harness.calls.len(), 1);
    harness.answer("es-0");
    assert_eq!(harness.calls.len(), 1);
    harness.settle();
    assert_eq!(harness.replies.len(), 6);
    assert!(harness.engine.is_idle());
}

#[test]
fn a_ready_hold_stays_if_the_maximum_in_flight_is_lowered() {
    let config = json!({"hold": {"flush_threshold_docs": 1}, "dispatch": {"max_in_flight": 2}});
    let mut harness = harness(config);
    small(&mut harness, 1);
    harness.woken();
    // The batch is ready, but was not polled yet.
    let ready = small(&mut harness, 1);
    switch(&mut harness, json!({"max_in_flight": "1"}));
    assert_eq!(harness.calls.len(), 1);
    harness.settle();
    assert_eq!(harness.items(ready[0]).len(), 1);
    assert!(harness.engine.is_idle());
}

#[test]
fn a_node_with_more_slots_gets_waiting_batches() {
    let config = |most: u64| json!({"coordinator": "es", "cluster_state": {"refresh": "1h"}, "dispatch": {"max_in_flight_per_node": most}});
    let mut harness = Harness::new(config(1));
    for caller in ["a", "b", "c"] {
        harness.request_with("/_bulk", &[("authorization", caller)], &index(&[id_on(0, 0)]));
    }
    harness.woken();
    assert_eq!(harness.calls.len(), 1);
    harness.engine.reconfigure(Rc::new(Config::read(config(2).to_string().as_bytes()).unwrap()));
    harness.woken();
    assert_eq!(harness.calls.len(), 2);
    harness.settle();
    assert_eq!(harness.replies.len(), 3);
    assert!(harness.engine.is_idle());
}

#[test]
fn a_change_of_missing_id_applies_to_later_requests() {
    let mut harness = harness(json!({"missing_id": "pass"}));
    let line = "{\"index\":{}}\n{}\n";
    let reading = harness.head("/i/_bulk", &[]);
    harness.data(reading, line, false);
    switch(&mut harness, json!({"missing_id": "generate"}));
    harness.data(reading, line, true);
    harness.woken();
    // Each request keeps one mode.
    assert_eq!(harness.calls[0].body, line.repeat(2).as_bytes());
    harness.settle();
    harness.request("/i/_bulk", line);
    harness.woken();
    assert!(harness.calls[0].body.starts_with(b"{\"index\":{\"_id\":\""));
}

#[test]
fn new_problems_are_logged_and_counted_once() {
    let mut harness = harness(json!({"hold": {"early_release": false, "interval": "1m"}}));
    small(&mut harness, 1);
    harness.woken();
    for _ in 0..2 {
        switch(&mut harness, json!({"interval": "soon", "max_in_flight": "17", "early_release": "true"}));
        assert_eq!(
            (harness.warnings.len(), harness.counts[&Counter::SwitchesInvalid]),
            (2, 2),
            "{:?}",
            harness.warnings
        );
    }
    assert!(harness.warnings[0].contains(".interval`") && harness.warnings[1].contains(".max_in_flight`"));
    // The other settings apply.
    assert_eq!(harness.calls.len(), 1);
    switch(&mut harness, json!({"interval": "later", "max_in_flight": "17"}));
    assert_eq!((harness.warnings.len(), harness.counts[&Counter::SwitchesInvalid]), (3, 3));
    switch(&mut harness, json!({}));
    // A warning may be repeated after a minute.
    harness.now += Duration::from_secs(60);
    harness.woken();
    switch(&mut harness, json!({"max_in_flight": "17"}));
    assert_eq!((harness.warnings.len(), harness.counts[&Counter::SwitchesInvalid]), (4, 4));
}
