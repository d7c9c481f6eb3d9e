//! Requests that pass through while the filter counts what it would have done.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::admin::status;
use super::harness::{Harness, MILLISECOND, add_index, id_on, index, set_releases, state, zoned_state};
use crate::engine::command::RequestId;
use crate::engine::input::Input;
use crate::engine::metrics::Counter;
use crate::engine::pass_through::PassThrough;
use crate::routing::{Unrouted, UpstreamId};

const OBSERVE: &str = "observe";

fn observing() -> Harness {
    Harness::knowing(json!({"enabled": OBSERVE}), &zoned_state())
}

/// Returns the counters of real or of observed requests, by the names that they have in common.
fn figures(harness: &Harness, is_observed: bool) -> BTreeMap<String, u64> {
    let upstreams = harness.engine.upstreams();
    let name = |counter: &Counter| {
        let name = counter.name(upstreams);
        let name = name.strip_prefix("bulk_reshuffle_").unwrap().strip_suffix(".coordinator.es").unwrap();
        match (name.strip_prefix("observed_"), is_observed) {
            (Some(name), true) => Some(name.to_owned()),
            (None, false) => Some(name.to_owned()),
            _ => None,
        }
    };
    let families = [
        "requests_total",
        "operations_unrouted_total",
        "batches_total",
        "batch_requests_total",
        "batch_operations_total",
        "batch_bytes_total",
    ];
    let named = harness.counts.iter().filter_map(|(counter, count)| Some((name(counter)?, *count)));
    named
        .filter(|(name, _)| families.contains(&name.split('.').next().unwrap()) && !name.contains("observed"))
        .collect()
}

#[test]
fn observed_requests_leave_no_caller_behind() {
    let mut harness = observing();
    for n in 0..3 {
        let id = harness.send(&format!("/_bulk?routing={n}"), &index(&[id_on(0, 0)]));
        assert!(harness.observed.contains_key(&id));
        assert!(!harness.engine.requests.callers_are_idle());
        harness.gone(id);
    }
    harness.assert_idle();
}

#[test]
fn an_observed_request_passes_through_while_its_body_arrives() {
    let mut harness = observing();
    let body = index(&[id_on(0, 0), id_on(1, 0), id_on(2, 0)]);
    let id = harness.head("/_bulk", &[]);
    assert!(harness.observed.contains_key(&id) && harness.passed.is_empty());
    let (first, rest) = body.split_at(20);
    harness.data(id, first, false);
    harness.data(id, rest, true);
    harness.woken();
    assert_eq!(harness.observed[&id], body.as_bytes());
    assert!(harness.calls.is_empty() && harness.replies.is_empty());
    assert_eq!(harness.passed_because(PassThrough::Observed), 1);
    assert_eq!(harness.counts[&Counter::ObservedMerged], 1);
    for node in ["es-0", "es-1", "es-2"] {
        let upstream = harness.upstream(node);
        assert_eq!(harness.counts[&Counter::ObservedBatches(upstream)], 1);
        assert_eq!(harness.counts[&Counter::ObservedBatchOperations(upstream)], 1);
    }
    assert_eq!(harness.counted(|counter| matches!(counter, Counter::Operations | Counter::Batches(_))), 0);
    harness.gone(id);
    harness.assert_idle();
}

#[test]
fn observed_requests_without_ids_are_distributed_as_if_they_were_split() {
    let mut harness = observing();
    let ids: Vec<_> = (0..3).map(|_| harness.send("/i/_bulk", "{\"index\":{}}\n{}\n")).collect();
    for node in ["es-0", "es-1", "es-2"] {
        assert_eq!(harness.counts[&Counter::ObservedBatches(harness.upstream(node))], 1, "{node}");
    }
    ids.into_iter().for_each(|id| harness.gone(id));
    harness.assert_idle();
}

