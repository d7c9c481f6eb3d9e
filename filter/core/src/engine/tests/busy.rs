//! Operations that a node rejected with 429, or that a security plug-in refused with 403, in a batch that was otherwise
//! accepted.

use std::time::Duration;

use serde_json::{Value, json};

use super::failures::RESET;
use super::harness::{Harness, Sent, id_of, id_on, index, operation, sent};
use crate::engine::metrics::Counter;
use crate::routing::hash;

const BUSY: u16 = 429;
const REFUSED: u16 = 403;

/// The reason with which OpenSearch's security plug-in refuses operations.
const NO_PERMISSIONS: &str = "no permissions for [indices:data/write/delete] and User [name=w, backend_roles=[], \
    requestedTenant=null]";

/// Answers the oldest call to an upstream with these statuses for the ids that were sent.
fn answer(harness: &mut Harness, upstream: &str, statuses: &[u16]) {
    answer_because(harness, upstream, statuses, NO_PERMISSIONS);
}

/// Does the same with this reason for refusals.
fn answer_because(harness: &mut Harness, upstream: &str, statuses: &[u16], reason: &str) {
    let body = harness.bodies_to(upstream).remove(0);
    let item = |(sent, status): (Sent, &u16)| {
        let error = match status {
            403 => json!({"type": "security_exception", "reason": reason}),
            _ => json!({"type": "full", "reason": "r"}),
        };
        let more = if *status < 300 { json!({"status": status}) } else { json!({"status": status, "error": error}) };
        sent.item(&more)
    };
    let operations = sent(body.as_bytes());
    assert!(operations.len() >= statuses.len(), "{body}");
    let items: Vec<Value> = operations.into_iter().zip(statuses).map(item).collect();
    harness.answer_with(upstream, 200, &json!({"took": 1, "errors": true, "items": items}).to_string());
}

/// Checks a request of which a node rejects operations. A round has the positions of the operations in a batch to that
/// node, and the node's statuses for them.
fn rejected(name: &str, config: Value, body: &str, rounds: &[(&[usize], &[u16])], statuses: &[u64]) {
    let mut harness = Harness::quiet(&config);
    let id = harness.send("/_bulk", body);
    let upstream = harness.calls[0].upstream.to_string();
    let lines: Vec<&str> = body.split_inclusive('\n').collect();
    if harness.upstreams() == ["es-0", "es-1"] {
        harness.answer("es-1");
    }
    for (positions, statuses) in rounds {
        assert!(harness.replies.is_empty(), "{name}");
        let expected: String = positions.iter().flat_map(|at| &lines[2 * at..2 * at + 2]).copied().collect();
        assert_eq!(harness.bodies(), [expected], "{name}");
        answer(&mut harness, &upstream, statuses);
        assert!(harness.calls.is_empty(), "{name}");
        if harness.replies.is_empty() {
            harness.tick_after(Duration::from_millis(100));
        }
    }
    assert_eq!(harness.statuses(id), statuses, "{name}");
    let reply = harness.reply(id);
    assert_eq!(reply["errors"], statuses.iter().any(|status| *status >= 400), "{name}");
    for item in reply["items"].as_array().unwrap().iter().filter(|item| item["index"]["status"] == BUSY) {
        assert_eq!(item["index"]["error"]["type"], "full", "{name}");
    }
    harness.assert_idle();
}

