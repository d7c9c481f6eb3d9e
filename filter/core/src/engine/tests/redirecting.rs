//! Shares and batches that wait for a node that has left the cluster.

use std::time::Duration;

use serde_json::{Value, json};

use super::failures::{RESET, envoy_says};
use super::world::{World, id_on, index};
use crate::engine::metrics::Counter;
use crate::routing::UpstreamId;

const MILLISECOND: Duration = Duration::from_millis(1);
const TOO_MUCH: &str = r#"{"error":{"type":"circuit_breaking_exception","reason":"too much"},"status":429}"#;

fn world(config: Value) -> World {
    let mut whole = json!({"cluster_state": {"refresh": "1h"}});
    whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    World::new(whole)
}

fn upstream(world: &World, name: &str) -> UpstreamId {
    let metric = |metric: &&Counter| matches!(metric, Counter::Batches(id) if world.engine.upstreams().name(*id).as_ref() == name);
    match world.counts.keys().find(metric) {
        Some(Counter::Batches(upstream)) => *upstream,
        _ => panic!("nothing was sent to {name} yet"),
    }
}

/// Creates an idle world that has already sent requests to es-0 and es-1, so that their numbers are known.
fn warm(config: Value) -> (World, UpstreamId, UpstreamId) {
    let mut world = world(config);
    world.request("/_bulk", &index(&[id_on(0, 0), id_on(1, 0)]));
    world.tick_after(Duration::from_secs(120));
    world.settle();
    let (first, second) = (upstream(&world, "es-0"), upstream(&world, "es-1"));
    world.replies.clear();
    world.counts.clear();
    (world, first, second)
}

fn leaves(world: &mut World, gone: &[UpstreamId]) {
    world.engine.redirect_from(gone);
    world.woken();
}

fn small(world: &mut World, n: usize) -> u32 {
    world.request("/_bulk", &index(&[id_on(0, n)]))
}

fn body(world: &World, call: usize) -> String {
    String::from_utf8(world.calls[call].body.clone()).unwrap()
}

#[test]
fn held_shares_go_to_the_coordinator_and_batches_in_flight_stay() {
    for level in ["node", "shard"] {
        let (mut world, gone, _) = warm(json!({"dispatch": {"level": level}}));
        let ids = [0, 0, 0].map(|n| {
            let id = small(&mut world, n);
            world.woken();
            id
        });
        assert_eq!(world.upstreams(), ["es-0"]);
        leaves(&mut world, &[gone, UpstreamId::COORDINATOR]);
        assert_eq!(world.upstreams(), ["es-0", "es"]);
        assert_eq!(body(&world, 1), index(&[id_on(0, 0), id_on(0, 0)]));
        assert_eq!(world.counts[&Counter::BatchesRedirected(gone)], 1);
        assert!(!world.counts.contains_key(&Counter::BatchesRedirected(UpstreamId::COORDINATOR)));
        world.answer("es");
        assert_eq!(world.replies.len(), 2);
        world.answer("es-0");
        assert!(ids.iter().all(|id| world.items(*id) == [(id_on(0, 0), 201)]), "{level}");
        assert!(world.engine.is_idle());
    }
}

#[test]
fn shares_for_other_nodes_are_not_redirected() {
    let (mut world, _, gone) = warm(json!({"hold": {"early_release": false, "interval": "50ms"}}));
    let id = small(&mut world, 0);
    leaves(&mut world, &[gone]);
    world.tick_after(50 * MILLISECOND);
    assert_eq!(world.upstreams(), ["es-0"]);
    assert!(!world.counts.contains_key(&Counter::BatchesRedirected(gone)));
    world.settle();
    assert_eq!(world.items(id).len(), 1);
}

#[test]
fn clients_that_leave_with_several_redirected_shares_do_not_take_another_request_along() {
    let (mut world, first, second) = warm(json!({"hold": {"early_release": false, "interval": "50ms"}}));
    let leaving = [0, 1, 2, 3, 4, 5].map(|n| world.request("/_bulk", &index(&[id_on(0, n), id_on(1, n)])));
    let stays = small(&mut world, 6);
    leaves(&mut world, &[first, second]);
    leaving.into_iter().for_each(|id| world.gone(id));
    world.tick_after(50 * MILLISECOND);
    assert_eq!((world.upstreams(), body(&world, 0)), (vec!["es"], index(&[id_on(0, 6)])));
    world.settle();
    assert_eq!(world.items(stays), [(id_on(0, 6), 201)]);
    assert!(world.engine.is_idle());
}