#[test]
fn the_figures_are_those_of_a_filter_that_splits_the_same_requests() {
    let mut bodies: Vec<String> = (0..30).map(|n| index(&[id_on(n % 3, n), id_on((n + 1) % 3, n)])).collect();
    bodies.push("{\"index\":{\"_index\":\"none\"}}\n{}\n".to_owned());
    bodies.push("nonsense\n".to_owned());
    bodies.push(String::from("\n"));
    let split = |enabled: Value| {
        let mut harness = Harness::knowing(json!({"enabled": enabled}), &state());
        for body in &bodies {
            let id = harness.send("/_bulk", body);
            harness.settle();
            harness.now += 10 * MILLISECOND;
            harness.gone(id);
        }
        harness
    };
    let (real, observed) = (split(json!(true)), split(json!(OBSERVE)));
    let expected = figures(&real, false);
    assert_eq!(figures(&observed, true), expected);
    assert_eq!(expected["requests_total.outcome.merged"], 30);
    assert_eq!(expected["requests_total.outcome.passed_through.reason.unknown_index"], 1);
}

#[test]
fn requests_that_arrive_together_would_share_batches() {
    let mut harness = observing();
    let ids: Vec<u32> = (0..20).map(|n| harness.request("/_bulk", &index(&[id_on(0, n)]))).collect();
    let upstream = harness.upstream("es-0");
    let batches = |harness: &Harness| harness.counts[&Counter::ObservedBatches(upstream)];
    assert_eq!(batches(&harness), 1, "the others wait for the first one");
    harness.tick_after(Duration::from_secs(1));
    assert_eq!(batches(&harness), 2);
    assert_eq!(harness.counts[&Counter::ObservedBatchRequests(upstream)], 20);
    ids.into_iter().for_each(|id| harness.gone(id));
    harness.assert_idle();
}

#[test]
fn a_batch_is_in_flight_as_long_as_the_quickest_requests() {
    let mut harness = observing();
    for n in 0..500 {
        let id = harness.request("/_bulk", &index(&[id_on(0, n)]));
        harness.tick_after(20 * MILLISECOND);
        harness.gone(id);
    }
    let upstream = harness.upstream("es-0");
    let before = harness.counts[&Counter::ObservedBatches(upstream)];
    // Today, these requests wait for one another. The filter would find the node idle each time.
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(harness.request("/_bulk", &index(&[id_on(0, n)])));
        harness.tick_after(30 * MILLISECOND);
    }
    ids.into_iter().for_each(|id| harness.gone(id));
    assert_eq!(harness.counts[&Counter::ObservedBatches(upstream)] - before, 10);
}

#[test]
fn only_requests_for_some_indices_are_observed() {
    let mut state = zoned_state();
    add_index(&mut state, "j");
    let other = add_index(&mut state, "k");
    other["mappings"] = json!({"_doc": {"_meta": {"bulk_reshuffle": {"enabled": OBSERVE}}}});
    let config = json!({"indices": [{"pattern": "j*", "enabled": OBSERVE}]});
    let mut harness = Harness::knowing(config, &state);
    let body = |name: &str| format!("{{\"index\":{{\"_index\":\"{name}\",\"_id\":\"1\"}}}}\n{{}}\n");
    for (number, name) in ["j", "k"].into_iter().enumerate() {
        let both = format!("{}{}", body("i"), body(name));
        let id = harness.request("/_bulk", &both);
        assert_eq!(harness.passed[&id], both.as_bytes());
        assert_eq!(harness.passed_because(PassThrough::Observed), number as u64 + 1);
        assert_eq!(harness.counts[&Counter::ObservedMerged], number as u64 + 1);
        harness.gone(id);
    }
    harness.send("/_bulk", &body("i"));
    assert_eq!(harness.calls.len(), 1);
    harness.finish();
}

#[test]
fn an_observed_request_without_a_known_place_is_counted_by_its_reason() {
    let mut harness = observing();
    harness.request("/_bulk?odd=1", &index(&[id_on(0, 0)]));
    harness.request("/_bulk", "{\"index\":{\"_index\":\"none\"}}\n{}\n");
    assert_eq!(harness.passed_because(PassThrough::Observed), 2);
    for why in [PassThrough::Parameter, PassThrough::Unrouted(Unrouted::UnknownIndex)] {
        assert_eq!(harness.counts[&Counter::ObservedPassedThrough(why)], 1, "{why:?}");
    }
    assert_eq!(harness.counted(|counter| *counter == Counter::ObservedBatches(UpstreamId::COORDINATOR)), 0);
}

