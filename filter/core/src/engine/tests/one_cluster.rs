//! One Envoy cluster with all nodes, in which a header of the call names the node.

use std::time::Duration;

use serde_json::{Value, json};

use super::admin::status;
use super::harness::{Harness, add_index, header_map, id_on, index, operation, state, with};
use crate::engine::command::Call;
use crate::engine::metrics::{Counter, Gauge};
use crate::routing::{Unrouted, UpstreamId};

const HEADER: &str = "x-node";

/// Returns the state of the three nodes, with the last one at this address.
fn state_with(last: &str) -> Value {
    let at = |address: &str| json!({"http": {"publish_address": address}});
    let nodes = json!({"n0": at("10.0.0.1:9200"), "n1": at("es-1/10.0.0.2:9200"), "n2": at(last)});
    with(state(), &json!({"http": nodes}))
}

/// Returns a harness that knows this state.
fn knowing(state: &Value) -> Harness {
    Harness::knowing(json!({"nodes": {"header": HEADER}, "admin_path": "/_bulk_reshuffle"}), state)
}

/// Returns a harness with a request whose three documents are in flight, one to each node.
fn harness() -> Harness {
    let mut harness = knowing(&state_with("[fd00::3]:9200"));
    harness.write(&[id_on(0, 0), id_on(1, 0), id_on(2, 0)]);
    harness
}

/// Returns the address that a call names.
fn address(call: &Call) -> Option<&str> {
    call.node.as_ref().map(|(name, address)| {
        assert_eq!(name.as_ref(), HEADER);
        address.as_ref()
    })
}

fn addresses(harness: &Harness) -> Vec<Option<&str>> {
    harness.calls.iter().map(address).collect()
}

/// Answers the oldest call with the item of the n-th document of a node. Envoy adds the address of the host that took it.
fn answer_from(harness: &mut Harness, host: &str, (node, n): (usize, usize)) {
    let items = json!([{"index": {"_index": "i", "_id": id_on(node, n), "status": 201}}]);
    let body = json!({"took": 1, "errors": false, "items": items}).to_string();
    harness.respond("es", 200, &[("content-type", "application/json"), (HEADER, host)], &body);
}

#[test]
fn each_batch_names_its_node() {
    let mut harness = harness();
    assert_eq!(harness.upstreams(), ["es"; 3]);
    assert_eq!(addresses(&harness), [Some("10.0.0.1:9200"), Some("10.0.0.2:9200"), Some("[fd00::3]:9200")]);
    assert_eq!(harness.bodies(), [0, 1, 2].map(|node| index(&[id_on(node, 0)])));
    let nodes = status(&mut harness)["nodes"].clone();
    let of_node = |node: usize| {
        let field = |name: &str| nodes[node][name].as_str().unwrap().to_owned();
        (field("upstream"), field("address"), nodes[node]["in_flight_operations"].as_u64())
    };
    assert_eq!(of_node(1), ("es-1".to_owned(), "10.0.0.2:9200".to_owned(), Some(1)));
    harness.finish();
    let batches: Vec<u64> =
        ["es-0", "es-1", "es-2"].map(|node| harness.counts[&Counter::Batches(harness.upstream(node))]).to_vec();
    assert_eq!((batches, harness.counts.get(&Counter::Batches(UpstreamId::COORDINATOR))), (vec![1; 3], None));
}

#[test]
fn a_batch_for_the_coordinator_names_no_node() {
    let mut state = state_with("[fd00::3]:9200");
    // Only the cluster knows the shards of such an index.
    add_index(&mut state, "series")["settings"]["index"]["mode"] = json!("time_series");
    let mut harness = knowing(&state);
    harness.send("/_bulk", &(operation("create", "series", "a", &json!({})) + &index(&[id_on(0, 0)])));
    let mut named = addresses(&harness);
    named.sort_unstable();
    assert_eq!((harness.upstreams(), named), (vec!["es", "es"], vec![None, Some("10.0.0.1:9200")]));
    harness.finish();
}

#[test]
fn no_client_names_a_node() {
    let harness = harness();
    let mut headers = header_map(&[(":path", "/_bulk"), (HEADER, "a"), ("x-nodes", "b"), (HEADER, "c")]);
    assert_eq!(harness.engine.take_node_header(&mut headers), Some(HEADER));
    assert_eq!(headers, header_map(&[(":path", "/_bulk"), ("x-nodes", "b")]));
    assert_eq!(harness.engine.take_node_header(&mut headers), None);
    let mut headers = header_map(&[(HEADER, "a")]);
    assert_eq!(Harness::new(json!({})).engine.take_node_header(&mut headers), None);
}