#[test]
fn redirected_shares_keep_their_hold_time() {
    let (mut world, gone, _) = warm(json!({"hold": {"early_release": false, "interval": "50ms"}}));
    let early = small(&mut world, 0);
    world.tick_after(30 * MILLISECOND);
    leaves(&mut world, &[gone]);
    // The later request was read with the previous table.
    let late = small(&mut world, 1);
    world.woken();
    assert_eq!((world.calls.len(), world.timer), (0, Some(20 * MILLISECOND)));
    world.tick_after(20 * MILLISECOND);
    assert_eq!((world.upstreams(), body(&world, 0)), (vec!["es"], index(&[id_on(0, 0), id_on(0, 1)])));
    assert_eq!(world.counts[&Counter::BatchesRedirected(gone)], 2);
    world.settle();
    assert_eq!((world.items(early).len(), world.items(late).len()), (1, 1));
    assert!(world.engine.is_idle());
}

#[test]
fn retries_to_other_nodes_are_not_redirected() {
    let (mut world, _, gone) = warm(json!({}));
    small(&mut world, 0);
    world.woken();
    world.answer_with("es-0", 429, TOO_MUCH);
    leaves(&mut world, &[gone]);
    world.tick_after(50 * MILLISECOND);
    assert_eq!(world.upstreams(), ["es-0"]);
}

#[test]
fn ready_batches_for_other_nodes_are_not_redirected() {
    let (mut world, _, gone) = warm(json!({}));
    // The batch is ready, but was not polled yet.
    small(&mut world, 0);
    leaves(&mut world, &[gone]);
    assert_eq!(world.upstreams(), ["es-0"]);
}

#[test]
fn redirected_shares_leave_when_their_original_interval_ends() {
    let (mut world, first, second) = warm(json!({"hold": {"early_release": false, "interval": "50ms"}}));
    world.request("/_bulk", &index(&[id_on(0, 0)]));
    world.tick_after(30 * MILLISECOND);
    world.request("/_bulk", &index(&[id_on(1, 0)]));
    leaves(&mut world, &[second]);
    leaves(&mut world, &[first, second]);
    world.tick_after(20 * MILLISECOND);
    assert_eq!((world.upstreams(), body(&world, 0)), (vec!["es"], index(&[id_on(0, 0), id_on(1, 0)])));
}

#[test]
fn redirecting_leaves_an_empty_hold() {
    let hold = json!({"early_release": false, "interval": "60s", "flush_threshold_docs": 3});
    let bounds = json!({"max_in_flight": 2, "max_in_flight_per_node": 2});
    let (mut world, gone, _) = warm(json!({"hold": hold, "dispatch": bounds}));
    let of = |world: &mut World, caller: &str, ns: &[usize]| {
        let ids: Vec<_> = ns.iter().map(|n| id_on(0, *n)).collect();
        world.request_with("/_bulk", &[("authorization", caller)], &index(&ids));
        world.woken();
    };
    // The slots are full, and a hold with a batch in flight waits for them.
    of(&mut world, "a", &[0, 1, 2]);
    of(&mut world, "z", &[0, 1, 2]);
    of(&mut world, "a", &[3, 4, 5]);
    assert_eq!(world.upstreams(), ["es-0", "es-0"]);
    leaves(&mut world, &[gone]);
    assert_eq!(world.upstreams(), ["es-0", "es-0", "es"]);
    leaves(&mut world, &[]);
    of(&mut world, "a", &[6, 7]);
    let z = world.calls.remove(1);
    world.calls.insert(0, z);
    world.answer("es-0");
    // Two requests are too few for a batch of three.
    assert_eq!(world.upstreams(), ["es-0", "es"]);
    of(&mut world, "a", &[8]);
    assert_eq!(
        (world.upstreams(), body(&world, 2)),
        (vec!["es-0", "es", "es-0"], index(&[6, 7, 8].map(|n| id_on(0, n))))
    );
    world.settle();
    assert!(world.engine.is_idle());
}

#[test]
fn shares_of_two_nodes_join_one_batch_and_are_answered_in_order() {
    let (mut world, first, second) = warm(json!({"hold": {"early_release": false, "interval": "50ms"}}));
    let ids = [id_on(1, 0), id_on(0, 0), id_on(2, 0), id_on(1, 1), id_on(0, 1)];
    let id = world.request("/_bulk", &index(&ids));
    leaves(&mut world, &[first, second]);
    world.tick_after(50 * MILLISECOND);
    let mut upstreams = world.upstreams();
    upstreams.sort_unstable();
    assert_eq!(upstreams, ["es", "es-2"]);
    world.settle();
    assert_eq!(world.items(id), ids.map(|id| (id, 201)));
    assert!(world.engine.is_idle() && world.engine.memory() == 0);
}

