//! A slow shard costs only the requests that write to it.

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Harness, MILLISECOND, add_index, id_of, index, keys, operation, shard_of, state};
use crate::engine::metrics::Counter;

/// `hold.late_after`: the time after which the first batches of these tests are late.
const LATE: Duration = Duration::from_millis(200);

fn harness(config: Value) -> Harness {
    let mut whole = json!({"cluster_state": {"refresh": "1h"}, "hold": {"late_after": "200ms"}});
    for (section, fields) in config.as_object().unwrap() {
        fields.as_object().unwrap().iter().for_each(|(field, value)| whole[section][field] = value.clone());
    }
    Harness::new(whole)
}

/// Sends a request with one document for each of these shards. Shards 0 and 3 are on es-0.
fn write(harness: &mut Harness, shards: &[u32]) -> u32 {
    harness.write(&shards.iter().map(|shard| id_of(*shard, 0)).collect::<Vec<_>>())
}

/// Returns the shards of each batch in flight, oldest first.
fn in_flight(harness: &Harness) -> Vec<Vec<u32>> {
    harness.calls.iter().map(|call| keys(call).iter().map(|id| shard_of(id)).collect()).collect()
}

/// Returns how many batches were late.
fn late(harness: &Harness) -> u64 {
    harness.counted(|counter| matches!(counter, Counter::BatchesLate(_)))
}

/// Answers the oldest batch that has exactly these shards.
fn answer(harness: &mut Harness, shards: &[u32]) {
    let at = in_flight(harness).iter().position(|other| other == shards).unwrap();
    let call = harness.calls.remove(at);
    harness.calls.insert(0, call);
    harness.answer("es-0");
}

/// Returns a harness in which shard 0 is slow: a batch with it alone has just become late.
fn with_slow_shard() -> Harness {
    let mut harness = harness(json!({}));
    write(&mut harness, &[0]);
    harness.tick_after(LATE);
    assert_eq!(in_flight(&harness), [[0]]);
    harness
}

#[test]
fn what_is_held_for_other_shards_leaves_once_a_batch_is_late() {
    let mut harness = harness(json!({}));
    write(&mut harness, &[0]);
    let [other, same] = [3, 0].map(|shard| write(&mut harness, &[shard]));
    harness.tick_after(LATE - MILLISECOND);
    assert_eq!(in_flight(&harness), [[0]]);
    harness.tick_after(MILLISECOND);
    // What is held for the slow shard leaves apart from the others.
    assert_eq!(in_flight(&harness), [[0], [0], [3]]);
    assert_eq!(late(&harness), 1);
    answer(&mut harness, &[3]);
    assert!(harness.replies.contains_key(&other) && !harness.replies.contains_key(&same));
    harness.finish();
    assert_eq!(harness.replies.len(), 3);
}

#[test]
fn a_slow_shard_has_one_batch_in_flight_which_no_other_shard_waits_for() {
    let mut harness = with_slow_shard();
    write(&mut harness, &[0]);
    for _ in 0..20 {
        write(&mut harness, &[0]);
        write(&mut harness, &[3]);
        answer(&mut harness, &[3]);
        harness.tick_after(LATE);
    }
    assert_eq!(in_flight(&harness), [[0], [0]]);
    // A request for both shards waits for its slow share, and others do not wait for it.
    let both = write(&mut harness, &[0, 3]);
    answer(&mut harness, &[3]);
    let other = write(&mut harness, &[3]);
    answer(&mut harness, &[3]);
    assert!(harness.replies.contains_key(&other) && !harness.replies.contains_key(&both));
    harness.finish();
    assert!(harness.replies.contains_key(&both));
}

#[test]
fn time_outs_of_a_slow_shard_alone_leave_the_slots_of_its_node() {
    let halved = |harness: &Harness| harness.counted(|counter| matches!(counter, Counter::SlotsHalved(_)));
    let mut harness = with_slow_shard();
    harness.envoy_says("es-0", 504, "upstream request timeout");
    // Nothing shows yet that the shard alone is slow.
    assert_eq!(halved(&harness), 1);
    for _ in 0..3 {
        write(&mut harness, &[0]);
        harness.tick_after(LATE);
        assert_eq!(in_flight(&harness), [[0]]);
        harness.envoy_says("es-0", 504, "upstream request timeout");
    }
    assert_eq!((halved(&harness), late(&harness)), (1, 4));
}

