use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Harness, id_of, id_on, index, operation, state};
use crate::engine::metrics::Counter;
use crate::routing::Unrouted;

/// Sends a request for es-0 and es-1, which is dispatched.
fn split(config: Value) -> (Harness, u32) {
    Harness::writing(config, &[id_on(0, 0), id_on(1, 0), id_on(0, 1)])
}

pub const REFUSED: &str =
    "upstream connect error or disconnect/reset before headers. reset reason: remote connection failure";
const CONNECT_TIMEOUT: &str =
    "upstream connect error or disconnect/reset before headers. reset reason: connection timeout";
pub const RESET: &str =
    "upstream connect error or disconnect/reset before headers. reset reason: connection termination";

#[test]
fn a_share_that_was_certainly_not_sent_goes_to_the_coordinator() {
    for not_sent in [true, false] {
        let (mut harness, id) = split(json!({}));
        let batch = harness.bodies_to("es-0").remove(0);
        match not_sent {
            true => harness.refuse_to_send("es-0"),
            false => harness.envoy_says("es-0", 503, REFUSED),
        }
        assert_eq!(harness.upstreams(), ["es-1", "es"]);
        assert_eq!(harness.bodies()[1], batch);
        harness.settle();
        assert_eq!(harness.statuses(id), [201, 201, 201]);
    }
}

#[test]
fn the_coordinator_may_need_several_attempts_to_find_a_live_node() {
    let (mut harness, id) = split(json!({}));
    harness.envoy_says("es-0", 503, REFUSED);
    (0..4).for_each(|_| harness.envoy_says("es", 503, REFUSED));
    harness.settle();
    assert_eq!(harness.statuses(id), [201, 201, 201]);
}

#[test]
fn a_missing_upstream_is_not_used_again_until_the_next_poll() {
    let (mut harness, _) = split(json!({}));
    harness.refuse_to_send("es-0");
    harness.settle();
    let unrouted =
        |harness: &Harness| harness.counted(|counter| *counter == Counter::OperationsUnrouted(Unrouted::Upstream));
    assert_eq!(unrouted(&harness), 0);
    let id = harness.write(&[id_on(0, 0), id_on(1, 0)]);
    assert_eq!((harness.upstreams(), unrouted(&harness)), (vec!["es", "es-1"], 1));
    harness.settle();
    assert_eq!(harness.statuses(id), [201, 201]);
    harness.load(&state());
    harness.write(&[id_on(0, 0), id_on(1, 0)]);
    assert_eq!(harness.upstreams(), ["es-0", "es-1"]);
}

/// Otherwise each batch for a node that has lost power would wait for `connect_timeout`.
#[test]
fn an_upstream_to_which_a_connection_took_too_long_is_not_used_for_ten_seconds() {
    let (mut harness, id) = split(json!({}));
    harness.envoy_says("es-0", 503, CONNECT_TIMEOUT);
    harness.settle();
    assert_eq!(harness.statuses(id), [201, 201, 201]);
    for (seconds, expected) in [(0, "es"), (6, "es"), (6, "es-0")] {
        harness.tick_after(Duration::from_secs(seconds));
        harness.load(&state());
        harness.write(&[id_on(0, 0)]);
        assert_eq!(harness.upstreams(), [expected], "after {seconds} more");
        harness.settle();
    }
    // A refused connection costs no time.
    let (mut harness, _) = split(json!({}));
    harness.envoy_says("es-0", 503, REFUSED);
    harness.settle();
    harness.write(&[id_on(0, 0)]);
    assert_eq!(harness.upstreams(), ["es-0"]);
}

#[test]
fn if_the_coordinator_cannot_be_reached_either_the_client_gets_an_error() {
    let (mut harness, id) = Harness::writing(json!({}), &[id_on(0, 0)]);
    harness.envoy_says("es-0", 503, REFUSED);
    (0..5).for_each(|_| harness.envoy_says("es", 503, "no healthy upstream"));
    assert_eq!(harness.replies[&id].status, 503);
    assert_eq!(harness.reply(id)["error"]["type"], "no_upstream_exception");
    let (mut harness, id) = split(json!({}));
    harness.envoy_says("es-0", 503, REFUSED);
    (0..5).for_each(|_| harness.envoy_says("es", 503, REFUSED));
    harness.settle();
    assert_eq!(harness.statuses(id), [503, 201, 503]);
}

