use std::time::Duration;

use serde_json::json;

use super::harness::{Harness, header_map, id_on, index};
use crate::engine::command::RequestId;
use crate::engine::input::Input;
use crate::engine::pass_through::PassThrough;

const PATIENCE: Duration = Duration::from_millis(200);

fn body() -> String {
    index(&[id_on(0, 0)])
}

#[test]
fn headers_are_held_back_where_bodies_arrive() {
    let mut harness = Harness::new(json!({}));
    harness.request("/_bulk", &body());
    let slow = harness.head("/_bulk", &[]);
    harness.tick_after(10 * PATIENCE);
    assert!(harness.resumed.is_empty() && harness.headers_gone.is_empty());
    harness.data(slow, body(), true);
    harness.settle();
    assert_eq!(harness.items(slow), [(id_on(0, 0), 201)]);
}

#[test]
fn where_no_body_arrives_two_requests_and_later_headers_continue() {
    let mut harness = Harness::new(json!({"cluster_state": {"refresh": "1h"}}));
    let first = harness.head("/_bulk", &[]);
    harness.woken();
    assert!(harness.timer.is_some_and(|timer| timer <= PATIENCE));
    harness.tick_after(PATIENCE - Duration::from_millis(1));
    assert!(harness.resumed.is_empty());
    harness.tick_after(Duration::from_millis(1));
    assert_eq!(harness.resumed, [first]);
    assert_eq!(harness.passed_because(PassThrough::HeaderPause), 1);
    // The body was waiting behind the headers, or the client is slow.
    harness.data(first, "{}", false);
    assert_eq!(harness.passed[&first], b"{}");
    let second = harness.head("/_bulk", &[]);
    harness.tick_after(2 * PATIENCE - Duration::from_millis(1));
    assert_eq!(harness.resumed, [first]);
    harness.tick_after(Duration::from_millis(1));
    assert_eq!(harness.resumed, [first, second]);
    harness.data(second, "{}", false);
    harness.woken();
    assert_eq!(harness.warnings.len(), 1);
    let third = harness.request("/_bulk", &body());
    assert_eq!(harness.headers_gone, [third]);
    harness.woken();
    harness.settle();
    assert_eq!(harness.items(third), [(id_on(0, 0), 201)]);
}

#[test]
fn slow_clients_whose_bodies_take_as_long_as_the_patience_do_not_change_the_mode() {
    for late in [Duration::ZERO, Duration::from_millis(7), Duration::from_millis(20)] {
        let mut harness = Harness::new(json!({}));
        // They come together, so both are held back for the same time.
        let slow = [0, 1].map(|_| harness.head("/_bulk", &[]));
        harness.tick_after(PATIENCE);
        assert_eq!(harness.resumed, slow);
        harness.now += late;
        slow.iter().for_each(|id| harness.data(*id, body(), true));
        let next = harness.head("/_bulk", &[]);
        harness.tick_after(PATIENCE + late);
        harness.data(next, body(), true);
        harness.woken();
        harness.settle();
        assert_eq!(harness.items(next), [(id_on(0, 0), 201)]);
        assert!(harness.headers_gone.is_empty() && harness.warnings.is_empty(), "{late:?}");
    }
}

#[test]
fn a_slow_client_does_not_change_the_mode() {
    let mut harness = Harness::new(json!({}));
    let slow = harness.head("/_bulk", &[]);
    harness.tick_after(PATIENCE);
    assert_eq!(harness.resumed, [slow]);
    harness.now += Duration::from_millis(21);
    harness.data(slow, "{", false);
    assert_eq!(harness.passed[&slow], b"{");
    harness.head("/_bulk", &[]);
    assert!(harness.headers_gone.is_empty() && harness.warnings.is_empty());
}

#[test]
fn requests_that_end_without_a_body_do_no_harm() {
    let mut harness = Harness::new(json!({}));
    let (goes, leaves, ends) = (harness.head("/_bulk", &[]), harness.head("/_bulk", &[]), harness.head("/_bulk", &[]));
    harness.gone(goes);
    harness.tick_after(PATIENCE);
    assert_eq!(harness.resumed, [leaves, ends]);
    harness.gone(leaves);
    harness.stream(Input::RequestEnd { request: RequestId(ends) });
    assert_eq!(harness.passed[&ends], b"");
    harness.assert_idle();
}

#[test]
fn a_configured_mode_is_not_probed() {
    let mut harness = Harness::new(json!({"header_pause": "stop"}));
    harness.head("/_bulk", &[]);
    harness.tick_after(10 * PATIENCE);
    assert!(harness.resumed.is_empty() && harness.headers_gone.is_empty());
    let mut harness = Harness::new(json!({"header_pause": "buffer"}));
    let id = harness.request("/_bulk", &body());
    assert_eq!(harness.headers_gone, [id]);
    harness.woken();
    harness.settle();
    assert_eq!(harness.items(id), [(id_on(0, 0), 201)]);
}

#[test]
fn a_deletion_without_a_body_needs_no_pause_in_any_mode() {
    for mode in ["auto", "stop", "buffer"] {
        let mut harness = Harness::quiet(&json!({"single_documents": true, "header_pause": mode}));
        let path = format!("/i/_doc/{}", id_on(0, 0));
        let headers = header_map(&[(":method", "DELETE"), (":path", &path), (":authority", "es")]);
        for (id, end) in [(0, true), (1, false)] {
            let (request, headers, route) = (RequestId(id), headers.clone(), Some(b"es".to_vec()));
            harness.stream(Input::RequestHead { request, headers, route, end });
            // The body of the other one turns out to be empty.
            assert_eq!(harness.headers_gone.contains(&id), !end && mode == "buffer", "{mode}");
            if !end {
                harness.stream(Input::RequestEnd { request });
            }
            harness.woken();
            assert_eq!(harness.calls.len(), 1, "{mode}");
            harness.settle();
            assert_eq!(harness.replies[&id].status, 404, "{mode}");
        }
        harness.tick_after(10 * PATIENCE);
        assert!(harness.resumed.is_empty() && harness.passed.is_empty(), "{mode}");
        harness.finish();
    }
}