#[test]
fn rejected_operations_are_retried_alone_unless_a_later_operation_has_overtaken_them() {
    let [a, b, c, d, elsewhere] = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)].map(|(node, n)| id_on(node, n));
    let of = |ids: &[&String]| ids.iter().map(|id| index(std::slice::from_ref(id))).collect::<String>();
    let last: &[(&[usize], &[u16])] =
        &[(&[0, 1, 2, 3], &[201, BUSY, 200, BUSY]), (&[1, 3], &[BUSY, 200]), (&[1], &[400])];
    rejected("the last answer counts", json!({}), &of(&[&a, &b, &c, &d, &elsewhere]), last, &[201, 400, 200, 200, 201]);
    let retried: &[(&[usize], &[u16])] = &[(&[0, 1], &[201, BUSY]), (&[1], &[201])];
    rejected("a lone request", json!({}), &of(&[&a, &b]), retried, &[201, 201]);
    let bare = "{\"index\":{\"_index\":\"i\"}}\n{\"n\":1}\n{\"create\":{\"_index\":\"i\"}}\n{\"n\":2}\n";
    rejected("without ids", json!({"missing_id": "pass"}), bare, retried, &[201, 201]);
    // The second operation overtook the first. The others keep their order.
    let order: &[(&[usize], &[u16])] =
        &[(&[0, 1, 2, 3, 4], &[BUSY, 200, BUSY, BUSY, BUSY]), (&[2, 3, 4], &[BUSY, 201, 200])];
    rejected("a document twice", json!({}), &of(&[&a, &a, &b, &b, &a]), order, &[429, 200, 429, 201, 200]);
    rejected("the same hash", json!({}), &index(&ids_of_one_hash()), &[(&[0, 1], &[BUSY, 201])], &[429, 201]);
    let once = json!({"retry": {"attempts": 1}});
    rejected("no attempt is left", once, &of(&[&a, &elsewhere]), &[(&[0], &[BUSY]), (&[0], &[BUSY])], &[429, 201]);
}

#[test]
fn rejected_operations_do_not_delay_other_requests_in_the_batch() {
    let mut harness = Harness::quiet(&json!({}));
    harness.write(&[id_on(0, 9)]);
    let (one, two) =
        (harness.request("/_bulk", &index(&[id_on(0, 0)])), harness.request("/_bulk", &index(&[id_on(0, 1)])));
    harness.answer("es-0");
    answer(&mut harness, "es-0", &[BUSY, 201]);
    assert_eq!(harness.statuses(two), [201]);
    // Requests that arrive meanwhile wait, because the node is busy.
    let later = harness.write(&[id_on(0, 2)]);
    assert!(harness.calls.is_empty());
    harness.tick_after(Duration::from_millis(50));
    answer(&mut harness, "es-0", &[201]);
    assert_eq!(harness.statuses(one), [201]);
    harness.finish();
    assert_eq!(harness.statuses(later), [201]);
}

