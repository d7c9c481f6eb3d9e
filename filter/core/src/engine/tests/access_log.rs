//! The fields of the access log.

use std::time::Duration;

use serde_json::json;

use super::harness::{Harness, id_on, index};

#[test]
fn no_fields_are_logged_unless_configured() {
    let mut harness = Harness::new(json!({}));
    harness.request("/_bulk", &index(&[id_on(0, 0)]));
    harness.send("/_bulk?pipeline=p", &index(&[id_on(0, 0)]));
    harness.settle();
    assert!(harness.access_log.is_empty());
}

#[test]
fn fields_are_logged_before_a_request_passes_through_or_is_answered() {
    let (mut harness, first) = Harness::writing(
        json!({"access_log": true, "cluster_state": {"refresh": "1h"}}),
        &[id_on(0, 0), id_on(0, 1), id_on(1, 0)],
    );
    let second = harness.request("/_bulk", &index(&[id_on(1, 0)]));
    let passed = harness.request("/_bulk?pipeline=p", &index(&[id_on(0, 0)]));
    harness.now += Duration::from_millis(7);
    harness.settle();
    harness.tick_after(Duration::from_millis(3));
    harness.settle();
    assert_eq!(harness.access_log[&first], ["outcome=merged", "operations=3", "shares=2", "held_microseconds=0"]);
    let held = harness.access_log[&second].last().unwrap();
    assert!(["held_microseconds=7000", "held_microseconds=10000"].contains(&held.as_str()), "{held}");
    assert_eq!(harness.access_log[&passed], ["outcome=passed_through", "reason=pipeline"]);
}
