use std::time::Duration;

use serde_json::{Value, json};

use super::failures::RESET;
use super::harness::{Harness, add_index, id_on, index, set_releases, state};
use crate::engine::metrics::Counter;
use crate::engine::pass_through::PassThrough;
use crate::routing::Unrouted;

fn item(action: &str, index: &str, id: &str, status: u16) -> Value {
    json!({action: {"_index": index, "_id": id, "status": status}})
}

/// Sends a request with two operations for es-0 and one for es-1, and lets es-0 answer with these items. Returns the
/// statuses that the client gets for the two operations.
fn answered(path: &str, items: &Value) -> (Harness, Vec<u64>) {
    answered_by(&state(), path, items)
}

/// Does the same in a cluster with this state.
fn answered_by(state: &Value, path: &str, items: &Value) -> (Harness, Vec<u64>) {
    let mut harness = Harness::knowing(json!({}), state);
    let id = harness.send(path, &index(&[id_on(0, 0), id_on(1, 0), id_on(0, 1)]));
    harness.answer_items("es-0", items);
    harness.settle();
    let statuses = harness.statuses(id);
    assert_eq!(statuses[1], 201);
    (harness, vec![statuses[0], statuses[2]])
}

/// Returns how many answers had items that did not match.
fn mismatched(harness: &Harness) -> u64 {
    harness.counted(|counter| matches!(counter, Counter::AnswersMismatched(_)))
}

#[test]
fn an_item_is_assigned_only_to_the_operation_that_it_identifies() {
    let (first, second) = (id_on(0, 0), id_on(0, 1));
    let good = |id: &str| item("index", "i", id, 201);
    for (items, expected) in [
        (json!([good(&second), good(&first)]), [201, 201]),
        (json!([good(&first)]), [201, 503]),
        (json!([good(&first), good(&second), good("more")]), [201, 201]),
        (json!([good(&first), item("create", "i", &second, 201)]), [201, 503]),
        (json!([good(&first), {"index": {"_index": "i", "status": 201}}]), [201, 503]),
        (json!([good(&first), good(&first), good(&second)]), [503, 201]),
        (json!([item("index", "j", &second, 201), item("index", "j", &first, 201)]), [503, 503]),
        (json!([{"index": {"_id": second, "status": 201}}, good(&first)]), [201, 503]),
        (json!([]), [503, 503]),
        (json!("none"), [503, 503]),
    ] {
        let (harness, statuses) = answered("/_bulk", &items);
        assert_eq!(statuses, expected, "{items}");
        let unknown = expected.iter().filter(|status| **status == 503).count();
        let counted = harness.counted(|counter| matches!(counter, Counter::OperationsUnknown(_)));
        assert_eq!(counted, unknown as u64, "{items}");
    }
}

#[test]
fn items_with_ids_of_a_new_pipeline_are_assigned_by_position_unless_something_shows_another_order() {
    let (first, second) = (id_on(0, 0), id_on(0, 1));
    let item = |id: &str, status: u16| item("index", "i", id, status);
    for (items, expected, expected_if_ordered) in [
        // All got ids of the pipeline.
        (json!([item("a", 201), item("b", 201)]), [201, 201], [201, 201]),
        (json!([item(&first, 201), item("b", 201)]), [201, 201], [201, 201]),
        // The document existed, failed or was dropped: releases that do not order items may have moved such an item.
        (json!([item("a", 201), item("b", 200)]), [503, 503], [201, 200]),
        (json!([item("a", 201), item("b", 400)]), [503, 503], [201, 400]),
        // An id of another operation shows another order, or the pipeline has chosen it.
        (json!([item("a", 201), item(&first, 201)]), [201, 503], [201, 503]),
        (json!([item(&second, 201), item("b", 201)]), [503, 201], [503, 201]),
        (json!([item("a", 201)]), [503, 503], [503, 503]),
        (json!([item("a", 201), item("b", 201), item("c", 201)]), [503, 503], [503, 503]),
        (json!([{"create": {"_index": "i", "_id": "a", "status": 201}}, item("b", 201)]), [503, 503], [503, 503]),
    ] {
        let mut state = state();
        assert_eq!(answered_by(&state, "/_bulk", &items).1, expected, "{items}");
        set_releases(&mut state, ["8.19.0"; 3]);
        assert_eq!(answered_by(&state, "/_bulk", &items).1, expected_if_ordered, "{items}");
    }
    // The next poll comes soon, so that it finds the pipeline.
    let (mut harness, _) = answered("/_bulk", &json!([item("a", 201), item("b", 201)]));
    harness.request("/_bulk", &index(&[id_on(0, 0)]));
    assert_eq!(harness.passed_because(PassThrough::Unrouted(Unrouted::Distrusted)), 1);
    harness.tick_after(Duration::from_secs(1));
    harness.load(&self::state());
    harness.request("/_bulk", &index(&[id_on(0, 0)]));
    assert_eq!(harness.passed_because(PassThrough::Unrouted(Unrouted::Distrusted)), 1);
}

#[test]
fn a_document_in_a_failure_store_has_another_id_and_index() {
    let (first, second) = (id_on(0, 0), id_on(0, 1));
    let redirected = |action: &str| {
        let store = json!({"_index": ".fs-i", "_id": "new", "failure_store": "used", "status": 201});
        json!({action: store})
    };
    let (harness, statuses) = answered("/_bulk", &json!([redirected("index"), item("index", "i", &second, 201)]));
    assert_eq!(statuses, [201, 201]);
    assert_eq!(mismatched(&harness), 0);
    for items in [
        json!([redirected("create"), item("index", "i", &second, 201)]),
        json!([redirected("index"), item("index", "i", &first, 201)]),
    ] {
        let (harness, _) = answered("/_bulk", &items);
        assert_eq!(mismatched(&harness), 1, "{items}");
    }
}