#[test]
fn an_unknown_outcome_is_reported_and_not_retried() {
    for status in [504, 503] {
        let (mut harness, id) = split(json!({}));
        match status {
            504 => harness.envoy_says("es-0", 504, "upstream request timeout"),
            _ => harness.lose("es-0"),
        }
        assert_eq!(harness.upstreams(), ["es-1"]);
        harness.settle();
        assert_eq!(harness.statuses(id), [status, 201, status]);
        let reply = harness.reply(id);
        assert_eq!(reply["errors"], true);
        assert_eq!(reply["items"][0]["index"]["_index"], "i");
        assert_eq!(reply["items"][0]["index"]["error"]["type"], "bulk_outcome_unknown_exception");
    }
}

#[test]
fn a_lost_idempotent_batch_is_retried() {
    let (mut harness, id) = split(json!({}));
    let batch = harness.bodies_to("es-0").remove(0);
    harness.envoy_says("es-0", 503, RESET);
    assert_eq!(harness.upstreams(), ["es-1"]);
    harness.tick_after(Duration::from_millis(24));
    assert_eq!(harness.upstreams(), ["es-1"]);
    harness.tick_after(Duration::from_millis(26));
    assert_eq!(harness.upstreams(), ["es-1", "es-0"]);
    assert_eq!(harness.bodies()[1], batch);
    harness.settle();
    assert_eq!(harness.statuses(id), [201, 201, 201]);
    harness.load(&state());
    harness.assert_idle();
}

#[test]
fn operations_that_may_have_been_carried_out_are_never_reported_as_refused() {
    let endings: [&dyn Fn(&mut Harness); 2] = [&|harness| harness.answer_with("es-0", 400, TOO_MUCH), &|harness| {
        harness.envoy_says("es-0", 503, REFUSED);
        (0..5).for_each(|_| harness.envoy_says("es", 503, REFUSED));
    }];
    for end in endings {
        let (mut harness, id) = Harness::writing(json!({"cluster_state": {"refresh": "1h"}}), &[id_on(0, 0)]);
        harness.envoy_says("es-0", 503, RESET);
        harness.tick_after(Duration::from_millis(50));
        end(&mut harness);
        assert_eq!(harness.statuses(id), [503]);
        assert_eq!(harness.reply(id)["items"][0]["index"]["error"]["type"], "bulk_outcome_unknown_exception");
    }
}

/// Returns the lines of a document with an external version.
fn external(version_type: &str, id: &str) -> String {
    operation("index", "i", id, &json!({"version": 5, "version_type": version_type}))
}

#[test]
fn a_lost_batch_with_versions_that_may_be_written_again_is_retried() {
    let mut harness = Harness::new(json!({}));
    let id = harness.send("/_bulk", &(index(&[id_on(0, 0)]) + &external("external_gte", &id_on(0, 1))));
    harness.envoy_says("es-0", 503, RESET);
    harness.tick_after(Duration::from_millis(50));
    harness.settle();
    assert_eq!(harness.statuses(id), [201, 201]);
}

#[test]
fn a_lost_batch_that_is_not_idempotent_is_not_retried() {
    let (first, second, third) = (id_on(0, 0), id_on(1, 0), id_on(0, 1));
    for line in [
        operation("create", "i", &third, &json!({})),
        operation("update", "i", &third, &json!({})),
        format!("{{\"index\":{{\"_index\":\"i\",\"routing\":\"{third}\"}}}}\n{{}}\n"),
        // The first attempt may have written what makes the second one fail.
        external("external", &third),
        external("external_gt", &third),
        operation("delete", "i", &third, &json!({"if_seq_no": 0, "if_primary_term": 1})),
    ] {
        let mut harness = Harness::new(json!({"missing_id": "pass"}));
        let id = harness.send("/_bulk", &(index(&[first.clone(), second.clone()]) + &line));
        harness.envoy_says("es-0", 503, RESET);
        harness.settle();
        assert_eq!(harness.statuses(id), [503, 201, 503]);
        harness.tick_after(Duration::from_secs(60));
        assert!(harness.calls.iter().all(|call| call.upstream.as_ref() == "es"));
    }
}

