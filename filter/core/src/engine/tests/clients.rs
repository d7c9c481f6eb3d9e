use serde_json::json;

use super::harness::{Harness, id_on, index};
use crate::engine::command::{CallId, RequestId, Response};
use crate::engine::input::Input;

#[test]
fn a_client_that_disconnects_while_sending_leaves_nothing_behind() {
    let mut harness = Harness::new(json!({}));
    let id = harness.head("/_bulk", &[]);
    harness.data(id, index(&[id_on(0, 0)]), false);
    harness.gone(id);
    harness.woken();
    assert!(harness.calls.is_empty() && harness.engine.is_idle());
    assert_eq!(harness.engine.memory(), 0);
}

#[test]
fn a_request_whose_client_disconnects_while_it_is_held_is_not_sent() {
    let (mut harness, first) = Harness::writing(json!({"hold": {"flush_threshold_docs": 3}}), &[id_on(0, 0)]);
    let (stays, goes) = (
        harness.request("/_bulk", &index(&[id_on(0, 1)])),
        harness.request("/_bulk", &index(&[id_on(0, 2), id_on(0, 3)])),
    );
    harness.gone(goes);
    harness.answer("es-0");
    assert_eq!(harness.bodies()[0], index(&[id_on(0, 1)]));
    harness.finish();
    assert_eq!(harness.replies.keys().copied().collect::<Vec<_>>(), [first, stays]);
}

#[test]
fn a_client_that_disconnects_before_dispatch_removes_its_hold() {
    let mut harness = Harness::new(json!({"cluster_state": {"refresh": "1h"}}));
    let id = harness.request("/_bulk", &index(&[id_on(0, 0)]));
    harness.gone(id);
    assert!(harness.engine.is_idle(), "its hold is still there");
    harness.woken();
    assert!(harness.calls.is_empty() && harness.engine.is_idle());
}

#[test]
fn a_partly_dispatched_request_is_completed_after_its_client_disconnects() {
    let mut harness = Harness::new(json!({}));
    harness.write(&[id_on(0, 9)]);
    let goes = harness.write(&[id_on(0, 0), id_on(1, 0)]);
    assert_eq!(harness.upstreams(), ["es-0", "es-1"]);
    harness.gone(goes);
    harness.answer("es-0");
    assert_eq!(harness.bodies()[1], index(&[id_on(0, 0)]));
    harness.finish();
    assert!(!harness.replies.contains_key(&goes));
}

#[test]
fn a_client_that_disconnects_before_its_reply_gets_none() {
    let mut harness = Harness::new(json!({}));
    harness.write(&[id_on(0, 999)]);
    let ids: Vec<_> = (0..70).map(|n| harness.request("/_bulk", &index(&[id_on(0, n)]))).collect();
    harness.answer("es-0");
    harness.answer("es-0");
    let last = *ids.last().unwrap();
    assert!(!harness.replies.contains_key(&last));
    harness.gone(last);
    harness.woken();
    assert!(!harness.replies.contains_key(&last));
    harness.assert_idle();
}

#[test]
fn inputs_for_finished_requests_and_calls_do_no_harm() {
    let mut harness = Harness::new(json!({}));
    harness.gone(77);
    harness.data(77, "x", true);
    harness.stream(Input::RequestEnd { request: RequestId(77) });
    harness.root(Input::CallAnswered { call: CallId(99), response: Response::default() });
    harness.root(Input::CallFailed { call: CallId(99) });
    harness.root(Input::CallNotSent { call: CallId(99), has_upstream: true });
    harness.assert_idle();
}

#[test]
fn a_request_that_has_ended_accepts_no_more_data() {
    let mut harness = Harness::new(json!({}));
    let id = harness.request("/_bulk", &index(&[id_on(0, 0)]));
    harness.data(id, index(&[id_on(1, 0)]), true);
    harness.stream(Input::RequestEnd { request: RequestId(id) });
    harness.woken();
    assert_eq!(harness.upstreams(), ["es-0"]);
    harness.finish();
    assert_eq!(harness.items(id), [(id_on(0, 0), 201)]);
}

#[test]
fn a_body_may_end_with_trailers() {
    let mut harness = Harness::new(json!({}));
    let id = harness.head("/_bulk", &[]);
    harness.data(id, index(&[id_on(0, 0)]), false);
    harness.stream(Input::RequestEnd { request: RequestId(id) });
    harness.woken();
    harness.settle();
    assert_eq!(harness.items(id), [(id_on(0, 0), 201)]);
}
