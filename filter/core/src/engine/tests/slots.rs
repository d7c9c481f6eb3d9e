//! The slots of a node (`dispatch.max_in_flight_per_node`) and their distribution.

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Harness, id_on, index, state, with};
use crate::engine::metrics::{Counter, Gauge};

/// The default `hold.interval` of these tests.
const INTERVAL: Duration = Duration::from_millis(50);

const JUST_BEFORE: Duration = Duration::from_millis(49);

fn quiet(config: &Value) -> Harness {
    // Late batches would give their slots back.
    Harness::quiet(&with(json!({"hold": {"late_after": "1h"}}), config))
}

/// Sends a request to es-0 with this identity. Each number has a separate caller.
fn ask(harness: &mut Harness, path: &str, identity: &str, caller: usize) -> u32 {
    let headers = [("authorization", identity), ("x-opaque-id", &caller.to_string())];
    harness.send_with(path, &headers, &index(&[id_on(0, caller % 4)]))
}

/// Sends a request from each of this many callers.
fn ask_all(harness: &mut Harness, path: &str, identity: &str, callers: usize) {
    for caller in 0..callers {
        ask(harness, path, identity, caller);
    }
}

/// Returns the identity and the caller's number of each call in flight.
fn in_flight(harness: &Harness) -> Vec<(String, usize)> {
    let calls = harness.calls.iter().map(|call| {
        let value = |wanted: &str| call.headers.iter().find(|(name, _)| name == wanted).unwrap().1.clone();
        (value("authorization"), value("x-opaque-id").parse().unwrap())
    });
    calls.collect()
}

fn count(harness: &Harness, identity: &str) -> usize {
    in_flight(harness).iter().filter(|(of, _)| of == identity).count()
}

#[test]
fn slots_of_others_are_waited_for_no_longer_than_an_interval() {
    let mut harness = quiet(&json!({"dispatch": {"max_in_flight_per_node": 4}}));
    ask_all(&mut harness, "/_bulk", "many", 64);
    assert_eq!(count(&harness, "many"), 4);
    harness.now += Duration::from_millis(10);
    let other = ask(&mut harness, "/_bulk", "other", 0);
    assert_eq!(count(&harness, "other"), 0);
    harness.tick_after(JUST_BEFORE);
    assert_eq!(harness.calls.len(), 4);
    harness.tick_after(Duration::from_millis(1));
    // However long the others are held, no identity exceeds the number of slots.
    assert_eq!(["many", "other"].map(|identity| count(&harness, identity)), [4, 1]);
    let call = harness.calls.pop().unwrap();
    harness.calls.insert(0, call);
    harness.answer("es-0");
    assert_eq!(harness.items(other).len(), 1);
    for _ in 0..60 {
        assert_eq!(count(&harness, "many"), 4);
        harness.answer("es-0");
    }
    harness.finish();
}

#[test]
fn occupied_slots_set_a_timer_for_the_engine() {
    let mut harness = quiet(&json!({"dispatch": {"max_in_flight_per_node": 1}}));
    ask(&mut harness, "/_bulk", "one", 0);
    harness.timer = None;
    ask(&mut harness, "/_bulk", "two", 0);
    assert_eq!(harness.timer, Some(INTERVAL));
    // An identity at its maximum sets no timer.
    harness.tick_after(INTERVAL);
    assert_eq!(harness.calls.len(), 2);
    harness.timer = None;
    ask(&mut harness, "/_bulk", "two", 1);
    harness.tick_after(INTERVAL);
    assert!(harness.timer.is_none_or(|timer| timer > Duration::from_secs(1)), "{:?}", harness.timer);
    harness.finish();
}

