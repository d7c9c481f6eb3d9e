use std::time::Duration;

use serde_json::json;

use super::harness::{Harness, MILLISECOND, id_on, index, with};
use crate::engine::metrics::Counter;

#[test]
fn requests_that_arrive_while_a_batch_is_in_flight_leave_together() {
    let mut harness = Harness::new(json!({}));
    let first = harness.write_each(0, 1);
    let second = harness.write_each(0, 100);
    assert_eq!((harness.upstreams(), harness.operations(0)), (vec!["es-0"], 1));
    harness.answer("es-0");
    assert_eq!((harness.upstreams(), harness.operations(0)), (vec!["es-0"], 100));
    assert!(harness.replies.contains_key(&first[0]));
    harness.settle();
    for (n, id) in second.iter().enumerate() {
        assert_eq!(harness.items(*id), [(id_on(0, n), 201)]);
    }
    assert_eq!(harness.counts[&Counter::Batches(harness.upstream("es-0"))], 2);
}

/// Returns the number of requests in each batch of 20 clients, each of which sends its next request a tenth of a batch's
/// time after its answer.
fn batches_of_20_clients(gather: &str, tenth: Duration) -> (Harness, Vec<usize>) {
    let mut harness = Harness::new(json!({"hold": {"gather": gather}}));
    harness.write_each(0, 1);
    harness.hold(0, 19);
    let mut batches = Vec::new();
    for _ in 0..20 {
        let size = harness.operations(0);
        batches.push(size);
        harness.now += 10 * tenth;
        harness.answer("es-0");
        harness.now += tenth;
        harness.write_each(0, size);
        harness.tick_after(3 * tenth);
        assert_eq!(harness.calls.len(), 1);
    }
    (harness, batches)
}

#[test]
fn clients_that_were_answered_leave_with_those_that_waited() {
    for tenth in [MILLISECOND, 3 * MILLISECOND] {
        let (_, with) = batches_of_20_clients("2ms", tenth);
        assert!(with.iter().skip(10).all(|size| *size == 20), "{with:?}");
        let (_, without) = batches_of_20_clients("0ms", tenth);
        assert!(without.iter().skip(10).all(|size| *size < 20), "{without:?}");
    }
}

#[test]
fn the_wait_for_clients_that_do_not_return_is_bounded() {
    let (mut harness, _) = batches_of_20_clients("2ms", MILLISECOND);
    // The batch in flight was sent three milliseconds ago.
    harness.now += 37 * MILLISECOND;
    harness.answer("es-0");
    harness.write_each(0, 3);
    assert_eq!((harness.calls.len(), harness.timer), (0, Some(10 * MILLISECOND)));
    harness.tick_after(10 * MILLISECOND);
    assert_eq!(harness.operations(0), 3);
    // No client returns from now on.
    harness.now += MILLISECOND;
    harness.answer("es-0");
    harness.tick_after(MILLISECOND);
    harness.assert_idle();
    assert!(!has_holds(&harness), "a hold that is over is still kept");
    harness.write_each(0, 1);
    assert_eq!(harness.operations(0), 1);
}

#[test]
fn a_lone_client_causes_no_timer() {
    let mut harness = Harness::new(json!({}));
    harness.timer = None;
    for _ in 0..3 {
        harness.write_each(0, 1);
        harness.now += 10 * MILLISECOND;
        harness.answer("es-0");
        assert_eq!((harness.calls.len(), harness.timer), (0, None));
        harness.now += 10 * MILLISECOND;
    }
    assert!(has_holds(&harness));
    harness.tick_after(MILLISECOND);
    assert!(!has_holds(&harness), "a hold that is over is still kept");
}

#[test]
fn a_slow_node_delays_only_requests_with_documents_for_it() {
    let mut harness = Harness::new(json!({}));
    harness.write_each(0, 2);
    let other = harness.write_each(1, 1);
    harness.answer("es-1");
    assert!(harness.replies.contains_key(&other[0]));
}