#[test]
fn a_suspect_is_cleared_by_a_quick_batch_of_it_alone() {
    let mut harness = harness(json!({}));
    write(&mut harness, &[0, 3]);
    harness.tick_after(LATE);
    // Both are suspects now, though only one may be slow.
    write(&mut harness, &[0, 3]);
    assert_eq!(in_flight(&harness), [vec![0, 3], vec![0], vec![3]]);
    answer(&mut harness, &[3]);
    // A batch of one shard does not clear another.
    write(&mut harness, &[0, 3]);
    assert_eq!(in_flight(&harness), [vec![0, 3], vec![0], vec![3]]);
    answer(&mut harness, &[0]);
    harness.settle();
    write(&mut harness, &[0, 3]);
    assert_eq!(in_flight(&harness), [[0, 3]]);
    harness.settle();
}

#[test]
fn a_shard_stays_apart_for_as_long_as_its_last_late_batch_took() {
    let mut harness = with_slow_shard();
    write(&mut harness, &[0]);
    harness.tick_after(3 * LATE);
    answer(&mut harness, &[0]);
    answer(&mut harness, &[0]);
    harness.now += 3 * LATE - MILLISECOND;
    for batches in [2, 2, 1] {
        write(&mut harness, &[0, 3]);
        assert_eq!(harness.calls.len(), batches);
        harness.settle();
        harness.now += MILLISECOND;
    }
}

#[test]
fn a_batch_is_late_only_compared_with_its_nodes_other_batches() {
    let mut harness = harness(json!({}));
    for _ in 0..200 {
        write(&mut harness, &[0]);
        harness.tick_after(Duration::from_millis(100));
        answer(&mut harness, &[0]);
    }
    write(&mut harness, &[0]);
    write(&mut harness, &[3]);
    harness.tick_after(Duration::from_millis(1580));
    assert_eq!(in_flight(&harness), [[0]]);
    harness.tick_after(Duration::from_millis(20));
    assert_eq!(in_flight(&harness), [[0], [3]]);
    harness.settle();
}

#[test]
fn a_few_slow_batches_do_not_make_a_node_slow() {
    let mut harness = with_slow_shard();
    for _ in 0..30 {
        answer(&mut harness, &[0]);
        write(&mut harness, &[0]);
        for _ in 0..10 {
            write(&mut harness, &[3]);
            answer(&mut harness, &[3]);
        }
        harness.tick_after(LATE);
    }
    assert_eq!(late(&harness), 31);
    harness.settle();
}

#[test]
fn a_request_that_began_before_a_shard_became_slow_does_not_join_others() {
    let mut harness = harness(json!({}));
    write(&mut harness, &[0]);
    let early = harness.head("/_bulk", &[]);
    harness.data(early, index(&[id_of(3, 1)]), false);
    harness.tick_after(LATE);
    harness.data(early, index(&[id_of(0, 1)]), true);
    write(&mut harness, &[3]);
    // Its operations stay together, so that they keep their order.
    assert_eq!(in_flight(&harness), [vec![0], vec![3, 0], vec![3]]);
    harness.finish();
}

#[test]
fn a_late_batch_gives_its_slot_to_other_callers() {
    let mut harness = harness(json!({"dispatch": {"max_in_flight_per_node": 2}}));
    let ask = |harness: &mut Harness, caller: u32, shard| {
        harness.send_with("/_bulk", &[("x-opaque-id", &caller.to_string())], &index(&[id_of(shard, 0)]));
    };
    (0..4).for_each(|caller| ask(&mut harness, caller, 0));
    assert_eq!(in_flight(&harness).len(), 2);
    harness.tick_after(LATE);
    assert_eq!(in_flight(&harness).len(), 4);
    // As many late batches as there are slots have given theirs back. A further one keeps its slot until one of these is
    // answered.
    harness.tick_after(LATE);
    ask(&mut harness, 4, 3);
    harness.tick_after(LATE);
    assert_eq!(in_flight(&harness).len(), 4);
    harness.answer("es-0");
    assert_eq!(in_flight(&harness), [[0], [0], [0], [3]]);
    harness.finish();
}

