use std::time::Duration;

use serde_json::{Value, json};

use super::world::{World, id_on, index};
use crate::engine::metrics::Counter;
use crate::routing::UpstreamId;

const MILLISECOND: Duration = Duration::from_millis(1);

/// Sends requests with one operation each for one node.
fn small(world: &mut World, node: usize, count: usize) -> Vec<u32> {
    (0..count).map(|n| world.request("/_bulk", &index(&[id_on(node, n)]))).collect()
}

fn operations(world: &World, call: usize) -> usize {
    world.calls[call].body.iter().filter(|byte| **byte == b'\n').count() / 2
}

#[test]
fn requests_that_arrive_while_a_batch_is_in_flight_leave_together() {
    let mut world = World::new(json!({}));
    let first = small(&mut world, 0, 1);
    world.woken();
    let second = small(&mut world, 0, 100);
    world.woken();
    assert_eq!((world.upstreams(), operations(&world, 0)), (vec!["es-0"], 1));
    world.answer("es-0");
    assert_eq!((world.upstreams(), operations(&world, 0)), (vec!["es-0"], 100));
    assert!(world.replies.contains_key(&first[0]));
    world.settle();
    for (n, id) in second.iter().enumerate() {
        assert_eq!(world.items(*id), [(id_on(0, n), 201)]);
    }
    let batches = world
        .counts
        .iter()
        .find(|(metric, _)| matches!(metric, Counter::Batches(upstream) if *upstream != UpstreamId::COORDINATOR));
    assert_eq!(batches.unwrap().1, &2);
}

/// Returns the number of requests in each batch of 20 clients, each of which sends its next request a millisecond after
/// its answer. A batch takes ten milliseconds.
fn batches_of_20_clients(gather: &str) -> (World, Vec<usize>) {
    let mut world = World::new(json!({"hold": {"gather": gather}}));
    small(&mut world, 0, 1);
    world.woken();
    small(&mut world, 0, 19);
    let mut batches = Vec::new();
    for _ in 0..20 {
        let size = operations(&world, 0);
        batches.push(size);
        world.now += 10 * MILLISECOND;
        world.answer("es-0");
        world.now += MILLISECOND;
        small(&mut world, 0, size);
        world.woken();
        world.tick_after(MILLISECOND);
        assert_eq!(world.calls.len(), 1);
    }
    (world, batches)
}

#[test]
fn clients_that_were_answered_leave_with_those_that_waited() {
    let (_, with) = batches_of_20_clients("2ms");
    assert!(with.iter().skip(10).all(|size| *size == 20), "{with:?}");
    let (_, without) = batches_of_20_clients("0ms");
    assert!(without.iter().skip(10).all(|size| *size < 20), "{without:?}");
}

#[test]
fn the_wait_for_clients_that_do_not_return_is_bounded() {
    let (mut world, _) = batches_of_20_clients("2ms");
    world.now += 10 * MILLISECOND;
    world.answer("es-0");
    small(&mut world, 0, 3);
    world.woken();
    assert_eq!((world.calls.len(), world.timer), (0, Some(2 * MILLISECOND)));
    world.tick_after(2 * MILLISECOND);
    assert_eq!(operations(&world, 0), 3);
    // No client returns from now on.
    world.now += MILLISECOND;
    world.answer("es-0");
    world.tick_after(MILLISECOND);
    assert!(world.engine.is_idle());
    assert!(format!("{:?}", world.engine.holds).contains(" holds: {},"), "a hold that is over is still kept");
    small(&mut world, 0, 1);
    world.woken();
    assert_eq!(operations(&world, 0), 1);
}

#[test]
fn a_lone_client_causes_no_timer() {
    let mut world = World::new(json!({}));
    world.timer = None;
    for _ in 0..3 {
        small(&mut world, 0, 1);
        world.woken();
        world.now += 10 * MILLISECOND;
        world.answer("es-0");
        assert_eq!((world.calls.len(), world.timer), (0, None));
        world.now += 10 * MILLISECOND;
    }
    assert!(!format!("{:?}", world.engine.holds).contains(" holds: {},"));
    world.tick_after(MILLISECOND);
    assert!(format!("{:?}", world.engine.holds).contains(" holds: {},"), "a hold that is over is still kept");
}

#[test]
fn a_slow_node_delays_only_requests_with_documents_for_it() {
    let mut world = World::new(json!({}));
    small(&mut world, 0, 2);
    world.woken();
    let other = small(&mut world, 1, 1);
    world.woken();
    world.answer("es-1");
    assert!(world.replies.contains_key(&other[0]));
}

