//! Settings that change while requests are being handled.

use std::time::Duration;

use serde_json::{Value, json};

use super::admin::status;
use super::harness::{Harness, MILLISECOND, add_index, id_on, index, operation, state};
use crate::config::{Enabled, RuntimeSettings};
use crate::engine::metrics::Counter;
use crate::engine::pass_through::PassThrough;
use crate::routing::Unrouted;

/// Applies these run-time settings, in the form in which the cluster returns them.
fn switch(harness: &mut Harness, settings: Value) {
    let answer = json!({"persistent": {"cluster": {"metadata": {"bulk_reshuffle": settings}}}});
    let (settings, invalid) = RuntimeSettings::read(answer.to_string().as_bytes()).unwrap();
    harness.engine.apply_runtime_settings(settings, invalid, false);
    harness.woken();
}

#[test]
fn the_filter_reads_its_settings_from_the_cluster() {
    let mut known = state();
    known["settings"] = json!({"persistent": {"cluster": {"metadata": {"bulk_reshuffle": {"enabled": "false"}}}}});
    let mut harness = Harness::knowing(json!({}), &known);
    let off = harness.hold(0, 1);
    assert!(harness.passed.contains_key(&off[0]));
    assert_eq!(harness.passed_because(PassThrough::Disabled), 1);
}

#[test]
fn a_disabled_filter_accepts_nothing_and_loses_nothing() {
    let mut harness = Harness::quiet(&json!({"hold": {"early_release": false, "interval": "50ms"}}));
    let held = harness.hold(0, 2);
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
    assert_eq!(harness.operations(0), 3);
    harness.settle();
    for id in held.iter().chain([&reading]) {
        assert_eq!(harness.items(*id).len(), 1);
    }
    harness.assert_idle();
    switch(&mut harness, json!({}));
    let on = harness.hold(0, 1);
    assert!(!harness.passed.contains_key(&on[0]));
}

#[test]
fn the_filter_may_be_configured_off_until_it_is_enabled() {
    let mut harness = Harness::quiet(&json!({"enabled": false}));
    let off = harness.hold(0, 1);
    assert!(harness.passed.contains_key(&off[0]));
    assert_eq!(PassThrough::Disabled.name(), "switched_off");
    switch(&mut harness, json!({"enabled": "true"}));
    let on = harness.hold(0, 1);
    assert!(!harness.passed.contains_key(&on[0]));
    switch(&mut harness, json!({"interval": "1s", "enabled": "true"}));
    switch(&mut harness, json!({}));
    let logged = ["true", "false"]
        .map(|enabled| format!("`enabled` is {enabled} from now on, because the cluster's settings have changed"));
    assert_eq!(harness.warnings, logged);
    let (settings, invalid) = (RuntimeSettings { enabled: Some(Enabled::Yes), ..Default::default() }, Vec::new());
    harness.engine.apply_runtime_settings(settings, invalid, true);
    harness.woken();
    assert_eq!(harness.warnings.len(), 2, "another worker has logged this");
}

#[test]
fn requests_with_operations_on_a_disabled_index_pass_through() {
    let mut harness = Harness::quiet(&json!({"indices": [{"pattern": "a*", "enabled": false}]}));
    let fine = index(&[id_on(1, 0)]);
    let body = fine.clone() + &operation("delete", "a", &id_on(0, 0), &json!({}));
    harness.assert_passes("/_bulk", &body);
    let by_path = harness.request("/a/_bulk", "{\"index\":{}}\n{}\n");
    assert!(harness.passed.contains_key(&by_path));
    assert_eq!(harness.passed_because(PassThrough::Unrouted(Unrouted::Disabled)), 2);
    let id = harness.request("/_bulk", &fine);
    assert!(!harness.passed.contains_key(&id));
}

#[test]
fn a_shorter_interval_applies_to_held_shares() {
    let mut harness = Harness::quiet(&json!({"hold": {"early_release": false, "interval": "1m"}}));
    harness.hold(0, 1);
    harness.tick_after(30 * MILLISECOND);
    harness.write_each(0, 1);
    switch(&mut harness, json!({"interval": "50ms"}));
    assert_eq!((harness.calls.len(), harness.timer), (0, Some(20 * MILLISECOND)));
    harness.tick_after(20 * MILLISECOND);
    assert_eq!((harness.calls.len(), harness.operations(0)), (1, 2));
    harness.settle();
    // A hold that is overdue by the new rule leaves at once.
    switch(&mut harness, json!({"interval": "1m"}));
    harness.hold(0, 1);
    harness.tick_after(30 * MILLISECOND);
    switch(&mut harness, json!({"interval": "20ms"}));
    assert_eq!(harness.calls.len(), 1);
}

