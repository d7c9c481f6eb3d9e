//! The fields of the access log.

use std::time::Duration;

use serde_json::json;

use super::world::{World, id_on, index};

#[test]
fn no_fields_are_logged_unless_configured() {
    let mut world = World::new(json!({}));
    world.request("/_bulk", &index(&[id_on(0, 0)]));
    world.request("/_bulk?pipeline=p", &index(&[id_on(0, 0)]));
    world.woken();
    world.settle();
    assert!(world.notes.is_empty());
}

#[test]
fn fields_are_logged_before_a_request_passes_through_or_is_answered() {
    let mut world = World::new(json!({"access_log": true, "cluster_state": {"refresh": "1h"}}));
    let first = world.request("/_bulk", &index(&[id_on(0, 0), id_on(0, 1), id_on(1, 0)]));
    world.woken();
    let second = world.request("/_bulk", &index(&[id_on(1, 0)]));
    let passed = world.request("/_bulk?pipeline=p", &index(&[id_on(0, 0)]));
    world.now += Duration::from_millis(7);
    world.settle();
    world.tick_after(Duration::from_millis(3));
    world.settle();
    assert_eq!(world.notes[&first], ["outcome=merged", "operations=3", "shares=2", "held_microseconds=0"]);
    let held = world.notes[&second].last().unwrap();
    assert!(["held_microseconds=7000", "held_microseconds=10000"].contains(&held.as_str()), "{held}");
    assert_eq!(world.notes[&passed], ["outcome=passed_through", "reason=pipeline"]);
}
