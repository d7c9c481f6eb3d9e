//! Shares and batches that wait for a node that has left the cluster.

use std::time::Duration;

use serde_json::{Value, json};

use super::failures::{RESET, TOO_MUCH};
use super::harness::{Harness, MILLISECOND, id_on, index};
use crate::engine::metrics::Counter;
use crate::routing::UpstreamId;

/// Creates an idle harness that has already sent requests to es-0 and es-1. Returns their numbers too.
fn warm(config: Value) -> (Harness, UpstreamId, UpstreamId) {
    let mut harness = Harness::quiet(&config);
    harness.request("/_bulk", &index(&[id_on(0, 0), id_on(1, 0)]));
    harness.tick_after(Duration::from_secs(120));
    harness.settle();
    let (first, second) = (harness.upstream("es-0"), harness.upstream("es-1"));
    harness.replies.clear();
    harness.counts.clear();
    (harness, first, second)
}

/// Returns the configuration of holds that wait for 50 ms.
fn held() -> Value {
    json!({"hold": {"early_release": false, "interval": "50ms"}})
}

fn leaves(harness: &mut Harness, gone: &[UpstreamId]) {
    harness.engine.redirect_from(gone);
    harness.woken();
}

fn small(harness: &mut Harness, n: usize) -> u32 {
    harness.request("/_bulk", &index(&[id_on(0, n)]))
}

#[test]
fn held_shares_go_to_the_coordinator_and_batches_in_flight_stay() {
    for level in ["node", "shard"] {
        let (mut harness, gone, _) = warm(json!({"dispatch": {"level": level}}));
        let ids = [0, 0, 0].map(|n| harness.write(&[id_on(0, n)]));
        assert_eq!(harness.upstreams(), ["es-0"]);
        leaves(&mut harness, &[gone, UpstreamId::COORDINATOR]);
        assert_eq!(harness.upstreams(), ["es-0", "es"]);
        assert_eq!(harness.bodies().remove(1), index(&[id_on(0, 0), id_on(0, 0)]));
        assert_eq!(harness.counts[&Counter::BatchesRedirected(gone)], 1);
        assert!(!harness.counts.contains_key(&Counter::BatchesRedirected(UpstreamId::COORDINATOR)));
        harness.answer("es");
        assert_eq!(harness.replies.len(), 2);
        harness.answer("es-0");
        assert!(ids.iter().all(|id| harness.items(*id) == [(id_on(0, 0), 201)]), "{level}");
        harness.assert_idle();
    }
}

#[test]
fn shares_for_other_nodes_are_not_redirected() {
    let (mut harness, _, gone) = warm(held());
    let id = small(&mut harness, 0);
    leaves(&mut harness, &[gone]);
    harness.tick_after(50 * MILLISECOND);
    assert_eq!(harness.upstreams(), ["es-0"]);
    assert!(!harness.counts.contains_key(&Counter::BatchesRedirected(gone)));
    harness.settle();
    assert_eq!(harness.items(id).len(), 1);
}

#[test]
fn clients_that_leave_with_several_redirected_shares_do_not_take_another_request_along() {
    let (mut harness, first, second) = warm(held());
    let leaving = [0, 1, 2, 3, 4, 5].map(|n| harness.request("/_bulk", &index(&[id_on(0, n), id_on(1, n)])));
    let stays = small(&mut harness, 6);
    leaves(&mut harness, &[first, second]);
    leaving.into_iter().for_each(|id| harness.gone(id));
    harness.tick_after(50 * MILLISECOND);
    assert_eq!((harness.upstreams(), harness.bodies().remove(0)), (vec!["es"], index(&[id_on(0, 6)])));
    harness.finish();
    assert_eq!(harness.items(stays), [(id_on(0, 6), 201)]);
}

#[test]
fn redirected_shares_keep_their_hold_time() {
    let (mut harness, gone, _) = warm(held());
    let early = small(&mut harness, 0);
    harness.tick_after(30 * MILLISECOND);
    leaves(&mut harness, &[gone]);
    // The later request was read with the previous table.
    let late = harness.write(&[id_on(0, 1)]);
    assert_eq!((harness.calls.len(), harness.timer), (0, Some(20 * MILLISECOND)));
    harness.tick_after(20 * MILLISECOND);
    assert_eq!((harness.upstreams(), harness.bodies().remove(0)), (vec!["es"], index(&[id_on(0, 0), id_on(0, 1)])));
    assert_eq!(harness.counts[&Counter::BatchesRedirected(gone)], 2);
    harness.finish();
    assert_eq!((harness.items(early).len(), harness.items(late).len()), (1, 1));
}

