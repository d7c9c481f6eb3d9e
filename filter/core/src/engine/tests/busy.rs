//! Operations that a node rejected with 429, in a batch that it otherwise accepted.

use std::time::Duration;

use serde_json::{Value, json};

use super::failures::{RESET, envoy_says};
use super::harness::{Harness, id_on, index};
use crate::routing::hash;

const BUSY: u16 = 429;

fn quiet(config: Value) -> Harness {
    let mut whole = json!({"cluster_state": {"refresh": "1h"}});
    whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    Harness::new(whole)
}

/// Answers the oldest call to an upstream with these statuses for the ids that were sent.
fn answer(harness: &mut Harness, upstream: &str, statuses: &[u16]) {
    let call = harness.calls.iter().find(|call| call.upstream.as_ref() == upstream).unwrap();
    let lines: Vec<Value> =
        call.body.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let actions = lines.iter().filter_map(|line| {
        let (action, fields) = line.as_object()?.iter().next()?;
        Some((action, fields.get("_id").cloned().unwrap_or("made".into()), fields.get("_index")?))
    });
    let items: Vec<Value> = actions
        .zip(statuses)
        .map(|((action, id, _), status)| match status {
            200 | 201 => json!({action: {"_index": "i", "_id": id, "status": status}}),
            _ => {
                json!({action: {"_index": "i", "_id": id, "status": status, "error": {"type": "full", "reason": "r"}}})
            }
        })
        .collect();
    assert_eq!(items.len(), statuses.len(), "{}", String::from_utf8_lossy(&call.body));
    let body = json!({"took": 1, "errors": true, "items": items}).to_string();
    harness.answer_with(upstream, 200, &body);
}

fn statuses(harness: &Harness, id: u32) -> Vec<u64> {
    harness.items(id).into_iter().map(|(_, status)| status).collect()
}

#[test]
fn rejected_operations_are_retried_alone_and_the_last_answer_counts() {
    let mut harness = quiet(json!({}));
    let ids: Vec<_> = (0..4).map(|n| id_on(0, n)).chain([id_on(1, 0)]).collect();
    let id = harness.request("/_bulk", &index(&ids));
    harness.woken();
    harness.answer("es-1");
    answer(&mut harness, "es-0", &[201, BUSY, 200, BUSY]);
    assert!(harness.calls.is_empty() && harness.replies.is_empty());
    harness.tick_after(Duration::from_millis(50));
    assert_eq!(harness.calls[0].body, index(&[ids[1].clone(), ids[3].clone()]).as_bytes());
    answer(&mut harness, "es-0", &[BUSY, 200]);
    harness.tick_after(Duration::from_millis(100));
    assert_eq!(harness.calls[0].body, index(&ids[1..2]).as_bytes());
    answer(&mut harness, "es-0", &[400]);
    assert_eq!(statuses(&harness, id), [201, 400, 200, 200, 201]);
    assert_eq!(harness.reply(id)["errors"], true);
    assert!(harness.engine.is_idle() && harness.engine.memory() == 0);
}

#[test]
fn rejected_operations_of_a_lone_request_are_retried() {
    let mut harness = quiet(json!({}));
    let ids = [id_on(0, 0), id_on(0, 1)];
    let id = harness.request("/_bulk", &index(&ids));
    harness.woken();
    answer(&mut harness, "es-0", &[201, BUSY]);
    harness.tick_after(Duration::from_millis(50));
    assert_eq!(harness.calls[0].body, index(&ids[1..]).as_bytes());
    answer(&mut harness, "es-0", &[201]);
    assert_eq!(statuses(&harness, id), [201, 201]);
    assert_eq!(harness.reply(id)["errors"], false);
}

#[test]
fn rejected_operations_do_not_delay_other_requests_in_the_batch() {
    let mut harness = quiet(json!({}));
    harness.request("/_bulk", &index(&[id_on(0, 9)]));
    harness.woken();
    let (one, two) =
        (harness.request("/_bulk", &index(&[id_on(0, 0)])), harness.request("/_bulk", &index(&[id_on(0, 1)])));
    harness.answer("es-0");
    answer(&mut harness, "es-0", &[BUSY, 201]);
    assert_eq!(statuses(&harness, two), [201]);
    // Requests that arrive meanwhile wait, because the node is busy.
    let later = harness.request("/_bulk", &index(&[id_on(0, 2)]));
    harness.woken();
    assert!(harness.calls.is_empty());
    harness.tick_after(Duration::from_millis(50));
    answer(&mut harness, "es-0", &[201]);
    assert_eq!(statuses(&harness, one), [201]);
    harness.settle();
    assert_eq!(statuses(&harness, later), [201]);
    assert!(harness.engine.is_idle());
}