#[test]
fn a_longer_interval_applies_to_held_shares() {
    let mut harness = Harness::quiet(&json!({"hold": {"early_release": false, "interval": "50ms"}}));
    harness.write_each(0, 1);
    switch(&mut harness, json!({"interval": "80ms"}));
    harness.tick_after(50 * MILLISECOND);
    assert_eq!((harness.calls.len(), harness.timer), (0, Some(30 * MILLISECOND)));
    harness.tick_after(30 * MILLISECOND);
    assert_eq!(harness.calls.len(), 1);
}

#[test]
fn smaller_thresholds_apply_to_held_shares() {
    for threshold in [json!({"flush_threshold_docs": "2"}), json!({"flush_threshold_size": "100b"})] {
        let mut harness = Harness::quiet(&json!({"hold": {"early_release": false, "interval": "1m"}}));
        harness.write_each(0, 4);
        assert!(harness.calls.is_empty());
        switch(&mut harness, threshold);
        let size = harness.operations(0);
        assert!((1..=2).contains(&size), "{size}");
        harness.drain(|_| ());
        harness.tick_after(Duration::from_secs(60));
        harness.settle();
        assert_eq!(harness.replies.len(), 4);
    }
}

#[test]
fn early_release_lets_held_shares_leave_at_once() {
    let mut harness = Harness::quiet(&json!({"hold": {"early_release": false, "interval": "1m"}}));
    harness.write_each(0, 2);
    switch(&mut harness, json!({"early_release": "true"}));
    assert_eq!(harness.operations(0), 2);
}

#[test]
fn without_early_release_waiting_shares_wait_for_their_interval() {
    let mut harness = Harness::quiet(&json!({"hold": {"interval": "50ms"}}));
    harness.write_each(0, 1);
    let late = harness.hold(0, 1);
    // It was to leave with the answer. A hold that was to leave at once stays too.
    harness.request("/_bulk", &index(&[id_on(1, 0)]));
    switch(&mut harness, json!({"early_release": "false"}));
    assert_eq!(harness.upstreams(), ["es-0"]);
    harness.answer("es-0");
    assert!(harness.calls.is_empty());
    assert_eq!(harness.timer, Some(50 * MILLISECOND));
    harness.tick_after(50 * MILLISECOND);
    assert_eq!(harness.upstreams(), ["es-0", "es-1"]);
    harness.finish();
    assert_eq!(harness.items(late[0]).len(), 1);
}

#[test]
fn the_maximum_number_of_batches_in_flight_may_change() {
    let mut harness = Harness::quiet(&json!({"hold": {"flush_threshold_docs": 1}}));
    harness.write_each(0, 6);
    assert_eq!(harness.calls.len(), 1);
    switch(&mut harness, json!({"max_in_flight": "3"}));
    assert_eq!(harness.calls.len(), 3);
    switch(&mut harness, json!({"max_in_flight": "1"}));
    harness.answer("es-0");
    harness.answer("es-0");
    assert_eq!(harness.calls.len(), 1);
    harness.answer("es-0");
    assert_eq!(harness.calls.len(), 1);
    harness.finish();
    assert_eq!(harness.replies.len(), 6);
}

#[test]
fn a_ready_hold_stays_if_the_maximum_in_flight_is_lowered() {
    let config = json!({"hold": {"flush_threshold_docs": 1}, "dispatch": {"max_in_flight": 2}});
    let mut harness = Harness::quiet(&config);
    harness.write_each(0, 1);
    // The batch is ready, but was not polled yet.
    let ready = harness.hold(0, 1);
    switch(&mut harness, json!({"max_in_flight": "1"}));
    assert_eq!(harness.calls.len(), 1);
    harness.finish();
    assert_eq!(harness.items(ready[0]).len(), 1);
}

#[test]
fn a_node_with_more_slots_gets_waiting_batches() {
    let config = |most: u64| json!({"cluster_state": {"refresh": "1h"}, "dispatch": {"max_in_flight_per_node": most}});
    let mut harness = Harness::new(config(1));
    for caller in ["a", "b", "c"] {
        harness.request_with("/_bulk", &[("authorization", caller)], &index(&[id_on(0, 0)]));
    }
    harness.woken();
    assert_eq!(harness.calls.len(), 1);
    harness.reconfigure(&config(2));
    assert_eq!(harness.calls.len(), 2);
    harness.finish();
    assert_eq!(harness.replies.len(), 3);
}