#[test]
fn a_share_does_not_inherit_the_age_of_one_that_was_moved_out_of_its_hold() {
    let mut harness = harness(json!({"dispatch": {"max_in_flight_per_node": 2}, "hold": {"interval": "60ms"}}));
    let ask_after = |harness: &mut Harness, milliseconds: u32, identity, shard| {
        harness.tick_after(MILLISECOND * milliseconds);
        harness.send_with("/_bulk", &[("authorization", identity)], &index(&[id_of(shard, 0)]));
    };
    ask_after(&mut harness, 0, "first", 0);
    ask_after(&mut harness, 145, "second", 3);
    // There is no slot for the others. The slow shard's batch is late after 200 ms, and gives its slot to the third.
    ask_after(&mut harness, 5, "third", 3);
    ask_after(&mut harness, 5, "fourth", 0);
    ask_after(&mut harness, 44, "fourth", 3);
    harness.tick_after(MILLISECOND);
    assert_eq!(in_flight(&harness), [[0], [3], [3]]);
    // What was held for an interval needs no slot: one share since 155 ms, the other since 199 ms.
    harness.tick_after(MILLISECOND * 15);
    assert_eq!(in_flight(&harness), [[0], [3], [3], [0]]);
    harness.tick_after(MILLISECOND * 43);
    assert_eq!(in_flight(&harness).len(), 4);
    harness.tick_after(MILLISECOND);
    assert_eq!(in_flight(&harness), [[0], [3], [3], [0], [3]]);
}

#[test]
fn a_client_that_leaves_takes_its_moved_share_along() {
    let mut harness = with_slow_shard();
    write(&mut harness, &[0]);
    let moved = write(&mut harness, &[0]);
    harness.gone(moved);
    harness.finish();
    assert_eq!(harness.replies.len(), 2);
    let mut harness = self::harness(json!({}));
    write(&mut harness, &[0]);
    let moved = write(&mut harness, &[0, 3]);
    let held = write(&mut harness, &[3]);
    harness.gone(moved);
    harness.tick_after(LATE);
    assert_eq!(in_flight(&harness), [[0], [3]]);
    harness.finish();
    assert!(harness.replies.contains_key(&held) && !harness.replies.contains_key(&moved));
}

#[test]
fn a_batch_that_is_sent_again_is_not_late_while_it_waits() {
    let mut harness = harness(json!({"retry": {"backoff": "2s", "max_backoff": "2s"}}));
    write(&mut harness, &[0]);
    harness.answer_with("es-0", 429, "{}");
    write(&mut harness, &[3]);
    harness.tick_after(4 * LATE);
    assert_eq!(in_flight(&harness), [[0; 0]; 0]);
    harness.tick_after(10 * LATE);
    assert_eq!(in_flight(&harness), [[0]]);
    harness.tick_after(LATE);
    assert_eq!(in_flight(&harness), [[0], [3]]);
    harness.finish();
}

#[test]
fn operations_that_only_the_cluster_routes_wait_apart_too() {
    let mut state = state();
    add_index(&mut state, "j");
    for name in ["i", "j"] {
        state["metadata"]["indices"][name]["settings"]["index"]["routing_partition_size"] = json!("2");
    }
    let mut harness = Harness::knowing(json!({"hold": {"late_after": "200ms"}, "missing_id": "pass"}), &state);
    let mut write = |name: &str| {
        harness.send("/_bulk", &format!("{{\"index\":{{\"_index\":\"{name}\",\"routing\":\"x\"}}}}\n{{}}\n"));
    };
    ["i", "i", "j"].into_iter().for_each(&mut write);
    assert_eq!(harness.upstreams(), ["es"]);
    harness.tick_after(LATE);
    let indices = harness.calls.iter().map(|call| String::from_utf8_lossy(&call.body).contains(r#""i""#));
    assert_eq!(indices.collect::<Vec<_>>(), [true, true, false]);
    harness.finish();
}

#[test]
fn an_index_that_waits_for_copies_shares_no_batch_with_others() {
    for (copies, batches) in [(None, 1), (Some("1"), 1), (Some("0"), 1), (Some("2"), 2), (Some("all"), 2)] {
        let mut state = state();
        add_index(&mut state, "j")["settings"]["index"]["write"] = json!({"wait_for_active_shards": copies});
        let config = json!({"cluster_state": {"refresh": "1h"}, "dispatch": {"max_in_flight_per_node": 1}});
        let mut harness = Harness::knowing(config, &state);
        let id = id_of(0, 0);
        let lines = ["i", "j"].map(|name| operation("index", name, &id, &json!({})));
        harness.send("/_bulk", &lines.concat());
        assert_eq!(harness.calls.len(), batches, "{copies:?}");
        harness.settle();
    }
}

#[test]
fn with_a_batch_for_each_shard_a_slow_one_only_gives_its_slot_back() {
    let mut harness = harness(json!({"dispatch": {"level": "shard", "max_in_flight_per_node": 1}}));
    write(&mut harness, &[0]);
    write(&mut harness, &[0, 3]);
    harness.tick_after(LATE);
    assert_eq!(in_flight(&harness), [[0], [3]]);
    harness.finish();
}