#[test]
fn slots_are_assigned_round_robin_by_identity_not_by_caller() {
    let mut harness = quiet(&json!({"dispatch": {"max_in_flight_per_node": 1}}));
    ask_all(&mut harness, "/_bulk", "greedy", 4);
    ask_all(&mut harness, "/_bulk", "modest", 2);
    let turns = harness.drain(in_flight);
    let expected = [("greedy", 0), ("greedy", 1), ("modest", 0), ("greedy", 2), ("modest", 1), ("greedy", 3)];
    assert_eq!(turns, expected.map(|(identity, caller)| [(identity.to_owned(), caller)]));
    harness.assert_idle();
}

#[test]
fn slots_are_shared_at_once_by_requests_that_arrive_together() {
    let mut harness = quiet(&json!({"dispatch": {"max_in_flight_per_node": 4}}));
    for (identity, callers) in [("many", 8), ("few", 2)] {
        for caller in 0..callers {
            let headers = [("authorization", identity), ("x-opaque-id", &caller.to_string())];
            harness.request_with("/_bulk", &headers, &index(&[id_on(0, 0)]));
        }
    }
    harness.woken();
    assert_eq!(["many", "few"].map(|identity| count(&harness, identity)), [2, 2]);
    harness.finish();
}

#[test]
fn requests_that_ask_the_cluster_to_wait_use_separate_slots() {
    for query in ["refresh=wait_for", "wait_for_active_shards=all", "timeout=1m&wait_for_active_shards=1"] {
        let mut harness = quiet(&json!({"dispatch": {"max_in_flight_per_node": 4}}));
        let path = format!("/_bulk?{query}");
        ask_all(&mut harness, &path, "many", 64);
        assert_eq!(count(&harness, "many"), 4);
        // This request has the same identity, but does not wait.
        ask(&mut harness, "/_bulk?refresh=true", "many", 100);
        assert_eq!(count(&harness, "many"), 5);
        ask(&mut harness, &path, "other", 0);
        assert_eq!(count(&harness, "other"), 0);
        harness.tick_after(INTERVAL);
        assert_eq!(["many", "other"].map(|identity| count(&harness, identity)), [5, 1]);
        harness.finish();
        assert_eq!(harness.replies.len(), 66);
    }
}

#[test]
fn a_single_identity_never_exceeds_the_slots() {
    let mut harness = quiet(&json!({"dispatch": {"max_in_flight_per_node": 2, "identity": []}}));
    for identity in ["a", "b", "c"] {
        ask(&mut harness, "/_bulk", identity, 0);
    }
    harness.tick_after(10 * INTERVAL);
    assert_eq!(harness.calls.len(), 2);
    harness.settle();
    assert_eq!(harness.replies.len(), 3);
}

#[test]
fn slots_are_shared_by_the_configured_header() {
    let mut harness = quiet(&json!({"dispatch": {"max_in_flight_per_node": 1, "identity": ["x-opaque-id"]}}));
    ask(&mut harness, "/_bulk", "a", 1);
    ask(&mut harness, "/_bulk", "b", 1);
    ask(&mut harness, "/_bulk", "a", 2);
    harness.tick_after(INTERVAL);
    assert_eq!(in_flight(&harness), [("a".to_owned(), 1), ("a".to_owned(), 2)]);
}

#[test]
fn a_hold_of_several_batches_does_not_wait_an_interval_for_each() {
    let config = json!({
        "hold": {"flush_threshold_docs": 1}, "dispatch": {"max_in_flight": 3, "max_in_flight_per_node": 3},
    });
    let mut harness = quiet(&config);
    ask_all(&mut harness, "/_bulk", "many", 3);
    for _ in 0..3 {
        ask(&mut harness, "/_bulk", "other", 0);
    }
    assert_eq!(["many", "other"].map(|identity| count(&harness, identity)), [3, 0]);
    harness.tick_after(INTERVAL);
    assert_eq!(["many", "other"].map(|identity| count(&harness, identity)), [3, 3]);
    harness.finish();
}