#[test]
fn rejected_operations_are_not_retried_after_a_later_operation_on_the_document() {
    let mut harness = quiet(json!({}));
    let (same, other) = (id_on(0, 0), id_on(0, 1));
    let ids = [&same, &same, &other, &other, &same].map(Clone::clone);
    let id = harness.request("/_bulk", &index(&ids));
    harness.woken();
    answer(&mut harness, "es-0", &[BUSY, 200, BUSY, BUSY, BUSY]);
    harness.tick_after(Duration::from_millis(50));
    // The second operation overtook the first. The others keep their order.
    assert_eq!(harness.calls[0].body, index(&ids[2..]).as_bytes());
    answer(&mut harness, "es-0", &[BUSY, 201, 200]);
    assert_eq!(statuses(&harness, id), [429, 200, 429, 201, 200]);
}

#[test]
fn operations_stay_rejected_when_the_attempts_are_used_up() {
    let mut harness = quiet(json!({"retry": {"attempts": 1}}));
    let id = harness.request("/_bulk", &index(&[id_on(0, 0), id_on(1, 0)]));
    harness.woken();
    harness.answer("es-1");
    for _ in 0..2 {
        answer(&mut harness, "es-0", &[BUSY]);
        harness.tick_after(Duration::from_millis(50));
    }
    assert_eq!(statuses(&harness, id), [429, 201]);
    assert_eq!(harness.reply(id)["items"][0]["index"]["error"]["type"], "full");
    assert!(harness.engine.is_idle());
}

#[test]
fn rejected_operations_may_lack_an_id() {
    let mut harness = quiet(json!({"missing_id": "pass"}));
    let body = "{\"index\":{\"_index\":\"i\"}}\n{\"n\":1}\n{\"create\":{\"_index\":\"i\"}}\n{\"n\":2}\n";
    let id = harness.request("/_bulk", body);
    harness.woken();
    let upstream = harness.calls[0].upstream.to_string();
    answer(&mut harness, &upstream, &[201, BUSY]);
    harness.tick_after(Duration::from_millis(50));
    assert_eq!(harness.calls[0].body, body.as_bytes()[body.len() / 2..]);
    answer(&mut harness, &upstream, &[201]);
    assert_eq!(statuses(&harness, id), [201, 201]);
}

#[test]
fn operations_refused_as_a_whole_on_retry_report_the_refusal() {
    let mut harness = quiet(json!({}));
    let id = harness.request("/_bulk", &index(&[id_on(0, 0), id_on(0, 1), id_on(1, 0)]));
    harness.woken();
    harness.answer("es-1");
    answer(&mut harness, "es-0", &[201, BUSY]);
    harness.tick_after(Duration::from_millis(50));
    harness.answer_with("es-0", 503, r#"{"error":{"type":"shut","reason":"r"},"status":503}"#);
    assert_eq!(statuses(&harness, id), [201, 503, 201]);
    assert_eq!(harness.reply(id)["items"][1]["index"]["error"]["type"], "shut");
}

#[test]
fn operations_that_fail_after_a_lost_attempt_have_an_unknown_outcome() {
    let mut harness = quiet(json!({"retry": {"attempts": 2}}));
    let id = harness.request("/_bulk", &index(&(0..4).map(|n| id_on(0, n)).collect::<Vec<_>>()));
    harness.woken();
    envoy_says(&mut harness, "es-0", 503, RESET);
    harness.tick_after(Duration::from_millis(50));
    answer(&mut harness, "es-0", &[200, 400, 403, BUSY]);
    harness.tick_after(Duration::from_millis(100));
    answer(&mut harness, "es-0", &[BUSY]);
    assert_eq!(statuses(&harness, id), [200, 400, 503, 503]);
    let error = |position: usize| harness.reply(id)["items"][position]["index"]["error"]["type"].clone();
    assert_eq!((error(1), error(2), error(3)), ("full".into(), UNKNOWN.into(), UNKNOWN.into()));
}

const UNKNOWN: &str = "bulk_outcome_unknown_exception";

#[test]
fn rejected_operations_are_retried_after_the_client_has_disconnected() {
    let mut harness = quiet(json!({}));
    let id = harness.request("/_bulk", &index(&[id_on(0, 0), id_on(0, 1)]));
    harness.woken();
    harness.gone(id);
    answer(&mut harness, "es-0", &[201, BUSY]);
    harness.tick_after(Duration::from_millis(50));
    // A part of the request has left, so the rest is carried out too.
    answer(&mut harness, "es-0", &[201]);
    assert!(harness.replies.is_empty() && harness.engine.is_idle());
}

/// Returns two different ids with the same hash.
fn ids_of_one_hash() -> [String; 2] {
    let mut seen = std::collections::BTreeMap::new();
    (0..)
        .find_map(|number| {
            let id = format!("c{number}");
            seen.insert(hash(&id), id.clone()).map(|other| [other, id])
        })
        .unwrap()
}

#[test]
fn an_operation_overtaken_by_an_id_with_the_same_hash_is_not_retried() {
    let ids = ids_of_one_hash();
    let mut harness = quiet(json!({}));
    let id = harness.request("/_bulk", &index(&ids));
    harness.woken();
    let upstream = harness.upstreams()[0].to_owned();
    answer(&mut harness, &upstream, &[BUSY, 201]);
    assert_eq!((statuses(&harness, id), harness.calls.len()), (vec![429, 201], 0));
}
