use serde_json::json;

use super::world::{World, id_on, index};
use crate::engine::command::{CallId, RequestId, Response};
use crate::engine::input::Input;

#[test]
fn a_client_that_disconnects_while_sending_leaves_nothing_behind() {
    let mut world = World::new(json!({}));
    let id = world.head("/_bulk", &[]);
    world.data(id, index(&[id_on(0, 0)]), false);
    world.gone(id);
    world.woken();
    assert!(world.calls.is_empty() && world.engine.is_idle());
    assert_eq!(world.engine.memory(), 0);
}

#[test]
fn a_request_whose_client_disconnects_while_it_is_held_is_not_sent() {
    let mut world = World::new(json!({"hold": {"flush_threshold_docs": 3}}));
    let first = world.request("/_bulk", &index(&[id_on(0, 0)]));
    world.woken();
    let (stays, goes) =
        (world.request("/_bulk", &index(&[id_on(0, 1)])), world.request("/_bulk", &index(&[id_on(0, 2), id_on(0, 3)])));
    world.gone(goes);
    world.answer("es-0");
    assert_eq!(world.calls[0].body, index(&[id_on(0, 1)]).into_bytes());
    world.settle();
    assert_eq!(world.replies.keys().copied().collect::<Vec<_>>(), [first, stays]);
    assert!(world.engine.is_idle());
}

#[test]
fn a_client_that_disconnects_before_dispatch_removes_its_hold() {
    let mut world = World::new(json!({"cluster_state": {"refresh": "1h"}}));
    let id = world.request("/_bulk", &index(&[id_on(0, 0)]));
    world.gone(id);
    assert!(world.engine.is_idle(), "its hold is still there");
    world.woken();
    assert!(world.calls.is_empty() && world.engine.is_idle());
}

#[test]
fn a_partly_dispatched_request_is_completed_after_its_client_disconnects() {
    let mut world = World::new(json!({}));
    world.request("/_bulk", &index(&[id_on(0, 9)]));
    world.woken();
    let goes = world.request("/_bulk", &index(&[id_on(0, 0), id_on(1, 0)]));
    world.woken();
    assert_eq!(world.upstreams(), ["es-0", "es-1"]);
    world.gone(goes);
    world.answer("es-0");
    assert_eq!(world.calls[1].body, index(&[id_on(0, 0)]).into_bytes());
    world.settle();
    assert!(!world.replies.contains_key(&goes));
    assert!(world.engine.is_idle());
}

#[test]
fn a_client_that_disconnects_before_its_reply_gets_none() {
    let mut world = World::new(json!({}));
    world.request("/_bulk", &index(&[id_on(0, 999)]));
    world.woken();
    let ids: Vec<_> = (0..70).map(|n| world.request("/_bulk", &index(&[id_on(0, n)]))).collect();
    world.answer("es-0");
    world.answer("es-0");
    let last = *ids.last().unwrap();
    assert!(!world.replies.contains_key(&last));
    world.gone(last);
    world.woken();
    assert!(!world.replies.contains_key(&last));
    assert!(world.engine.is_idle());
}

#[test]
fn inputs_for_finished_requests_and_calls_do_no_harm() {
    let mut world = World::new(json!({}));
    world.gone(77);
    world.data(77, "x", true);
    world.stream(Input::RequestEnd { request: RequestId(77) });
    world.root(Input::CallAnswered { call: CallId(99), response: Response::default() });
    world.root(Input::CallFailed { call: CallId(99) });
    world.root(Input::CallNotSent { call: CallId(99) });
    assert!(world.engine.is_idle());
}

#[test]
fn a_request_that_has_ended_accepts_no_more_data() {
    let mut world = World::new(json!({}));
    let id = world.request("/_bulk", &index(&[id_on(0, 0)]));
    world.data(id, index(&[id_on(1, 0)]), true);
    world.stream(Input::RequestEnd { request: RequestId(id) });
    world.woken();
    assert_eq!(world.upstreams(), ["es-0"]);
    world.settle();
    assert_eq!(world.items(id), [(id_on(0, 0), 201)]);
    assert!(world.engine.is_idle());
}

#[test]
fn a_body_may_end_with_trailers() {
    let mut world = World::new(json!({}));
    let id = world.head("/_bulk", &[]);
    world.data(id, index(&[id_on(0, 0)]), false);
    world.stream(Input::RequestEnd { request: RequestId(id) });
    world.woken();
    world.settle();
    assert_eq!(world.items(id), [(id_on(0, 0), 201)]);
}