#[test]
fn a_share_that_is_not_idempotent_costs_no_other_request_of_a_lost_batch_its_retry() {
    let mut harness = Harness::new(json!({}));
    let first = harness.send("/_bulk", &index(&[id_on(0, 0)]));
    let created = harness.send("/_bulk", &operation("create", "i", &id_on(0, 1), &json!({})));
    let written = harness.send("/_bulk", &index(&[id_on(0, 2)]));
    harness.answer("es-0");
    assert_eq!(harness.statuses(first), [201]);
    harness.envoy_says("es-0", 503, RESET);
    assert_eq!(harness.statuses(created), [503]);
    assert_eq!(harness.reply(created)["items"][0]["create"]["error"]["type"], "bulk_outcome_unknown_exception");
    assert!(!harness.replies.contains_key(&written));
    harness.tick_after(Duration::from_millis(50));
    assert_eq!(harness.bodies_to("es-0"), [index(&[id_on(0, 2)])]);
    harness.settle();
    assert_eq!(harness.statuses(written), [201]);
    harness.load(&state());
    harness.assert_idle();
}

pub const TOO_MUCH: &str = r#"{"error":{"type":"circuit_breaking_exception","reason":"too much"},"status":429}"#;

#[test]
fn a_batch_refused_with_429_is_retried_with_growing_delays() {
    let (mut harness, id) = split(json!({"cluster_state": {"refresh": "1h"}, "retry": {"attempts": 3}}));
    harness.answer("es-1");
    // Requests that arrive meanwhile wait too, because the node is busy.
    let later = harness.request("/_bulk", &index(&[id_on(0, 5)]));
    for longest in [50, 100, 200] {
        harness.answer_with("es-0", 429, TOO_MUCH);
        assert!(harness.calls.is_empty());
        harness.tick_after(Duration::from_millis(longest / 2 - 1));
        assert!(harness.calls.is_empty());
        harness.tick_after(Duration::from_millis(longest / 2 + 1));
        assert_eq!(harness.upstreams(), ["es-0"]);
    }
    harness.answer_with("es-0", 429, TOO_MUCH);
    assert_eq!(harness.statuses(id), [429, 201, 429]);
    harness.finish();
    assert_eq!(harness.statuses(later), [201]);
}

/// OpenSearch's refusal of a batch at one of its shards, with `shard_indexing_pressure`. Operations on other shards may
/// have been carried out.
const AT_SHARD: &str = r#"{"error":{"root_cause":[],"type":"rejected_execution_exception","reason":"rejected execution of coordinating operation [shard_detail=[i][3], shard_total_bytes=0, shard_operation_bytes=173, shard_max_coordinating_and_primary_bytes=10, shard_max_replica_bytes=15] OR [node_total_bytes=0, node_operation_bytes=173, node_max_coordinating_and_primary_bytes=10240, node_max_replica_bytes=15360]"},"status":429}"#;

#[test]
fn a_batch_that_may_have_been_carried_out_before_a_429_is_retried_only_if_it_is_idempotent() {
    let (written, created) = (index(&[id_of(0, 0)]), operation("create", "i", &id_of(3, 0), &json!({})));
    for (body, refusal, is_retried) in [
        (written.clone() + &index(&[id_of(3, 0)]), AT_SHARD, true),
        (written.clone() + &created, AT_SHARD, false),
        (written.clone() + &created, TOO_MUCH, true),
        // Nothing precedes a single operation.
        (created, AT_SHARD, true),
    ] {
        let mut harness = Harness::new(json!({"cluster_state": {"refresh": "1h"}}));
        let id = harness.send("/_bulk", &body);
        harness.answer_with("es-0", 429, refusal);
        assert_eq!(harness.replies.contains_key(&id), !is_retried, "{body} {refusal}");
        harness.tick_after(Duration::from_millis(50));
        assert_eq!(harness.calls.len(), usize::from(is_retried));
        harness.settle();
        let reply = &harness.replies[&id];
        assert_eq!(reply.status, if is_retried { 200 } else { 429 });
        assert!(is_retried || reply.body == refusal.as_bytes());
        harness.assert_idle();
    }
}

#[test]
fn nothing_is_retried_after_its_timeout() {
    let (mut harness, id) = split(json!({"dispatch": {"timeout": "60ms"}}));
    harness.answer("es-1");
    harness.now += Duration::from_millis(40);
    harness.answer_with("es-0", 429, TOO_MUCH);
    assert_eq!(harness.statuses(id), [429, 201, 429]);
    harness.assert_idle();
}