#[test]
fn identical_operations_are_not_distinguished() {
    let mut harness = Harness::new(json!({}));
    let twice = index(&[id_on(0, 0), id_on(0, 0), id_on(0, 1), id_on(1, 0)]);
    let id = harness.send("/_bulk", &twice);
    let (same, other) = (item("index", "i", &id_on(0, 0), 200), item("index", "i", &id_on(0, 1), 201));
    harness.answer_items("es-0", &json!([other, same, same]));
    harness.settle();
    assert_eq!(harness.statuses(id), [503, 503, 201, 201]);
}

#[test]
fn an_alias_is_identified_by_its_index() {
    let mut harness = Harness::new(json!({}));
    let lines = index(&[id_on(0, 0), id_on(1, 0), id_on(0, 1)]);
    let id = harness.send("/_bulk", &lines.replace("\"i\"", "\"a\""));
    let items = json!([item("index", "i", &id_on(0, 1), 201), item("index", "i", &id_on(0, 0), 200)]);
    harness.answer_items("es-0", &items);
    harness.settle();
    assert_eq!(harness.statuses(id), [200, 201, 201]);
}

#[test]
fn requests_for_the_index_pass_through_until_the_next_poll() {
    let (mut harness, _) = answered("/_bulk", &json!([item("index", "i", &id_on(0, 0), 201)]));
    assert_eq!(mismatched(&harness), 1);
    for name in ["i", "a"] {
        let body = index(&[id_on(0, 5)]).replace("\"i\"", &format!("\"{name}\""));
        harness.assert_passes("/_bulk", &body);
    }
    assert_eq!(harness.passed_because(PassThrough::Unrouted(Unrouted::Distrusted)), 2);
    harness.tick_after(Duration::from_secs(5));
    harness.load(&state());
    let id = harness.write(&[id_on(0, 5)]);
    harness.settle();
    assert_eq!(harness.items(id).len(), 1);
}

/// Creates a harness with an additional index "j" of the same kind as "i".
fn with_another_index() -> Harness {
    let mut state = state();
    add_index(&mut state, "j");
    Harness::knowing(json!({"cluster_state": {"refresh": "1h"}}), &state)
}

#[test]
fn requests_for_an_index_with_matching_items_are_still_merged() {
    let mut harness = with_another_index();
    let other = index(&[id_on(0, 2)]).replace("\"i\"", "\"j\"");
    harness.send("/_bulk", &(index(&[id_on(0, 0), id_on(0, 1), id_on(1, 0)]) + &other));
    let good = |index: &str, n: usize| item("index", index, &id_on(0, n), 201);
    let items = json!([good("i", 1), good("i", 0), good("j", 2)]);
    harness.answer_items("es-0", &items);
    let passes = |harness: &mut Harness, body: &str| {
        let id = harness.request("/_bulk", body);
        harness.passed.contains_key(&id)
    };
    assert!(passes(&mut harness, &index(&[id_on(0, 5)])));
    assert!(!passes(&mut harness, &other));
}

#[test]
fn missing_items_make_all_indices_of_the_batch_uncertain() {
    let mut harness = with_another_index();
    let other = index(&[id_on(0, 2)]).replace("\"i\"", "\"j\"");
    harness.send("/_bulk", &(index(&[id_on(0, 0), id_on(1, 0)]) + &other));
    let items = json!([item("index", "i", &id_on(0, 0), 201)]);
    harness.answer_items("es-0", &items);
    for body in [&index(&[id_on(0, 5)]), &other] {
        let id = harness.request("/_bulk", body);
        assert!(harness.passed.contains_key(&id), "{body}");
    }
}

#[test]
fn only_a_failure_after_a_lost_attempt_is_replaced_by_an_unknown_outcome() {
    for (lost, expected) in [(false, [409, 400, 201]), (true, [503, 400, 201])] {
        let mut harness = Harness::new(json!({"cluster_state": {"refresh": "1h"}}));
        let id = harness.write(&(0..3).map(|n| id_on(0, n)).chain([id_on(1, 0)]).collect::<Vec<_>>());
        harness.answer("es-1");
        if lost {
            harness.envoy_says("es-0", 503, RESET);
            harness.tick_after(Duration::from_millis(50));
        }
        let failed = |n: usize, status: u16| json!({"index": {"_index": "i", "_id": id_on(0, n), "status": status, "error": {"type": "t"}}});
        let items = json!([item("index", "i", &id_on(0, 2), 201), failed(1, 400), failed(0, 409)]);
        harness.answer_items("es-0", &items);
        let statuses = harness.statuses(id);
        assert_eq!(statuses[..3], expected, "{lost}");
    }
}

#[test]
fn the_answer_to_a_lone_request_is_forwarded_unchanged() {
    let (mut harness, id) = Harness::writing(json!({}), &[id_on(0, 0), id_on(0, 1)]);
    let answer = r#"{"took":1,"errors":true,"items":[{"index":{"_id":"x","status":429,"error":{}}}]}"#;
    harness.answer_with("es-0", 200, answer);
    assert_eq!(harness.replies[&id].body, answer.as_bytes());
}