#[test]
fn without_early_release_a_hold_leaves_when_its_interval_ends() {
    let mut world = World::new(json!({"hold": {"early_release": false, "interval": "20ms"}}));
    small(&mut world, 0, 2);
    world.woken();
    assert_eq!((world.calls.len(), world.timer), (0, Some(20 * MILLISECOND)));
    world.tick_after(19 * MILLISECOND);
    assert_eq!((world.calls.len(), world.timer), (0, Some(MILLISECOND)));
    world.tick_after(MILLISECOND);
    assert_eq!(operations(&world, 0), 2);
    // The next hold waits for its own interval, or for the batch in flight if that takes longer.
    small(&mut world, 0, 1);
    world.tick_after(30 * MILLISECOND);
    assert_eq!(world.calls.len(), 1);
    world.answer("es-0");
    assert_eq!(world.calls.len(), 1);
    world.answer("es-0");
    assert!(world.engine.is_idle());
}

#[test]
fn a_large_hold_leaves_at_once_and_in_batches_of_that_size() {
    for threshold in [json!({"flush_threshold_docs": 3}), json!({"flush_threshold_size": "200b"})] {
        let mut hold = json!({"early_release": false, "interval": "1m"});
        hold.as_object_mut().unwrap().extend(threshold.as_object().unwrap().clone());
        let mut world = World::new(json!({"hold": hold}));
        small(&mut world, 0, 2);
        world.woken();
        assert!(world.calls.is_empty());
        small(&mut world, 0, 6);
        world.woken();
        let mut sizes = Vec::new();
        while !world.calls.is_empty() {
            sizes.push(operations(&world, 0));
            world.answer("es-0");
        }
        assert!(sizes.len() >= 2 && sizes.iter().all(|size| (2..=4).contains(size)), "{sizes:?}");
        // The rest waits for its interval, not forever.
        world.tick_after(Duration::from_secs(60));
        world.settle();
        assert_eq!(world.replies.len(), 8);
    }
}

#[test]
fn the_rest_of_a_full_batch_waits_for_its_own_interval() {
    let hold = json!({"early_release": false, "interval": "60s", "flush_threshold_docs": 3});
    let mut world = World::new(json!({"hold": hold, "cluster_state": {"refresh": "1h"}}));
    small(&mut world, 0, 2);
    world.tick_after(Duration::from_secs(30));
    small(&mut world, 0, 2);
    world.woken();
    assert_eq!(operations(&world, 0), 3);
    world.answer("es-0");
    world.tick_after(Duration::from_secs(59));
    assert!(world.calls.is_empty());
    world.tick_after(Duration::from_secs(1));
    assert_eq!(world.upstreams(), ["es-0"]);
}

#[test]
fn shares_that_will_not_be_sent_do_not_fill_a_hold() {
    let hold = json!({"early_release": false, "interval": "60s", "flush_threshold_docs": 3});
    let mut world = World::new(json!({"hold": hold}));
    let unfinished = world.head("/_bulk", &[]);
    world.data(unfinished, index(&[id_on(0, 7), id_on(0, 8)]), false);
    let goes = world.request("/_bulk", &index(&[id_on(0, 5), id_on(0, 6)]));
    world.gone(goes);
    small(&mut world, 0, 2);
    world.gone(unfinished);
    world.woken();
    assert!(world.calls.is_empty());
    small(&mut world, 0, 1);
    world.woken();
    assert_eq!(operations(&world, 0), 3);
    world.settle();
    assert!(world.engine.is_idle());
}

#[test]
fn a_share_larger_than_a_batch_is_sent_alone_and_unsplit() {
    let mut world = World::new(json!({"hold": {"flush_threshold_size": "100b"}}));
    let ids: Vec<_> = (0..10).map(|n| id_on(0, n)).collect();
    world.request("/_bulk", &index(&ids));
    world.woken();
    assert_eq!((world.calls.len(), operations(&world, 0)), (1, 10));
}