/// A client could otherwise use memory with requests that nodes never answer.
#[test]
fn what_would_be_held_is_bounded() {
    let mut harness = observing();
    for n in 0..10_100 {
        let id = harness.head("/_bulk", &[("authorization", &format!("{}", n % 7))]);
        harness.data(id, index(&[id_on(0, n % 50)]), true);
    }
    let upstream = harness.upstream("es-0");
    assert!(harness.counts[&Counter::ObservedBatchRequests(upstream)] >= 10_000);
}

fn passed(id: u32, address: &str, status: u16) -> Input {
    Input::Passed { request: RequestId(id), address: address.to_owned(), status }
}

/// Lets the answer to an observed request pass by, in chunks.
fn answer(harness: &mut Harness, id: u32, text: &str) {
    for chunk in text.as_bytes().chunks(40) {
        if harness.engine.reads_answer(RequestId(id)) {
            harness.stream(Input::AnswerData { request: RequestId(id), chunk: chunk.to_vec() });
        }
    }
}

/// Lets an observed request end that has gone to the host with this address.
fn pass(harness: &mut Harness, id: u32, address: &str, status: u16) {
    assert!(harness.engine.observes(RequestId(id)));
    harness.stream(passed(id, address, status));
    harness.gone(id);
    assert!(!harness.engine.observes(RequestId(id)));
}

/// Returns the bytes of an observed request with this body, which goes to the host with this address: located,
/// unlocated, between nodes, between zones, and to other zones with the filter.
fn bytes_passed_to(harness: &mut Harness, address: &str, body: &str) -> [u64; 5] {
    harness.counts.clear();
    let id = harness.request("/_bulk", body);
    pass(harness, id, address, 200);
    // A request goes to one host.
    harness.stream(passed(id, address, 200));
    harness.woken();
    let bytes = [
        Counter::ObservedLocatedBytes,
        Counter::ObservedUnlocatedBytes,
        Counter::ObservedBytesBetweenNodes,
        Counter::ObservedBytesBetweenZones,
        Counter::ObservedBytesToOtherZones,
    ];
    bytes.map(|counter| harness.counts.get(&counter).copied().unwrap_or_default())
}

/// Returns a harness that observes and knows the addresses.
fn observing_zones(nodes: &Value) -> Harness {
    Harness::knowing(json!({"enabled": OBSERVE, "nodes": nodes, "missing_id": "pass"}), &zoned_state())
}

#[test]
fn the_addresses_of_the_nodes_are_queried_when_a_request_is_observed() {
    let mut state = zoned_state();
    set_releases(&mut state, ["8.19.2"; 3]);
    for node in ["n0", "n1", "n2"] {
        state["nodes"][node]["roles"] = json!(["data", "ingest"]);
    }
    let config = json!({"indices": [{"pattern": "i", "enabled": OBSERVE}]});
    let mut harness = Harness::knowing(config, &state);
    let body = index(&[id_on(0, 0)]);
    let all = body.len() as u64;
    assert_eq!(bytes_passed_to(&mut harness, "10.0.0.0:9200", &body), [0, all, 0, 0, 0]);
    harness.tick_after(Duration::from_secs(1));
    harness.load(&state);
    assert_eq!(bytes_passed_to(&mut harness, "10.0.0.0:9200", &body), [all, 0, 0, 0, 0]);
    harness.assert_idle();
}