#[test]
fn entries_held_for_an_interval_do_not_wait_for_slots() {
    let config = json!({"hold": {"early_release": false}, "dispatch": {"max_in_flight_per_node": 1}});
    let mut harness = quiet(&config);
    for identity in ["one", "two"] {
        ask(&mut harness, "/_bulk", identity, 0);
    }
    harness.tick_after(INTERVAL);
    assert_eq!(harness.calls.len(), 2);
}

#[test]
fn retries_do_not_exceed_the_slots_of_an_identity() {
    let mut harness = quiet(&json!({"dispatch": {"max_in_flight_per_node": 2}}));
    ask_all(&mut harness, "/_bulk", "many", 8);
    for _ in 0..4 {
        harness.answer_with("es-0", 429, "{}");
        assert_eq!(count(&harness, "many"), 2);
    }
    // Four retries are due, and four requests have never left.
    harness.tick_after(Duration::from_secs(1));
    assert_eq!(count(&harness, "many"), 2);
    ask(&mut harness, "/_bulk", "other", 0);
    harness.tick_after(INTERVAL);
    assert_eq!(["many", "other"].map(|identity| count(&harness, identity)), [2, 1]);
    harness.finish();
    assert_eq!(harness.replies.len(), 9);
}

#[test]
fn changing_the_number_of_slots_keeps_the_count_correct() {
    let config = |most: u64, interval: &str| {
        json!({
            "cluster_state": {"refresh": "1h"}, "hold": {"interval": interval},
            "dispatch": {"max_in_flight_per_node": most},
        })
    };
    let mut harness = Harness::new(config(2, "1h"));
    for identity in ["one", "two"] {
        ask_all(&mut harness, "/_bulk", identity, 4);
    }
    assert_eq!(["one", "two"].map(|identity| count(&harness, identity)), [2, 0]);
    harness.reconfigure(&config(3, "1h"));
    assert_eq!(harness.calls.len(), 3);
    harness.reconfigure(&config(1, "1h"));
    harness.answer("es-0");
    harness.answer("es-0");
    assert_eq!(harness.calls.len(), 1);
    // Everything that may be held for at most an hour is overdue now.
    harness.now += Duration::from_secs(1);
    harness.reconfigure(&config(1, "50ms"));
    assert_eq!(["one", "two"].map(|identity| count(&harness, identity)), [1, 1]);
    harness.finish();
    assert_eq!(harness.replies.len(), 8);
}

#[test]
fn slots_of_a_node_that_has_left_block_nothing() {
    let mut harness = quiet(&json!({"dispatch": {"max_in_flight_per_node": 1}}));
    let paths = ["/_bulk", "/_bulk?refresh=wait_for"];
    for path in paths {
        ask_all(&mut harness, path, "many", 3);
    }
    assert_eq!(harness.upstreams(), ["es-0", "es-0"]);
    let gone = harness.upstream("es-0");
    harness.engine.redirect_from(&[gone]);
    harness.woken();
    assert_eq!(harness.upstreams(), ["es-0", "es-0", "es", "es"]);
    harness.tick_after(INTERVAL);
    assert_eq!(harness.calls.len(), 4);
    harness.load(&state());
    harness.finish();
    assert_eq!(harness.replies.len(), 6);
}

#[test]
fn clients_that_disconnect_do_not_leak_slots() {
    let mut harness = quiet(&json!({"dispatch": {"max_in_flight_per_node": 1}}));
    ask(&mut harness, "/_bulk", "many", 0);
    let leavers: Vec<_> = (1..10).map(|caller| ask(&mut harness, "/_bulk", "many", caller)).collect();
    let stays = ask(&mut harness, "/_bulk", "many", 10);
    let other = ask(&mut harness, "/_bulk", "other", 0);
    leavers.into_iter().for_each(|id| harness.gone(id));
    harness.answer("es-0");
    assert_eq!(in_flight(&harness), [("many".to_owned(), 10)]);
    harness.finish();
    assert_eq!((harness.items(stays).len(), harness.items(other).len()), (1, 1));
}