#[test]
fn an_answer_from_another_host_shows_that_envoy_lacks_the_node() {
    let mut harness = harness();
    let (first, second) = (harness.upstream("es-0"), harness.upstream("es-1"));
    answer_from(&mut harness, "10.0.0.2:9200", (0, 0));
    assert_eq!(harness.counts[&Counter::BatchesRedirected(first)], 1);
    answer_from(&mut harness, "10.0.0.2:9200", (1, 0));
    assert!(!harness.counts.contains_key(&Counter::BatchesRedirected(second)), "it named this node");
    answer_from(&mut harness, "[fd00::3]:9200", (2, 0));
    let reply = harness.replies.values().next().unwrap();
    assert!(reply.headers.iter().all(|(name, _)| name != HEADER), "a client would see the addresses of nodes");
    assert_eq!(status(&mut harness)["nodes"][0]["without_upstream"], "upstream");
    let id = harness.write(&[id_on(0, 1), id_on(1, 1)]);
    assert_eq!(addresses(&harness), [None, Some("10.0.0.2:9200")]);
    assert_eq!(harness.counts[&Counter::OperationsUnrouted(Unrouted::Upstream)], 1);
    harness.settle();
    assert_eq!(harness.items(id).len(), 2);
    // The next poll tries the node again.
    harness.tick_after(Duration::from_secs(6));
    harness.load(&state_with("[fd00::3]:9200"));
    harness.write(&[id_on(0, 2)]);
    assert_eq!(addresses(&harness), [Some("10.0.0.1:9200")]);
}

#[test]
fn a_node_that_moves_while_a_batch_is_in_flight_is_not_taken_for_another_host() {
    let mut harness = harness();
    let last = harness.upstream("es-2");
    let mut moved = state_with("10.0.0.9:9200");
    moved["version"] = json!(2);
    moved["nodes"]["n2"]["ephemeral_id"] = json!("restarted");
    harness.tick_after(Duration::from_secs(5));
    harness.load(&moved);
    let call = harness.calls.remove(2);
    harness.calls.insert(0, call);
    answer_from(&mut harness, "[fd00::3]:9200", (2, 0));
    assert!(!harness.counts.contains_key(&Counter::BatchesRedirected(last)));
    harness.settle();
    harness.write(&[id_on(2, 1)]);
    assert_eq!((addresses(&harness), harness.upstream("es-2")), (vec![Some("10.0.0.9:9200")], last));
}

#[test]
fn a_host_that_is_not_healthy_is_an_upstream_that_cannot_be_reached() {
    let mut harness = harness();
    let first = harness.upstream("es-0");
    harness.envoy_says("es", 503, "no healthy upstream");
    assert_eq!(harness.counts[&Counter::BatchesRedirected(first)], 1);
    assert_eq!(addresses(&harness), [Some("10.0.0.2:9200"), Some("[fd00::3]:9200"), None]);
    harness.settle();
    assert_eq!((harness.replies.len(), harness.engine.memory()), (1, 0));
}

#[test]
fn nodes_with_the_same_name_get_their_own_operations() {
    let mut state = state_with("[fd00::3]:9200");
    state["nodes"]["n1"]["name"] = json!("es-0");
    let mut harness = knowing(&state);
    harness.write(&[id_on(0, 0), id_on(1, 0)]);
    assert_eq!(addresses(&harness), [Some("10.0.0.1:9200"), Some("10.0.0.2:9200")]);
    assert_eq!(harness.bodies(), [0, 1].map(|node| index(&[id_on(node, 0)])));
    harness.finish();
}

/// The Envoy cluster's fallback may by chance choose the right node, at another address.
#[test]
fn an_answer_of_another_host_shows_that_the_cluster_lacks_the_node() {
    let mut harness = Harness::without_state(json!({"nodes": {"header": HEADER}}));
    harness.host_header = Some((HEADER, "10.0.0.2:9200"));
    harness.tick_after(Duration::from_millis(1));
    harness.load(&state_with("[fd00::3]:9200"));
    let faulty = |name: &str| harness.engine.gauges().contains_key(&Gauge::UpstreamsFaulty(harness.upstream(name)));
    assert_eq!(["es-0", "es-1", "es-2"].map(faulty), [true, false, true]);
}