#[test]
fn several_batches_of_a_caller_may_be_in_flight() {
    let mut world = World::new(json!({"dispatch": {"max_in_flight": 2}, "hold": {"interval": "10ms"}}));
    small(&mut world, 0, 1);
    world.woken();
    small(&mut world, 0, 1);
    world.woken();
    assert_eq!(world.calls.len(), 1);
    world.tick_after(10 * MILLISECOND);
    assert_eq!(world.calls.len(), 2);
    small(&mut world, 0, 1);
    world.tick_after(10 * MILLISECOND);
    assert_eq!(world.calls.len(), 2);
    world.answer("es-0");
    assert_eq!(world.calls.len(), 2);
}

/// Returns the `authorization` of each call in flight.
fn callers(world: &World) -> Vec<String> {
    let header = |call: &crate::engine::Call| {
        call.headers.iter().find(|(name, _)| name == "authorization").map(|(_, value)| value.clone())
    };
    world.calls.iter().filter_map(header).collect()
}

fn of_caller(world: &mut World, caller: &str) -> u32 {
    world.request_with("/_bulk", &[("authorization", caller), ("user-agent", "x")], &index(&[id_on(0, 0)]))
}

#[test]
fn callers_never_share_a_batch() {
    let mut world = World::new(json!({}));
    let ids: Vec<_> = ["a", "b", "a", "b"].iter().map(|caller| of_caller(&mut world, caller)).collect();
    world.woken();
    assert_eq!(callers(&world), ["a", "b"]);
    assert_eq!((operations(&world, 0), operations(&world, 1)), (2, 2));
    assert!(world.calls.iter().all(|call| call.headers.iter().all(|(name, _)| name != "user-agent")));
    world.settle();
    assert!(ids.iter().all(|id| world.replies.contains_key(id)));
}

#[test]
fn callers_are_served_in_round_robin_order() {
    let mut world = World::new(json!({"dispatch": {"max_in_flight_per_node": 1}, "hold": {"flush_threshold_docs": 1}}));
    for _ in 0..3 {
        of_caller(&mut world, "greedy");
    }
    of_caller(&mut world, "modest");
    world.woken();
    let mut turns = Vec::new();
    while !world.calls.is_empty() {
        assert_eq!(world.calls.len(), 1);
        turns.extend(callers(&world));
        world.answer("es-0");
    }
    assert_eq!(turns, ["greedy", "modest", "greedy", "greedy"]);
}

#[test]
fn a_retried_batch_does_not_overtake_waiting_identities() {
    let mut world = World::new(json!({"dispatch": {"max_in_flight_per_node": 1}}));
    of_caller(&mut world, "merged");
    world.woken();
    for caller in ["merged", "merged", "first"] {
        of_caller(&mut world, caller);
        world.woken();
    }
    world.answer("es-0");
    for caller in ["second", "third"] {
        of_caller(&mut world, caller);
        world.woken();
    }
    world.answer("es-0");
    world.answer_with("es-0", 400, "{}");
    let mut turns = Vec::new();
    while !world.calls.is_empty() {
        turns.extend(callers(&world));
        world.answer("es-0");
    }
    // The retried batch waits for the next slot of its identity, which has just had one.
    assert_eq!(turns, ["second", "third", "merged", "merged"]);
}

#[test]
fn at_most_64_replies_leave_in_one_callback() {
    let mut world = World::new(json!({}));
    small(&mut world, 0, 1);
    world.woken();
    small(&mut world, 0, 150);
    world.answer("es-0");
    assert_eq!(world.replies.len(), 1);
    world.wake_ups = 0;
    world.answer("es-0");
    let mut turns = Vec::new();
    for _ in 0..4 {
        turns.push((world.replies.len(), world.wake_ups));
        world.woken();
    }
    assert_eq!(turns, [(65, 1), (129, 2), (151, 2), (151, 2)]);
}

#[test]
fn a_wake_up_is_requested_once() {
    let mut world = World::new(json!({"header_pause": "stop"}));
    let unfinished = world.head("/_bulk", &[]);
    assert_eq!(world.wake_ups, 0);
    small(&mut world, 0, 10);
    assert_eq!(world.wake_ups, 1);
    world.woken();
    world.data(unfinished, "{", false);
    assert_eq!(world.wake_ups, 1);
    small(&mut world, 1, 1);
    assert_eq!(world.wake_ups, 2);
}

#[test]
fn the_next_tick_replaces_a_lost_wake_up() {
    let mut world = World::new(Value::Object(serde_json::Map::new()));
    small(&mut world, 0, 1);
    world.tick_after(Duration::from_secs(5));
    assert!(world.upstreams().contains(&"es-0"));
    small(&mut world, 1, 1);
    assert_eq!(world.wake_ups, 2);
}