/// Returns the number of slots of es-0.
fn slots(harness: &Harness) -> u64 {
    harness.engine.gauges()[&Gauge::Slots(harness.upstream("es-0"))]
}

fn halved(harness: &Harness) -> u64 {
    harness.counted(|counter| matches!(counter, Counter::SlotsHalved(_)))
}

#[test]
fn a_node_gets_more_batches_at_once_as_long_as_it_answers_quickly() {
    let mut harness = quiet(&json!({}));
    ask_all(&mut harness, "/_bulk", "many", 200);
    let in_flight = harness.drain(|harness| harness.calls.len());
    assert_eq!(in_flight[..4], [4, 4, 4, 4]);
    assert_eq!(in_flight[4..9], [5; 5]);
    assert_eq!(in_flight[9..15], [6; 6]);
    assert_eq!(in_flight.iter().max(), Some(&16));
    assert_eq!((slots(&harness), halved(&harness)), (16, 0));
    harness.assert_idle();
}

/// The answer to a batch of one operation.
fn refused_with(status: u16, error: &str) -> String {
    let error = json!({"type": error, "reason": "r"});
    json!({"took": 1, "errors": true, "items": [{"index": {"_index": "i", "status": status, "error": error}}]})
        .to_string()
}

#[test]
fn an_overloaded_node_gets_half_as_many_batches_at_once() {
    const FULL: &str = "rejected_execution_exception";
    let whole = |error: &str| json!({"status": 429, "error": {"type": error, "reason": "r"}}).to_string();
    let cases = [
        (200, refused_with(429, "es_rejected_execution_exception"), 2),
        (200, refused_with(429, FULL), 2),
        (200, refused_with(429, "circuit_breaking_exception"), 2),
        (429, whole(FULL), 2),
        (504, "upstream request timeout".to_owned(), 2),
        // The index, the caller or the document is the reason.
        (200, refused_with(429, "cluster_block_exception"), 5),
        (200, refused_with(400, FULL), 5),
        (429, whole("too_many_requests"), 4),
        (403, whole(FULL), 4),
    ];
    for (status, answer, expected) in cases {
        let mut harness = quiet(&json!({"retry": {"attempts": 0}}));
        ask_all(&mut harness, "/_bulk", "many", 12);
        harness.now += Duration::from_millis(1);
        for _ in 0..4 {
            match status {
                504 => harness.envoy_says("es-0", status, &answer),
                _ => harness.answer_with("es-0", status, &answer),
            }
        }
        assert_eq!(slots(&harness), expected, "{status} {answer}");
        assert_eq!(halved(&harness), u64::from(expected < 4), "{status} {answer}");
        // An identity may have as many batches in flight as there are slots, however long it waits.
        harness.tick_after(INTERVAL);
        assert_eq!(harness.calls.len() as u64, expected, "{status} {answer}");
        harness.settle();
        assert_eq!(harness.replies.len(), 12, "{status} {answer}");
    }
}

#[test]
fn others_wait_no_longer_than_an_interval_for_the_slots_of_an_overloaded_node() {
    let mut harness = quiet(&json!({"retry": {"attempts": 0}}));
    for refused in 0..3 {
        harness.now += Duration::from_millis(1);
        ask(&mut harness, "/_bulk", "many", refused);
        harness.now += Duration::from_millis(1);
        harness.answer_with("es-0", 200, &refused_with(429, "rejected_execution_exception"));
    }
    assert_eq!(slots(&harness), 1);
    ask_all(&mut harness, "/_bulk", "many", 4);
    ask(&mut harness, "/_bulk", "other", 0);
    assert_eq!(["many", "other"].map(|identity| count(&harness, identity)), [1, 0]);
    harness.tick_after(INTERVAL);
    assert_eq!(["many", "other"].map(|identity| count(&harness, identity)), [1, 1]);
    harness.finish();
}
