//! `dispatch.level`: whether batches are for nodes or for shards.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::harness::{Harness, add_index, id_of, id_on, index, keys, shard_of, state, with};
use crate::engine::pass_through::PassThrough;
use crate::routing::{Formula, hash};

fn harness(more: &Value) -> Harness {
    Harness::quiet(&with(json!({"dispatch": {"level": "shard"}}), more))
}

/// Returns the shards in each batch in flight, by upstream.
fn shards(harness: &Harness) -> BTreeMap<String, Vec<BTreeSet<u32>>> {
    let mut shards = BTreeMap::<_, Vec<_>>::new();
    for call in &harness.calls {
        let of_call = keys(call).iter().map(|key| shard_of(key)).collect();
        shards.entry(call.upstream.to_string()).or_default().push(of_call);
    }
    shards.values_mut().for_each(|batches| batches.sort());
    shards
}

/// Returns the ids or routing values in each batch in flight.
fn batches(harness: &Harness) -> Vec<Vec<String>> {
    harness.calls.iter().map(keys).collect()
}

/// Returns a body with two documents for each shard.
fn twice_each() -> String {
    index(&(0..12).map(|n| id_of(n % 6, n as usize / 6)).collect::<Vec<_>>())
}

#[test]
fn level_node_puts_all_shards_of_a_node_into_one_batch() {
    let mut harness = harness(&json!({"dispatch": {"level": "node"}}));
    harness.send("/_bulk", &twice_each());
    let batch = |shards: [u32; 2]| vec![BTreeSet::from(shards)];
    let expected = [("es-0", batch([0, 3])), ("es-1", batch([1, 4])), ("es-2", batch([2, 5]))];
    assert_eq!(shards(&harness), expected.map(|(upstream, batches)| (upstream.to_owned(), batches)).into());
}

#[test]
fn level_shard_makes_a_batch_for_each_shard() {
    let mut harness = harness(&json!({}));
    let ids = [0, 1].map(|_| harness.request("/_bulk", &twice_each()));
    harness.woken();
    let batches = |shards: [u32; 2]| shards.map(|shard| BTreeSet::from([shard])).to_vec();
    let expected = [("es-0", batches([0, 3])), ("es-1", batches([1, 4])), ("es-2", batches([2, 5]))];
    assert_eq!(shards(&harness), expected.map(|(upstream, batches)| (upstream.to_owned(), batches)).into());
    // The batch has the operations of both requests, each in its order.
    assert!(harness.calls.iter().all(|call| {
        let keys = keys(call);
        keys.len() == 4 && keys[..2] == keys[2..]
    }));
    harness.settle();
    for id in ids {
        let expected: Vec<_> = (0..12).map(|n| (id_of(n % 6, n as usize / 6), 201)).collect();
        assert_eq!(harness.items(id), expected);
    }
    harness.assert_idle();
}

#[test]
fn shards_of_different_indices_have_separate_batches() {
    let mut state = state();
    add_index(&mut state, "j");
    let mut harness = Harness::knowing(json!({"dispatch": {"level": "shard"}}), &state);
    let of_i = index(&[id_of(0, 0)]);
    let of_j = of_i.replace("\"i\"", "\"j\"");
    harness.send("/_bulk", &(of_i.clone() + &of_j));
    assert_eq!((harness.upstreams(), harness.bodies()), (vec!["es-0", "es-0"], vec![of_i, of_j]));
}

#[test]
fn a_shard_in_flight_does_not_block_other_shards_of_its_node() {
    let mut harness = harness(&json!({}));
    let first = [id_of(0, 0), id_of(3, 0), id_of(0, 1)];
    for id in first {
        harness.write(&[id]);
    }
    assert_eq!(batches(&harness), [[id_of(0, 0)], [id_of(3, 0)]]);
    harness.answer("es-0");
    assert_eq!(batches(&harness), [[id_of(3, 0)], [id_of(0, 1)]]);
}

#[test]
fn all_shards_of_a_node_share_its_slots() {
    let mut harness = harness(&json!({"dispatch": {"level": "shard", "max_in_flight_per_node": 1}}));
    let id = harness.write(&[id_of(0, 0), id_of(3, 0)]);
    assert_eq!(harness.upstreams(), ["es-0"]);
    harness.answer("es-0");
    assert_eq!(harness.upstreams(), ["es-0"]);
    harness.settle();
    assert_eq!(harness.items(id).len(), 2);
}