#[test]
fn operations_refused_as_a_whole_on_retry_report_the_refusal() {
    let mut harness = Harness::quiet(&json!({}));
    let id = harness.write(&[id_on(0, 0), id_on(0, 1), id_on(1, 0)]);
    harness.answer("es-1");
    answer(&mut harness, "es-0", &[201, BUSY]);
    harness.tick_after(Duration::from_millis(50));
    harness.answer_with("es-0", 503, r#"{"error":{"type":"shut","reason":"r"},"status":503}"#);
    assert_eq!(harness.statuses(id), [201, 503, 201]);
    assert_eq!(harness.reply(id)["items"][1]["index"]["error"]["type"], "shut");
}

#[test]
fn operations_that_fail_after_a_lost_attempt_have_an_unknown_outcome() {
    let mut harness = Harness::quiet(&json!({"retry": {"attempts": 2}}));
    let id = harness.write(&(0..4).map(|n| id_on(0, n)).collect::<Vec<_>>());
    harness.envoy_says("es-0", 503, RESET);
    harness.tick_after(Duration::from_millis(50));
    answer(&mut harness, "es-0", &[200, 400, 403, BUSY]);
    harness.tick_after(Duration::from_millis(100));
    answer(&mut harness, "es-0", &[BUSY]);
    assert_eq!(harness.statuses(id), [200, 400, 503, 503]);
    let error = |position: usize| harness.reply(id)["items"][position]["index"]["error"]["type"].clone();
    assert_eq!((error(1), error(2), error(3)), ("full".into(), UNKNOWN.into(), UNKNOWN.into()));
}

const UNKNOWN: &str = "bulk_outcome_unknown_exception";

#[test]
fn rejected_operations_are_retried_after_the_client_has_disconnected() {
    let mut harness = Harness::quiet(&json!({}));
    let id = harness.write(&[id_on(0, 0), id_on(0, 1)]);
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

fn delete(id: &str) -> String {
    operation("delete", "i", id, &json!({}))
}

fn separated(harness: &Harness) -> u64 {
    harness.counted(|counter| matches!(counter, Counter::BatchesSeparated(_)))
}

#[test]
fn only_the_offending_request_of_operations_that_were_refused_together_stays_refused() {
    let mut harness = Harness::quiet(&json!({}));
    let [index_one, delete_one] = [index(&[id_of(0, 0)]), delete(&id_of(0, 1))];
    let mixed = index(&[id_of(3, 0), id_of(0, 2)]);
    let ids = harness.merge([&index_one, &delete_one, &mixed, &index(&[id_of(3, 1)])]);
    answer(&mut harness, "es-0", &[REFUSED, REFUSED, 201, REFUSED, 201]);
    assert_eq!(harness.statuses(ids[3]), [201]);
    assert_eq!(harness.bodies(), [index_one, delete_one, index(&[id_of(0, 2)])]);
    answer(&mut harness, "es-0", &[201]);
    answer(&mut harness, "es-0", &[REFUSED]);
    answer(&mut harness, "es-0", &[201]);
    assert_eq!([0, 1, 2].map(|request| harness.statuses(ids[request])), [vec![201], vec![403], vec![201, 201]]);
    assert_eq!(harness.reply(ids[1])["items"][0]["delete"]["error"]["reason"], NO_PERMISSIONS);
    assert_eq!(separated(&harness), 1);
    harness.assert_idle();
}

#[test]
fn refused_operations_are_sent_again_in_their_order_unless_a_later_operation_has_overtaken_them() {
    let mut harness = Harness::quiet(&json!({}));
    let (same, other) = (id_of(0, 0), id_of(3, 0));
    let one = index(&[&same, &other, &other, &same].map(Clone::clone));
    let ids = harness.merge([&one, &delete(&id_of(0, 1))]);
    answer(&mut harness, "es-0", &[REFUSED, REFUSED, 201, BUSY, REFUSED]);
    assert_eq!(harness.bodies()[0], index(&[&same, &same].map(Clone::clone)));
    answer(&mut harness, "es-0", &[201, BUSY]);
    answer(&mut harness, "es-0", &[REFUSED]);
    harness.tick_after(Duration::from_millis(50));
    assert_eq!(harness.bodies()[0], index(std::slice::from_ref(&same)));
    answer(&mut harness, "es-0", &[200]);
    assert_eq!((harness.statuses(ids[0]), harness.statuses(ids[1])), (vec![201, 403, 201, 200], vec![403]));
    harness.assert_idle();
}

#[test]
fn operations_that_were_refused_one_by_one_are_not_sent_again() {
    for reason in [
        "action [indices:data/write/delete] is unauthorized for user [w] on indices [i]",
        "index [i] blocked by: [FORBIDDEN/8/index write (api)];",
    ] {
        let mut harness = Harness::quiet(&json!({}));
        let ids = harness.merge([&index(&[id_of(0, 0)]), &delete(&id_of(0, 1))]);
        answer_because(&mut harness, "es-0", &[201, REFUSED], reason);
        assert_eq!((harness.statuses(ids[0]), harness.statuses(ids[1])), (vec![201], vec![403]), "{reason}");
    }
    // This batch contains one request, to which the refusal belongs.
    let mut harness = Harness::quiet(&json!({}));
    let id = harness.send("/_bulk", &(index(&[id_of(0, 0), id_on(1, 0)]) + &delete(&id_of(0, 1))));
    harness.answer("es-1");
    answer(&mut harness, "es-0", &[REFUSED, REFUSED]);
    assert_eq!((harness.statuses(id), separated(&harness)), (vec![403, 201, 403], 0));
}

#[test]
fn refused_operations_stay_refused_if_there_is_no_room_for_another_answer() {
    let mut harness = Harness::quiet(&json!({}));
    let ids = harness.merge([&index(&[id_of(0, 0)]), &delete(&id_of(0, 1))]);
    harness.engine.memory.set_limit(1);
    answer(&mut harness, "es-0", &[REFUSED, REFUSED]);
    assert_eq!(ids.map(|id| harness.statuses(id)), [[403], [403]]);
    harness.assert_idle();
}