#[test]
fn retries_to_other_nodes_are_not_redirected() {
    let (mut harness, _, gone) = warm(json!({}));
    harness.write(&[id_on(0, 0)]);
    harness.answer_with("es-0", 429, TOO_MUCH);
    leaves(&mut harness, &[gone]);
    harness.tick_after(50 * MILLISECOND);
    assert_eq!(harness.upstreams(), ["es-0"]);
}

#[test]
fn ready_batches_for_other_nodes_are_not_redirected() {
    let (mut harness, _, gone) = warm(json!({}));
    // The batch is ready, but was not polled yet.
    small(&mut harness, 0);
    leaves(&mut harness, &[gone]);
    assert_eq!(harness.upstreams(), ["es-0"]);
}

#[test]
fn redirected_shares_leave_when_their_original_interval_ends() {
    let (mut harness, first, second) = warm(held());
    harness.request("/_bulk", &index(&[id_on(0, 0)]));
    harness.tick_after(30 * MILLISECOND);
    harness.request("/_bulk", &index(&[id_on(1, 0)]));
    leaves(&mut harness, &[second]);
    leaves(&mut harness, &[first, second]);
    harness.tick_after(20 * MILLISECOND);
    assert_eq!((harness.upstreams(), harness.bodies().remove(0)), (vec!["es"], index(&[id_on(0, 0), id_on(1, 0)])));
}

#[test]
fn redirecting_leaves_an_empty_hold() {
    let hold = json!({"early_release": false, "interval": "60s", "flush_threshold_docs": 3});
    let bounds = json!({"max_in_flight": 2, "max_in_flight_per_node": 2});
    let (mut harness, gone, _) = warm(json!({"hold": hold, "dispatch": bounds}));
    let of = |harness: &mut Harness, caller: &str, ns: &[usize]| {
        let ids: Vec<_> = ns.iter().map(|n| id_on(0, *n)).collect();
        harness.send_with("/_bulk", &[("authorization", caller)], &index(&ids));
    };
    // The slots are full, and a hold with a batch in flight waits for them.
    of(&mut harness, "a", &[0, 1, 2]);
    of(&mut harness, "z", &[0, 1, 2]);
    of(&mut harness, "a", &[3, 4, 5]);
    assert_eq!(harness.upstreams(), ["es-0", "es-0"]);
    leaves(&mut harness, &[gone]);
    assert_eq!(harness.upstreams(), ["es-0", "es-0", "es"]);
    leaves(&mut harness, &[]);
    of(&mut harness, "a", &[6, 7]);
    let z = harness.calls.remove(1);
    harness.calls.insert(0, z);
    harness.answer("es-0");
    // Two requests are too few for a batch of three.
    assert_eq!(harness.upstreams(), ["es-0", "es"]);
    of(&mut harness, "a", &[8]);
    assert_eq!(
        (harness.upstreams(), harness.bodies().remove(2)),
        (vec!["es-0", "es", "es-0"], index(&[6, 7, 8].map(|n| id_on(0, n))))
    );
    harness.finish();
}

#[test]
fn shares_of_two_nodes_join_one_batch_and_are_answered_in_order() {
    let (mut harness, first, second) = warm(held());
    let ids = [id_on(1, 0), id_on(0, 0), id_on(2, 0), id_on(1, 1), id_on(0, 1)];
    let id = harness.request("/_bulk", &index(&ids));
    leaves(&mut harness, &[first, second]);
    harness.tick_after(50 * MILLISECOND);
    let mut upstreams = harness.upstreams();
    upstreams.sort_unstable();
    assert_eq!(upstreams, ["es", "es-2"]);
    harness.finish();
    assert_eq!(harness.items(id), ids.map(|id| (id, 201)));
}