#[test]
fn the_bytes_that_go_on_to_another_node_or_zone_are_counted() {
    let mut harness = observing_zones(&json!({}));
    let [one, two, three] = [0, 1, 2].map(|node| index(&[id_on(node, 0)]));
    let [a, b, c] = [&one, &two, &three].map(|lines| lines.len() as u64);
    let without_id = "{\"index\":{\"_index\":\"i\"}}\n{}\n";
    let body = format!("{one}{two}{three}{without_id}");
    let rest = without_id.len() as u64;
    // The node in the other zone gets the request, and sends two operations back to the first zone.
    assert_eq!(bytes_passed_to(&mut harness, "10.0.0.2:9200", &body), [a + b + c, rest, a + b, a + b, 0]);
    assert_eq!(bytes_passed_to(&mut harness, "10.0.0.0:9200", &body), [a + b + c, rest, b + c, c, 0]);
    // From an Envoy with a zone, the way to the first node counts too.
    harness.engine.set_zone("a".to_owned());
    let all = a + b + c;
    assert_eq!(bytes_passed_to(&mut harness, "10.0.0.2:9200", &body), [all, rest, a + b, all + a + b, c]);
    assert_eq!(bytes_passed_to(&mut harness, "10.0.0.0:9200", &body), [all, rest, b + c, c, c]);
    // If no node has the address, how far the operations go is not known.
    assert_eq!(bytes_passed_to(&mut harness, "10.0.0.9:9200", &body), [0, all + rest, 0, 0, 0]);
    harness.assert_idle();
}

#[test]
fn the_attribute_with_the_zone_can_be_chosen() {
    let mut harness = observing_zones(&json!({"zone": "rack"}));
    let body = index(&[id_on(1, 0)]);
    let all = body.len() as u64;
    assert_eq!(bytes_passed_to(&mut harness, "10.0.0.0:9200", &body), [all, 0, all, all, 0]);
}

#[test]
fn bytes_for_a_node_without_an_upstream_are_unlocated() {
    let mut harness = observing_zones(&json!({"only": ["es-1", "es-2"]}));
    let (first, second) = (index(&[id_on(0, 0)]), index(&[id_on(1, 0)]));
    let [a, b] = [&first, &second].map(|lines| lines.len() as u64);
    let found = bytes_passed_to(&mut harness, "10.0.0.0:9200", &format!("{first}{second}"));
    assert_eq!(found, [b, a, b, 0, 0]);
}

#[test]
fn the_status_reports_what_the_filter_would_have_done() {
    let config = json!({"enabled": OBSERVE, "admin_path": "/_bulk_reshuffle"});
    let mut harness = Harness::knowing(config, &zoned_state());
    harness.engine.set_zone("a".to_owned());
    let body = index(&[id_on(0, 0), id_on(1, 0)]);
    let id = harness.request("/_bulk", &body);
    harness.request("/_bulk?odd=1", &body);
    harness.gone(id);
    harness.tick_after(Duration::from_secs(1));
    let status = status(&mut harness);
    let observed = &status["totals"]["observed"];
    assert_eq!((&observed["merged"], &observed["passed_through"]), (&json!(1), &json!(1)));
    assert_eq!(observed["passed_through_by_reason"], json!({"parameter": 1}));
    assert!(status["totals"]["reasons"]["parameter"].is_string());
    assert_eq!(observed["zone"], "a");
    assert_eq!(status["nodes"][1]["observed_batch_operations"], 1);
    assert_eq!(status["nodes"][1]["batch_operations"], 0);
}