#[test]
fn redirected_shares_of_a_client_that_disconnects_are_dropped() {
    let hold = json!({"early_release": false, "interval": "60s", "flush_threshold_docs": 3});
    let (mut world, gone, _) = warm(json!({"hold": hold}));
    // All of these requests have the same caller.
    let unfinished = world.head("/_bulk", &[]);
    let before = world.request("/_bulk", &index(&[id_on(0, 5)]));
    world.gone(before);
    let goes = world.request("/_bulk", &index(&[id_on(0, 0), id_on(0, 1)]));
    leaves(&mut world, &[gone]);
    world.gone(goes);
    for n in [2, 3] {
        small(&mut world, n);
        world.woken();
        assert!(world.calls.is_empty());
    }
    small(&mut world, 4);
    world.woken();
    assert_eq!(body(&world, 0), index(&[2, 3, 4].map(|n| id_on(0, n))));
    world.settle();
    world.gone(unfinished);
    assert!(world.engine.is_idle());
}

#[test]
fn a_pending_retry_goes_to_the_coordinator_when_it_is_due() {
    for lost in [true, false] {
        let (mut world, gone, _) = warm(json!({}));
        let id = small(&mut world, 0);
        world.woken();
        let later = small(&mut world, 1);
        match lost {
            true => envoy_says(&mut world, "es-0", 503, RESET),
            false => world.answer_with("es-0", 429, TOO_MUCH),
        }
        assert!(world.calls.is_empty());
        leaves(&mut world, &[gone]);
        assert_eq!((world.upstreams(), body(&world, 0)), (vec!["es"], index(&[id_on(0, 1)])));
        assert_eq!(world.counts[&Counter::BatchesRedirected(gone)], 2);
        world.tick_after(50 * MILLISECOND);
        assert_eq!((world.upstreams(), body(&world, 1)), (vec!["es", "es"], index(&[id_on(0, 0)])));
        world.settle();
        assert_eq!((world.items(id).len(), world.items(later).len()), (1, 1));
        world.load(&super::world::state());
        assert!(world.engine.is_idle());
    }
}

#[test]
fn a_retry_after_the_node_has_left_goes_to_the_coordinator() {
    let (mut world, gone, _) = warm(json!({}));
    let id = small(&mut world, 0);
    world.woken();
    leaves(&mut world, &[gone]);
    world.answer_with("es-0", 429, TOO_MUCH);
    world.tick_after(50 * MILLISECOND);
    assert_eq!(world.upstreams(), ["es"]);
    // If the node returns, nothing waits there for a batch that was redirected.
    leaves(&mut world, &[]);
    small(&mut world, 1);
    world.woken();
    assert_eq!(world.upstreams(), ["es", "es-0"]);
    world.settle();
    assert_eq!(world.items(id), [(id_on(0, 0), 201)]);
    assert!(world.engine.is_idle());
}

#[test]
fn redirected_batches_do_not_wait_for_the_slots_of_a_hung_node() {
    let (mut world, gone, _) = warm(json!({"dispatch": {"max_in_flight_per_node": 1}}));
    let callers = ["a", "b", "c"].map(|caller| {
        let id = world.request_with("/_bulk", &[("authorization", caller)], &index(&[id_on(0, 0)]));
        world.woken();
        id
    });
    // A batch of two was refused because of one of them, and waits for the slots too.
    world.answer("es-0");
    let both = [1, 2].map(|n| world.request_with("/_bulk", &[("authorization", "b")], &index(&[id_on(0, n)])));
    world.woken();
    world.answer("es-0");
    world.answer("es-0");
    world.request_with("/_bulk", &[("authorization", "z")], &index(&[id_on(0, 7)]));
    world.answer_with("es-0", 400, "{}");
    assert_eq!(world.upstreams(), ["es-0"]);
    leaves(&mut world, &[gone]);
    // The coordinator also has one slot.
    assert_eq!(world.upstreams(), ["es-0", "es"]);
    assert_eq!((body(&world, 0), body(&world, 1)), (index(&[id_on(0, 1)]), index(&[id_on(0, 2)])));
    world.answer("es");
    assert_eq!((world.upstreams(), body(&world, 1)), (vec!["es-0", "es"], index(&[id_on(0, 7)])));
    world.settle();
    assert!(callers.iter().chain(&both).all(|id| world.items(*id).len() == 1));
    assert!(world.engine.is_idle());
}

#[test]
fn new_shares_go_to_the_node_again_once_it_returns() {
    let (mut world, gone, _) = warm(json!({}));
    leaves(&mut world, &[gone]);
    small(&mut world, 0);
    world.woken();
    world.answer("es");
    leaves(&mut world, &[]);
    small(&mut world, 0);
    world.woken();
    assert_eq!(world.upstreams(), ["es-0"]);
}