#[test]
fn without_early_release_a_hold_leaves_when_its_interval_ends() {
    let mut harness = Harness::new(json!({"hold": {"early_release": false, "interval": "20ms"}}));
    harness.write_each(0, 2);
    assert_eq!((harness.calls.len(), harness.timer), (0, Some(20 * MILLISECOND)));
    harness.tick_after(19 * MILLISECOND);
    assert_eq!((harness.calls.len(), harness.timer), (0, Some(MILLISECOND)));
    harness.tick_after(MILLISECOND);
    assert_eq!(harness.operations(0), 2);
    // The next hold waits for its own interval, or for the batch in flight if that takes longer.
    harness.hold(0, 1);
    harness.tick_after(30 * MILLISECOND);
    assert_eq!(harness.calls.len(), 1);
    harness.answer("es-0");
    assert_eq!(harness.calls.len(), 1);
    harness.answer("es-0");
    harness.assert_idle();
}

#[test]
fn a_hold_whose_older_clients_leave_waits_for_the_interval_of_the_oldest_that_is_left() {
    let mut harness = Harness::new(json!({"hold": {"early_release": false, "interval": "20ms"}}));
    let older = harness.hold(0, 5);
    harness.tick_after(10 * MILLISECOND);
    let left = harness.hold(0, 1);
    older.into_iter().for_each(|id| harness.gone(id));
    harness.tick_after(10 * MILLISECOND);
    assert_eq!((harness.calls.len(), harness.timer), (0, Some(10 * MILLISECOND)));
    harness.tick_after(10 * MILLISECOND);
    assert_eq!(harness.operations(0), 1);
    harness.settle();
    assert!(harness.replies.contains_key(&left[0]) && harness.engine.is_idle());
}

#[test]
fn a_large_hold_leaves_at_once_and_in_batches_of_that_size() {
    for threshold in [json!({"flush_threshold_docs": 3}), json!({"flush_threshold_size": "200b"})] {
        let hold = with(json!({"early_release": false, "interval": "1m"}), &threshold);
        let mut harness = Harness::new(json!({"hold": hold}));
        harness.write_each(0, 2);
        assert!(harness.calls.is_empty());
        harness.write_each(0, 6);
        let sizes = harness.drain(|harness| harness.operations(0));
        assert!(sizes.len() >= 2 && sizes.iter().all(|size| (2..=4).contains(size)), "{sizes:?}");
        // The rest waits for its interval, not forever.
        harness.tick_after(Duration::from_secs(60));
        harness.settle();
        assert_eq!(harness.replies.len(), 8);
    }
}

#[test]
fn the_rest_of_a_full_batch_waits_for_its_own_interval() {
    let hold = json!({"early_release": false, "interval": "60s", "flush_threshold_docs": 3});
    let mut harness = Harness::new(json!({"hold": hold, "cluster_state": {"refresh": "1h"}}));
    harness.hold(0, 2);
    harness.tick_after(Duration::from_secs(30));
    harness.write_each(0, 2);
    assert_eq!(harness.operations(0), 3);
    harness.answer("es-0");
    harness.tick_after(Duration::from_secs(59));
    assert!(harness.calls.is_empty());
    harness.tick_after(Duration::from_secs(1));
    assert_eq!(harness.upstreams(), ["es-0"]);
}

#[test]
fn shares_that_will_not_be_sent_do_not_fill_a_hold() {
    let hold = json!({"early_release": false, "interval": "60s", "flush_threshold_docs": 3});
    let mut harness = Harness::new(json!({"hold": hold}));
    let unfinished = harness.head("/_bulk", &[]);
    harness.data(unfinished, index(&[id_on(0, 7), id_on(0, 8)]), false);
    let goes = harness.request("/_bulk", &index(&[id_on(0, 5), id_on(0, 6)]));
    harness.gone(goes);
    harness.hold(0, 2);
    harness.gone(unfinished);
    harness.woken();
    assert!(harness.calls.is_empty());
    harness.write_each(0, 1);
    assert_eq!(harness.operations(0), 3);
    harness.finish();
}

#[test]
fn a_share_larger_than_a_batch_is_sent_alone_and_unsplit() {
    let mut harness = Harness::new(json!({"hold": {"flush_threshold_size": "100b"}}));
    harness.write(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(|n| id_on(0, n)));
    assert_eq!((harness.calls.len(), harness.operations(0)), (1, 10));
}

#[test]
fn several_batches_of_a_caller_may_be_in_flight() {
    let mut harness = Harness::new(json!({"dispatch": {"max_in_flight": 2}, "hold": {"interval": "10ms"}}));
    harness.write_each(0, 1);
    harness.write_each(0, 1);
    assert_eq!(harness.calls.len(), 1);
    harness.tick_after(10 * MILLISECOND);
    assert_eq!(harness.calls.len(), 2);
    harness.hold(0, 1);
    harness.tick_after(10 * MILLISECOND);
    assert_eq!(harness.calls.len(), 2);
    harness.answer("es-0");
    assert_eq!(harness.calls.len(), 2);
}