#[test]
fn a_change_of_missing_id_applies_to_later_requests() {
    let mut harness = Harness::quiet(&json!({"missing_id": "pass"}));
    let line = "{\"index\":{}}\n{}\n";
    let reading = harness.head("/i/_bulk", &[]);
    harness.data(reading, line, false);
    switch(&mut harness, json!({"missing_id": "generate"}));
    harness.data(reading, line, true);
    harness.woken();
    // Each request keeps one mode.
    assert_eq!(harness.calls[0].body, line.repeat(2).as_bytes());
    harness.settle();
    harness.send("/i/_bulk", line);
    assert!(harness.calls[0].body.starts_with(b"{\"index\":{\"_id\":\""));
}

/// Returns the numbers of warnings and of invalid settings.
fn problems(harness: &Harness) -> (usize, u64) {
    (harness.warnings.len(), harness.counts[&Counter::SwitchesInvalid])
}

#[test]
fn new_problems_are_logged_and_counted_once() {
    let mut harness = Harness::quiet(&json!({"hold": {"early_release": false, "interval": "1m"}}));
    harness.write_each(0, 1);
    for _ in 0..2 {
        switch(&mut harness, json!({"interval": "soon", "max_in_flight": "17", "early_release": "true"}));
        assert_eq!(problems(&harness), (2, 2), "{:?}", harness.warnings);
    }
    assert!(harness.warnings[0].contains(".interval`") && harness.warnings[1].contains(".max_in_flight`"));
    // The other settings apply.
    assert_eq!(harness.calls.len(), 1);
    switch(&mut harness, json!({"interval": "later", "max_in_flight": "17"}));
    assert_eq!(problems(&harness), (3, 3));
    switch(&mut harness, json!({}));
    // A warning may be repeated after a minute.
    harness.now += Duration::from_secs(60);
    harness.woken();
    switch(&mut harness, json!({"max_in_flight": "17"}));
    assert_eq!(problems(&harness), (4, 4));
}

/// Returns a harness whose cluster has this many indices with an invalid setting in their mappings.
fn with_invalid_mappings(count: usize) -> Harness {
    let mut state = state();
    for number in 0..count {
        let index = add_index(&mut state, &format!("m{number:02}"));
        let settings = json!({"enabled": "no", "missing_id": "pass"});
        index["mappings"] = json!({"_doc": {"_meta": {"bulk_reshuffle": settings}}});
    }
    let mut harness = Harness::without_state(json!({"admin_path": "/_bulk_reshuffle"}));
    harness.request("/_bulk", "");
    harness.load(&state);
    harness
}

#[test]
fn an_invalid_setting_in_a_mapping_is_logged_counted_and_listed() {
    let mut harness = with_invalid_mappings(1);
    assert_eq!(problems(&harness), (1, 1), "{:?}", harness.warnings);
    let told = "index `m00`: the mapping's setting `_meta.bulk_reshuffle.enabled` is ignored: expected a boolean or \"observe\", \
        found \"no\"";
    assert_eq!(harness.warnings, [told]);
    switch(&mut harness, json!({"interval": "soon"}));
    let status = status(&mut harness);
    let listed = status["ignored_switches"].as_array().unwrap();
    assert!(
        listed[0].as_str().unwrap().starts_with("the cluster's setting `cluster.metadata.bulk_reshuffle.interval`")
    );
    assert_eq!((listed.len(), &listed[1], &status["ignored_switches_left_out"]), (2, &json!(told), &json!(0)));
    // The other setting in the mapping applies.
    let line = "{\"index\":{}}\n{}\n";
    harness.send("/m00/_bulk", line);
    assert_eq!(harness.calls[0].body, line.as_bytes());
}

#[test]
fn the_status_lists_a_bounded_number_of_ignored_settings() {
    let mut harness = with_invalid_mappings(14);
    assert_eq!(harness.counts[&Counter::SwitchesInvalid], 14);
    let all = status(&mut harness);
    let listed = all["ignored_switches"].as_array().unwrap();
    assert_eq!((listed.len(), &all["ignored_switches_left_out"]), (10, &json!(4)));
    assert!(listed[9].as_str().unwrap().starts_with("index `m09`: "));
    let unknown: Value = (0..12).map(|number| (format!("x{number:02}"), json!("1"))).collect();
    switch(&mut harness, unknown);
    let all = status(&mut harness);
    let listed = all["ignored_switches"].as_array().unwrap();
    assert_eq!((listed.len(), &all["ignored_switches_left_out"]), (10, &json!(2 + 14)));
    assert!(listed[9].as_str().unwrap().contains(".x09`"));
}