#[test]
fn a_refusal_of_some_shares_becomes_the_error_of_their_items() {
    for (upstream, status, refusal, statuses, (key, value)) in [
        ("es-0", 429, TOO_MUCH, [429, 201, 429], ("reason", "too much")),
        ("es-1", 500, "<html>", [201, 500, 201], ("type", "bulk_refused_exception")),
        ("es-0", 400, "{}", [400, 201, 400], ("type", "bulk_refused_exception")),
    ] {
        let (mut harness, id) = split(json!({"retry": {"attempts": 0}}));
        harness.answer_with(upstream, status, refusal);
        assert_eq!(harness.calls.len(), 1, "{refusal}");
        harness.settle();
        assert_eq!(harness.statuses(id), statuses, "{refusal}");
        let refused = statuses.iter().position(|found| *found == u64::from(status)).unwrap();
        assert_eq!(harness.reply(id)["items"][refused]["index"]["error"][key], value, "{refusal}");
    }
}

#[test]
fn a_refusal_of_all_shares_is_forwarded_to_the_client() {
    let (mut harness, id) = split(json!({}));
    for upstream in ["es-1", "es-0"] {
        let headers = [("www-authenticate", "Basic"), ("content-length", "99"), ("date", "now")];
        harness.respond(upstream, 401, &headers, "who are you");
    }
    let reply = &harness.replies[&id];
    assert_eq!((reply.status, reply.body.as_slice()), (401, &b"who are you"[..]));
    assert_eq!(*reply.headers, [("www-authenticate".to_owned(), "Basic".to_owned())]);
}

#[test]
fn only_the_offending_request_of_a_refused_batch_gets_the_error() {
    let mut harness = Harness::new(json!({}));
    let bodies = [0, 1, 2].map(|n| index(&[id_on(0, n)]));
    let ids = harness.merge(bodies.each_ref().map(String::as_str));
    harness.answer_with("es-0", 400, r#"{"error":{"type":"x","reason":"somebody's fault"},"status":400}"#);
    // The requests are sent one after the other, each alone, before all later ones.
    assert_eq!(harness.upstreams(), ["es-0"; 3]);
    assert_eq!(harness.bodies(), bodies);
    let calls = std::mem::take(&mut harness.calls);
    for (n, call) in calls.into_iter().enumerate() {
        harness.calls.push(call);
        match n {
            1 => harness.answer_with("es-0", 400, r#"{"error":"mine","status":400}"#),
            _ => harness.answer("es-0"),
        }
    }
    assert_eq!(harness.statuses(ids[0]), [201]);
    assert_eq!((harness.replies[&ids[1]].status, harness.reply(ids[1])["error"].as_str()), (400, Some("mine")));
    assert_eq!(harness.statuses(ids[2]), [201]);
    harness.assert_idle();
}

#[test]
fn a_merged_batch_refused_because_of_its_caller_or_node_is_not_retried() {
    for status in [401, 429, 500, 503] {
        let mut harness = Harness::new(json!({"retry": {"attempts": 0}}));
        let ids = harness.merge([&index(&[id_on(0, 0)]), &index(&[id_on(0, 1)])]);
        harness.answer_with("es-0", status, "{}");
        assert!(harness.calls.is_empty());
        assert!(ids.iter().all(|id| harness.replies[id].status == status));
    }
}

#[test]
fn warnings_of_all_nodes_are_forwarded_once() {
    let (mut harness, id) = split(json!({}));
    for (upstream, warning) in [("es-0", "a"), ("es-1", "a")] {
        let node = usize::from(upstream == "es-1");
        let items: Vec<_> =
            (0..2 - node).map(|n| json!({"index": {"_index": "i", "_id": id_on(node, n), "status": 201}})).collect();
        let headers = [("warning", warning), ("x-elastic-product", warning), ("warning", upstream)];
        let body = json!({"errors": false, "took": 1, "items": items}).to_string();
        harness.respond(upstream, 200, &headers, &body);
    }
    let expected = [("warning", "a"), ("x-elastic-product", "a"), ("warning", "es-0"), ("warning", "es-1")];
    assert!(harness.replies[&id].headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(expected));
    assert!(harness.replies[&id].body.starts_with(b"{\"errors\":false,\"took\":1,"));
}