/// Returns the `authorization` of each call in flight.
fn callers(harness: &Harness) -> Vec<String> {
    let header = |call: &crate::engine::Call| {
        call.headers.iter().find(|(name, _)| name == "authorization").map(|(_, value)| value.clone())
    };
    harness.calls.iter().filter_map(header).collect()
}

fn of_caller(harness: &mut Harness, caller: &str) -> u32 {
    harness.request_with("/_bulk", &[("authorization", caller), ("user-agent", "x")], &index(&[id_on(0, 0)]))
}

/// Returns whether the engine keeps a hold.
fn has_holds(harness: &Harness) -> bool {
    !format!("{:?}", harness.engine.holds).contains(" holds: {},")
}

#[test]
fn callers_never_share_a_batch() {
    let mut harness = Harness::new(json!({}));
    let ids: Vec<_> = ["a", "b", "a", "b"].iter().map(|caller| of_caller(&mut harness, caller)).collect();
    harness.woken();
    assert_eq!(callers(&harness), ["a", "b"]);
    assert_eq!((harness.operations(0), harness.operations(1)), (2, 2));
    assert!(harness.calls.iter().all(|call| call.headers.iter().all(|(name, _)| name != "user-agent")));
    harness.settle();
    assert!(ids.iter().all(|id| harness.replies.contains_key(id)));
}

#[test]
fn callers_are_served_in_round_robin_order() {
    let mut harness =
        Harness::new(json!({"dispatch": {"max_in_flight_per_node": 1}, "hold": {"flush_threshold_docs": 1}}));
    for _ in 0..3 {
        of_caller(&mut harness, "greedy");
    }
    of_caller(&mut harness, "modest");
    harness.woken();
    let turns = harness.drain(callers);
    assert_eq!(turns, [["greedy"], ["modest"], ["greedy"], ["greedy"]]);
}

#[test]
fn a_retried_batch_does_not_overtake_waiting_identities() {
    let mut harness = Harness::new(json!({"dispatch": {"max_in_flight_per_node": 1}}));
    of_caller(&mut harness, "merged");
    harness.woken();
    for caller in ["merged", "merged", "first"] {
        of_caller(&mut harness, caller);
        harness.woken();
    }
    harness.answer("es-0");
    for caller in ["second", "third"] {
        of_caller(&mut harness, caller);
        harness.woken();
    }
    harness.answer("es-0");
    harness.answer_with("es-0", 400, "{}");
    let turns = harness.drain(callers).concat();
    // The retried batch waits for the next slot of its identity, which has just had one.
    assert_eq!(turns, ["second", "third", "merged", "merged"]);
}

#[test]
fn at_most_64_replies_leave_in_one_callback() {
    let mut harness = Harness::new(json!({}));
    harness.write_each(0, 1);
    harness.hold(0, 150);
    harness.answer("es-0");
    assert_eq!(harness.replies.len(), 1);
    harness.wake_ups = 0;
    harness.answer("es-0");
    for turn in [(65, 1), (129, 2), (151, 2), (151, 2)] {
        assert_eq!((harness.replies.len(), harness.wake_ups), turn);
        harness.woken();
    }
}

#[test]
fn a_wake_up_is_requested_once() {
    let mut harness = Harness::new(json!({"header_pause": "stop"}));
    let unfinished = harness.head("/_bulk", &[]);
    assert_eq!(harness.wake_ups, 0);
    harness.hold(0, 10);
    assert_eq!(harness.wake_ups, 1);
    harness.woken();
    harness.data(unfinished, "{", false);
    assert_eq!(harness.wake_ups, 1);
    harness.hold(1, 1);
    assert_eq!(harness.wake_ups, 2);
}

#[test]
fn the_next_tick_replaces_a_lost_wake_up() {
    let mut harness = Harness::new(json!({}));
    harness.hold(0, 1);
    harness.tick_after(Duration::from_secs(5));
    assert!(harness.upstreams().contains(&"es-0"));
    harness.hold(1, 1);
    assert_eq!(harness.wake_ups, 2);
}