#[test]
fn operations_on_one_document_share_a_batch_whatever_the_index_is_called() {
    let mut harness = harness(&json!({}));
    let id = id_of(4, 0);
    let line = |name: &str, fields: &str| format!("{{\"index\":{{\"_index\":\"{name}\",{fields}}}}}\n{{}}\n");
    let plain = [line("i", &format!("\"_id\":\"{id}\"")), line("a", &format!("\"_id\":\"{id}\""))].concat();
    // The routing value determines the shard, not the id.
    let routed = ["i", "a"].map(|name| line(name, &format!("\"_id\":\"other\",\"routing\":\"{}\"", id_of(1, 0))));
    harness.send("/_bulk", &(plain.clone() + &routed.concat()));
    let mut bodies = harness.bodies();
    bodies.sort();
    let mut expected = vec![plain, routed.concat()];
    expected.sort();
    assert_eq!((harness.upstreams(), bodies), (vec!["es-1", "es-1"], expected));
}

#[test]
fn operations_without_a_known_shard_are_batched_by_node() {
    let bare = "{\"index\":{\"_index\":\"i\"}}\n{}\n";
    let mut passing = harness(&json!({"missing_id": "pass"}));
    passing.send("/_bulk", &bare.repeat(5));
    assert_eq!(passing.calls.iter().map(|call| keys(call).len()).collect::<Vec<_>>(), [5]);
    // With a routing value, the operation belongs to that shard.
    let mut direct = harness(&json!({"missing_id": "direct"}));
    direct.send("/_bulk", &bare.repeat(5));
    let keys = keys(&direct.calls[0]);
    assert_eq!((direct.calls.len(), keys.len()), (1, 5));
    let shard = shard_of(&keys[0]);
    let (same, other) = (id_of(shard, 0), id_of((shard + 3) % 6, 0));
    for id in [&same, &other] {
        direct.request("/_bulk", &index(std::slice::from_ref(id)));
    }
    direct.woken();
    assert_eq!(direct.calls.len(), 2);
    assert_eq!(super::level::keys(&direct.calls[1]), [other]);
}

#[test]
fn a_client_that_goes_is_forgotten_in_the_hold_of_each_shard() {
    let hold = json!({"early_release": false, "interval": "60s", "flush_threshold_docs": 2});
    let mut harness = harness(&json!({"hold": hold}));
    let goes = harness.request("/_bulk", &index(&[id_of(0, 0), id_of(3, 0)]));
    harness.gone(goes);
    harness.write(&[id_of(0, 1), id_of(3, 1)]);
    assert!(harness.calls.is_empty());
    harness.write(&[id_of(0, 2)]);
    assert_eq!(batches(&harness), [[id_of(0, 1), id_of(0, 2)]]);
}

#[test]
fn a_share_that_cannot_be_sent_leaves_its_shards_hold_free() {
    let mut harness = harness(&json!({}));
    let id = harness.write(&[id_on(0, 0)]);
    harness.envoy_says("es-0", 503, super::failures::REFUSED);
    harness.write(&[id_on(0, 0)]);
    assert_eq!(harness.upstreams(), ["es", "es-0"]);
    harness.settle();
    assert_eq!(harness.items(id).len(), 1);
    harness.load(&state());
    harness.assert_idle();
}

/// Returns a cluster with an index of this many shards, all on one node.
fn wide(shards: u32) -> Value {
    let mut state = state();
    let index = &mut state["metadata"]["indices"]["i"];
    index["settings"]["index"]["number_of_shards"] = json!(shards.to_string());
    index["routing_num_shards"] = json!(shards);
    state["routing_table"]["indices"]["i"]["shards"] = super::harness::shards(shards, |_| "n0".to_owned()).into();
    state
}

#[test]
fn a_request_for_more_shards_than_the_maximum_passes_through() {
    const SHARDS: u32 = 1 << 17;
    let mut harness = Harness::knowing(json!({"dispatch": {"level": "shard"}}), &wide(SHARDS));
    let formula = Formula::Factor { shards: SHARDS, routing_shards: SHARDS };
    let mut seen = BTreeSet::new();
    let ids: Vec<_> =
        (0..).map(|id: u32| id.to_string()).filter(|id| seen.insert(formula.shard(hash(id)))).take(65_537).collect();
    let body = index(&ids);
    let id = harness.request("/_bulk", &body);
    assert!(harness.passed[&id] == body.as_bytes());
    assert_eq!((harness.passed_because(PassThrough::Shards), harness.engine.memory()), (1, 0));
    let fits = harness.request("/_bulk", &index(&ids[1..]));
    assert!(!harness.passed.contains_key(&fits));
    // Each share uses memory in addition to its operation.
    assert!(harness.engine.memory() > 65_536 * 200, "{}", harness.engine.memory());
    harness.gone(fits);
    assert_eq!(harness.engine.memory(), 0);
}
