use std::time::Duration;

use serde_json::json;

use super::world::{World, id_on, index};
use crate::engine::command::RequestId;
use crate::engine::input::Input;
use crate::engine::pass_through::PassThrough;

const PATIENCE: Duration = Duration::from_millis(200);

fn body() -> String {
    index(&[id_on(0, 0)])
}

#[test]
fn headers_are_held_back_where_bodies_arrive() {
    let mut world = World::new(json!({}));
    world.request("/_bulk", &body());
    let slow = world.head("/_bulk", &[]);
    world.tick_after(10 * PATIENCE);
    assert!(world.resumed.is_empty() && world.headers_gone.is_empty());
    world.data(slow, body(), true);
    world.settle();
    assert_eq!(world.items(slow), [(id_on(0, 0), 201)]);
}

#[test]
fn where_no_body_arrives_the_request_and_later_headers_continue() {
    let mut world = World::new(json!({"cluster_state": {"refresh": "1h"}}));
    let first = world.head("/_bulk", &[]);
    world.woken();
    assert!(world.timer.is_some_and(|timer| timer <= PATIENCE));
    world.tick_after(PATIENCE - Duration::from_millis(1));
    assert!(world.resumed.is_empty());
    world.tick_after(Duration::from_millis(1));
    assert_eq!(world.resumed, [first]);
    assert_eq!(world.passed_because(PassThrough::HeaderPause), 1);
    // The body was waiting behind the headers.
    world.data(first, "{}", false);
    assert_eq!(world.passed[&first], b"{}");
    world.woken();
    assert_eq!(world.warnings.len(), 1);
    let second = world.request("/_bulk", &body());
    assert_eq!(world.headers_gone, [second]);
    world.woken();
    world.settle();
    assert_eq!(world.items(second), [(id_on(0, 0), 201)]);
    assert!(world.engine.is_idle());
}

#[test]
fn a_slow_client_does_not_change_the_mode() {
    let mut world = World::new(json!({}));
    let slow = world.head("/_bulk", &[]);
    world.tick_after(PATIENCE);
    assert_eq!(world.resumed, [slow]);
    world.now += Duration::from_millis(21);
    world.data(slow, "{", false);
    assert_eq!(world.passed[&slow], b"{");
    world.head("/_bulk", &[]);
    assert!(world.headers_gone.is_empty() && world.warnings.is_empty());
}

#[test]
fn requests_that_end_without_a_body_do_no_harm() {
    let mut world = World::new(json!({}));
    let (goes, leaves, ends) = (world.head("/_bulk", &[]), world.head("/_bulk", &[]), world.head("/_bulk", &[]));
    world.gone(goes);
    world.tick_after(PATIENCE);
    assert_eq!(world.resumed, [leaves, ends]);
    world.gone(leaves);
    world.stream(Input::RequestEnd { request: RequestId(ends) });
    assert_eq!(world.passed[&ends], b"");
    assert!(world.engine.is_idle());
    assert_eq!(world.engine.memory(), 0);
}

#[test]
fn a_configured_mode_is_not_probed() {
    let mut world = World::new(json!({"header_pause": "stop"}));
    world.head("/_bulk", &[]);
    world.tick_after(10 * PATIENCE);
    assert!(world.resumed.is_empty() && world.headers_gone.is_empty());
    let mut world = World::new(json!({"header_pause": "buffer"}));
    let id = world.request("/_bulk", &body());
    assert_eq!(world.headers_gone, [id]);
    world.woken();
    world.settle();
    assert_eq!(world.items(id), [(id_on(0, 0), 201)]);
}
