//! Operations that a node rejected with 429, or that a security plug-in refused with 403, in a batch that was otherwise
//! accepted.

use std::time::Duration;

use serde_json::{Value, json};

use super::failures::{RESET, envoy_says};
use super::harness::{Harness, id_of, id_on, index};
use crate::engine::metrics::Counter;
use crate::routing::hash;

const BUSY: u16 = 429;
const REFUSED: u16 = 403;

/// The reason with which OpenSearch's security plug-in refuses operations.
const NO_PERMISSIONS: &str = "no permissions for [indices:data/write/delete] and User [name=w, backend_roles=[], \
    requestedTenant=null]";

fn quiet(config: Value) -> Harness {
    let mut whole = json!({"cluster_state": {"refresh": "1h"}});
    whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    Harness::new(whole)
}

/// Answers the oldest call to an upstream with these statuses for the ids that were sent.
fn answer(harness: &mut Harness, upstream: &str, statuses: &[u16]) {
    answer_because(harness, upstream, statuses, NO_PERMISSIONS);
}

/// Does the same with this reason for refusals.
fn answer_because(harness: &mut Harness, upstream: &str, statuses: &[u16], reason: &str) {
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
            403 => {
                let error = json!({"type": "security_exception", "reason": reason});
                json!({action: {"_index": "i", "_id": id, "status": status, "error": error}})
            }
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

/// Starts requests with these bodies. Returns them once they are in one batch at es-0.
fn merged<const N: usize>(harness: &mut Harness, bodies: [&str; N]) -> [u32; N] {
    let first = harness.request("/_bulk", &index(&[id_on(0, 99)]));
    harness.woken();
    let ids = bodies.map(|body| harness.request("/_bulk", body));
    harness.answer("es-0");
    assert_eq!((statuses(harness, first), harness.calls.len()), (vec![201], 1));
    assert_eq!(harness.calls[0].body, bodies.concat().as_bytes());
    ids
}

fn delete(id: &str) -> String {
    format!("{{\"delete\":{{\"_index\":\"i\",\"_id\":\"{id}\"}}}}\n")
}

fn separated(harness: &Harness) -> u64 {
    harness.counts.iter().filter(|(name, _)| matches!(name, Counter::BatchesSeparated(_))).map(|(_, count)| count).sum()
}

#[test]
fn only_the_offending_request_of_operations_that_were_refused_together_stays_refused() {
    let mut harness = quiet(json!({}));
    let [index_one, delete_one] = [index(&[id_of(0, 0)]), delete(&id_of(0, 1))];
    let mixed = index(&[id_of(3, 0), id_of(0, 2)]);
    let ids = merged(&mut harness, [&index_one, &delete_one, &mixed, &index(&[id_of(3, 1)])]);
    answer(&mut harness, "es-0", &[REFUSED, REFUSED, 201, REFUSED, 201]);
    assert_eq!(statuses(&harness, ids[3]), [201]);
    let sent: Vec<_> = harness.calls.iter().map(|call| String::from_utf8(call.body.clone()).unwrap()).collect();
    assert_eq!(sent, [index_one, delete_one, index(&[id_of(0, 2)])]);
    answer(&mut harness, "es-0", &[201]);
    answer(&mut harness, "es-0", &[REFUSED]);
    answer(&mut harness, "es-0", &[201]);
    assert_eq!([0, 1, 2].map(|request| statuses(&harness, ids[request])), [vec![201], vec![403], vec![201, 201]]);
    assert_eq!(harness.reply(ids[1])["items"][0]["delete"]["error"]["reason"], NO_PERMISSIONS);
    assert_eq!(separated(&harness), 1);
    assert!(harness.engine.is_idle() && harness.engine.memory() == 0);
}

#[test]
fn refused_operations_are_sent_again_in_their_order_unless_a_later_operation_has_overtaken_them() {
    let mut harness = quiet(json!({}));
    let (same, other) = (id_of(0, 0), id_of(3, 0));
    let one = index(&[&same, &other, &other, &same].map(Clone::clone));
    let ids = merged(&mut harness, [&one, &delete(&id_of(0, 1))]);
    answer(&mut harness, "es-0", &[REFUSED, REFUSED, 201, BUSY, REFUSED]);
    assert_eq!(harness.calls[0].body, index(&[&same, &same].map(Clone::clone)).as_bytes());
    answer(&mut harness, "es-0", &[201, BUSY]);
    answer(&mut harness, "es-0", &[REFUSED]);
    harness.tick_after(Duration::from_millis(50));
    assert_eq!(harness.calls[0].body, index(std::slice::from_ref(&same)).as_bytes());
    answer(&mut harness, "es-0", &[200]);
    assert_eq!((statuses(&harness, ids[0]), statuses(&harness, ids[1])), (vec![201, 403, 201, 200], vec![403]));
    assert!(harness.engine.is_idle());
}

#[test]
fn operations_that_were_refused_one_by_one_are_not_sent_again() {
    for reason in [
        "action [indices:data/write/delete] is unauthorized for user [w] on indices [i]",
        "index [i] blocked by: [FORBIDDEN/8/index write (api)];",
    ] {
        let mut harness = quiet(json!({}));
        let ids = merged(&mut harness, [&index(&[id_of(0, 0)]), &delete(&id_of(0, 1))]);
        answer_because(&mut harness, "es-0", &[201, REFUSED], reason);
        assert_eq!((statuses(&harness, ids[0]), statuses(&harness, ids[1])), (vec![201], vec![403]), "{reason}");
    }
    // This batch contains one request, to which the refusal belongs.
    let mut harness = quiet(json!({}));
    let id = harness.request("/_bulk", &(index(&[id_of(0, 0), id_on(1, 0)]) + &delete(&id_of(0, 1))));
    harness.woken();
    harness.answer("es-1");
    answer(&mut harness, "es-0", &[REFUSED, REFUSED]);
    assert_eq!((statuses(&harness, id), separated(&harness)), (vec![403, 201, 403], 0));
}

#[test]
fn refused_operations_stay_refused_if_there_is_no_room_for_another_answer() {
    let mut harness = quiet(json!({}));
    let ids = merged(&mut harness, [&index(&[id_of(0, 0)]), &delete(&id_of(0, 1))]);
    harness.engine.memory.set_limit(1);
    answer(&mut harness, "es-0", &[REFUSED, REFUSED]);
    assert_eq!(ids.map(|id| statuses(&harness, id)), [[403], [403]]);
    assert!(harness.engine.is_idle());
}