#[test]
fn redirected_shares_of_a_client_that_disconnects_are_dropped() {
    let hold = json!({"early_release": false, "interval": "60s", "flush_threshold_docs": 3});
    let (mut harness, gone, _) = warm(json!({"hold": hold}));
    // All of these requests have the same caller.
    let unfinished = harness.head("/_bulk", &[]);
    let before = harness.request("/_bulk", &index(&[id_on(0, 5)]));
    harness.gone(before);
    let goes = harness.request("/_bulk", &index(&[id_on(0, 0), id_on(0, 1)]));
    leaves(&mut harness, &[gone]);
    harness.gone(goes);
    for n in [2, 3] {
        harness.write(&[id_on(0, n)]);
        assert!(harness.calls.is_empty());
    }
    harness.write(&[id_on(0, 4)]);
    assert_eq!(harness.bodies().remove(0), index(&[2, 3, 4].map(|n| id_on(0, n))));
    harness.settle();
    harness.gone(unfinished);
    harness.assert_idle();
}

#[test]
fn a_pending_retry_goes_to_the_coordinator_when_it_is_due() {
    for lost in [true, false] {
        let (mut harness, gone, _) = warm(json!({}));
        let id = harness.write(&[id_on(0, 0)]);
        let later = small(&mut harness, 1);
        match lost {
            true => harness.envoy_says("es-0", 503, RESET),
            false => harness.answer_with("es-0", 429, TOO_MUCH),
        }
        assert!(harness.calls.is_empty());
        leaves(&mut harness, &[gone]);
        assert_eq!((harness.upstreams(), harness.bodies().remove(0)), (vec!["es"], index(&[id_on(0, 1)])));
        assert_eq!(harness.counts[&Counter::BatchesRedirected(gone)], 2);
        harness.tick_after(50 * MILLISECOND);
        assert_eq!((harness.upstreams(), harness.bodies().remove(1)), (vec!["es", "es"], index(&[id_on(0, 0)])));
        harness.settle();
        assert_eq!((harness.items(id).len(), harness.items(later).len()), (1, 1));
        harness.load(&super::harness::state());
        harness.assert_idle();
    }
}

#[test]
fn a_retry_after_the_node_has_left_goes_to_the_coordinator() {
    let (mut harness, gone, _) = warm(json!({}));
    let id = harness.write(&[id_on(0, 0)]);
    leaves(&mut harness, &[gone]);
    harness.answer_with("es-0", 429, TOO_MUCH);
    harness.tick_after(50 * MILLISECOND);
    assert_eq!(harness.upstreams(), ["es"]);
    // If the node returns, nothing waits there for a batch that was redirected.
    leaves(&mut harness, &[]);
    harness.write(&[id_on(0, 1)]);
    assert_eq!(harness.upstreams(), ["es", "es-0"]);
    harness.finish();
    assert_eq!(harness.items(id), [(id_on(0, 0), 201)]);
}

#[test]
fn redirected_batches_do_not_wait_for_the_slots_of_a_hung_node() {
    let (mut harness, gone, _) = warm(json!({"dispatch": {"max_in_flight_per_node": 1}}));
    let callers =
        ["a", "b", "c"].map(|caller| harness.send_with("/_bulk", &[("authorization", caller)], &index(&[id_on(0, 0)])));
    // A batch of two was refused because of one of them, and waits for the slots too.
    harness.answer("es-0");
    let both = [1, 2].map(|n| harness.request_with("/_bulk", &[("authorization", "b")], &index(&[id_on(0, n)])));
    harness.woken();
    harness.answer("es-0");
    harness.answer("es-0");
    harness.request_with("/_bulk", &[("authorization", "z")], &index(&[id_on(0, 7)]));
    harness.answer_with("es-0", 400, "{}");
    assert_eq!(harness.upstreams(), ["es-0"]);
    leaves(&mut harness, &[gone]);
    // The coordinator also has one slot.
    assert_eq!(harness.upstreams(), ["es-0", "es"]);
    assert_eq!(
        (harness.bodies().remove(0), harness.bodies().remove(1)),
        (index(&[id_on(0, 1)]), index(&[id_on(0, 2)]))
    );
    harness.answer("es");
    assert_eq!((harness.upstreams(), harness.bodies().remove(1)), (vec!["es-0", "es"], index(&[id_on(0, 7)])));
    harness.finish();
    assert!(callers.iter().chain(&both).all(|id| harness.items(*id).len() == 1));
}

#[test]
fn new_shares_go_to_the_node_again_once_it_returns() {
    let (mut harness, gone, _) = warm(json!({}));
    leaves(&mut harness, &[gone]);
    harness.write(&[id_on(0, 0)]);
    harness.answer("es");
    leaves(&mut harness, &[]);
    harness.write(&[id_on(0, 0)]);
    assert_eq!(harness.upstreams(), ["es-0"]);
}