#[test]
fn the_status_lists_who_writes_how() {
    let config = json!({"enabled": OBSERVE, "admin_path": "/_bulk_reshuffle"});
    let mut harness = Harness::knowing(config, &zoned_state());
    let alice = ("authorization", "Basic YWxpY2U6c2VjcmV0");
    let body = index(&[id_on(0, 0), id_on(1, 0)]);
    let to = |name: &str| format!("{{\"index\":{{\"_index\":\"{name}\",\"_id\":\"1\"}}}}\n{{}}\n");
    let item = |id: &str| json!({"index": {"_index": "i", "_id": id, "status": 201}});
    let failed =
        |id: &str, name: &str| json!({"index": {"_index": "i", "_id": id, "status": 400, "error": {"type": name}}});
    let items = |items: &[Value]| json!({"took": 1, "errors": true, "items": items}).to_string();
    let refusal = json!({"error": {"type": "es_rejected_execution_exception"}, "status": 429}).to_string();
    let answers = [
        (
            200,
            items(&[
                item("1"),
                failed("2", "version_conflict_engine_exception"),
                failed("1", "strict_dynamic_mapping_exception"),
            ]),
        ),
        (429, refusal),
        (0, String::new()),
    ];
    for (status, text) in answers {
        let id = harness.request_with("/_bulk", &[alice, ("user-agent", "bulk/1")], &format!("{body}{}", to("a")));
        answer(&mut harness, id, &text);
        pass(&mut harness, id, "10.0.0.1:9200", status);
    }
    let id = harness.request_with("/_bulk", &[alice], &to("none"));
    answer(&mut harness, id, r#"{"took":1,"errors":false,"items":["#);
    assert!(!harness.engine.reads_answer(RequestId(id)), "the rest of a success is not read");
    pass(&mut harness, id, "10.0.0.1:9200", 200);
    for text in [items(&[failed("1", "version_conflict_engine_exception"), item("2")]), "<html>".to_owned()] {
        let id = harness.request("/i/_bulk?odd=1", &body);
        answer(&mut harness, id, &text);
        pass(&mut harness, id, "10.0.0.1:9200", 200);
    }
    let status = status(&mut harness);
    let row = |[user, agent, index]: [Option<&str>; 3], figures: [u64; 5], failed: Value, reasons: Value| {
        let [requests, operations, bytes, refused, unread] = figures;
        json!({
            "user": user, "agent": agent, "index": index, "requests": requests, "operations": operations,
            "bytes": bytes, "refused": refused, "failed_by_type": failed, "unread_answers": unread,
            "passed_through_by_reason": reasons,
        })
    };
    let (bytes, one) = (body.len() as u64, to("a").len() as u64);
    let (user, agent) = (Some("Basic alice"), Some("bulk/1"));
    let failed = |name: &str, refused: u64| json!({name: 1, "es_rejected_execution_exception": refused});
    let conflict = "version_conflict_engine_exception";
    let expected = [
        // The first request, before the state was known.
        row([None, None, None], [1, 0, 0, 1, 0], json!({}), json!({"no_state": 1})),
        row([None, None, Some("i")], [2, 0, 0, 0, 1], json!({conflict: 1}), json!({"parameter": 2})),
        row([user, None, Some("none")], [1, 0, 0, 0, 0], json!({}), json!({"unknown_index": 1})),
        row([user, agent, Some("a")], [3, 3, 3 * one, 2, 0], failed("strict_dynamic_mapping_exception", 1), json!({})),
        row([user, agent, Some("i")], [3, 6, 3 * bytes, 2, 0], failed(conflict, 2), json!({})),
    ];
    assert_eq!(status["writers"], json!(expected));
    assert_eq!(status["other_writers"]["requests"], 0);
    assert!(!status.to_string().contains("secret") && !status.to_string().contains("YWxp"));
}

/// Without the headers of a request that is read because of its index, only its identity is known.
#[test]
fn requests_for_an_observed_index_have_a_writer_too() {
    let mut state = zoned_state();
    add_index(&mut state, "j");
    let config = json!({"admin_path": "/_bulk_reshuffle", "indices": [{"pattern": "j", "enabled": OBSERVE}]});
    let mut harness = Harness::knowing(config, &state);
    let headers = [("x-forwarded-for", "::1"), ("user-agent", "bulk/1")];
    let id = harness.request_with("/_bulk", &headers, "{\"index\":{\"_index\":\"j\",\"_id\":\"1\"}}\n{}\n");
    pass(&mut harness, id, "10.0.0.1:9200", 200);
    let status = status(&mut harness);
    let writer = &status["writers"][0];
    assert_eq!((&writer["user"], &writer["agent"], &writer["index"]), (&json!("::1"), &Value::Null, &json!("j")));
}
