//! Input from hostile clients or nodes that makes the filter use memory. The [audit](crate::engine::Audited) checks
//! every step.

use std::time::Duration;

use serde_json::json;

use super::harness::{Harness, add_index, id_on, index, operation, state};
use crate::bulk::gzip;
use crate::engine::pass_through::PassThrough;

/// The size of the chunks of a body, in bytes.
const CHUNK: usize = 16 << 10;

/// Returns lines that delete the same ten documents repeatedly, with at least this many bytes.
fn deletes(bytes: usize) -> String {
    let ten: String = (0..10).map(|id| format!("{{\"delete\":{{\"_id\":\"{id}\"}}}}\n")).collect();
    ten.repeat(bytes.div_ceil(ten.len()))
}

/// Returns lines that delete documents with these numbers.
fn numbered(count: usize) -> String {
    (0..count).map(|n| operation("delete", "i", &n.to_string(), &json!({}))).collect()
}

/// Sends a body in chunks, until the last one or until the request has passed through.
fn send(harness: &mut Harness, path: &str, headers: &[(&str, &str)], body: &[u8]) -> u32 {
    let id = harness.head(path, headers);
    let last = body.len().div_ceil(CHUNK);
    for (number, chunk) in (1..).zip(body.chunks(CHUNK)) {
        harness.data(id, chunk, number == last);
    }
    harness.woken();
    id
}

/// Returns an item of realistic length.
fn item(action: &str, id: &str) -> String {
    let rest = r#""_version":9223372036854775807,"result":"not_found","forced_refresh":true,"_shards":{"total":2,"successful":1,"failed":0},"_seq_no":9223372036854775807,"_primary_term":9223372036854775807,"status":404"#;
    format!(r#"{{"{action}":{{"_index":"i","_id":"{id}",{rest}}}}}"#)
}

/// Answers all calls in flight with an item for each delete.
fn answer_deletes(harness: &mut Harness, mut item: impl FnMut(&str) -> String) {
    while let Some(call) = harness.calls.first() {
        let (upstream, body) = (call.upstream.to_string(), String::from_utf8(call.body.clone()).unwrap());
        let ids = body.lines().map(|line| line.split(r#""_id":""#).nth(1).unwrap().split('"').next().unwrap());
        let items: Vec<String> = ids.map(&mut item).collect();
        harness.answer_with(&upstream, 200, &format!(r#"{{"took":1,"errors":false,"items":[{}]}}"#, items.join(",")));
        harness.tick_after(Duration::from_millis(100));
    }
}

fn ids(harness: &Harness, id: u32) -> usize {
    String::from_utf8_lossy(&harness.replies[&id].body).matches(r#""_id":""#).count()
}

#[test]
fn millions_of_tiny_operations_pass_through_for_lack_of_memory() {
    for is_compressed in [false, true] {
        let mut harness = Harness::quiet(&json!({}));
        let plain = deletes(48 << 20).into_bytes();
        let (body, headers): (_, &[_]) = match is_compressed {
            true => (gzip(&plain), &[("content-encoding", "gzip")]),
            false => (plain, &[]),
        };
        let other = harness.request("/_bulk", &index(&[id_on(0, 0)]));
        let id = send(&mut harness, "/i/_bulk", headers, &body);
        assert_eq!(harness.passed_because(PassThrough::Memory), 1);
        assert!(harness.passed[&id].len() < body.len() || is_compressed);
        harness.finish();
        assert_eq!(harness.items(other).len(), 1);
        println!("compressed: {is_compressed}, largest ratio: {:?}", harness.engine.largest_ratio());
    }
}

#[test]
fn a_request_as_large_as_there_is_room_for_gets_all_its_items() {
    for path in
        ["/i/_bulk", "/i/_bulk?pretty", "/i/_bulk?filter_path=items.*.status,items.*._id", "/i/_bulk?filter_path=*"]
    {
        let mut harness = Harness::quiet(&json!({}));
        let body = deletes(3 << 20);
        let operations = body.lines().count();
        let id = send(&mut harness, path, &[], body.as_bytes());
        answer_deletes(&mut harness, |id| item("delete", id));
        harness.woken();
        assert_eq!(
            ids(&harness, id).max(String::from_utf8_lossy(&harness.replies[&id].body).matches(r#""_id" : ""#).count()),
            operations,
            "{path}"
        );
        assert_eq!(harness.engine.memory(), 0);
        println!("{path}: largest ratio: {:?}", harness.engine.largest_ratio());
    }
}

#[test]
fn answers_stay_within_their_bound_and_parts_leave_one_after_the_other() {
    let mut harness = Harness::new(json!({"limits": {"max_answer": "1mb"}, "cluster_state": {"refresh": "1h"}}));
    let body = numbered(20_000);
    let id = send(&mut harness, "/_bulk", &[], body.as_bytes());
    let mut batches = 0;
    while let Some(call) = harness.calls.first() {
        let mut in_flight = harness.upstreams();
        in_flight.dedup();
        assert_eq!(in_flight.len(), harness.calls.len(), "two parts of a share are in flight");
        let operations = String::from_utf8_lossy(&call.body).lines().count();
        assert!(operations < 1_024, "{operations} operations are answered in more than a megabyte");
        let upstream = call.upstream.to_string();
        harness.answer(&upstream);
        harness.woken();
        batches += 1;
    }
    assert!((20..40).contains(&batches), "{batches} batches");
    let items = harness.items(id);
    assert!(items.iter().map(|(id, _)| id.clone()).eq((0..20_000).map(|n| n.to_string())));
    assert_eq!(harness.engine.memory(), 0);
}

#[test]
fn a_refusal_of_all_parts_answers_the_whole_request() {
    let mut harness = Harness::new(json!({"limits": {"max_answer": "1mb"}, "cluster_state": {"refresh": "1h"}}));
    let body = numbered(10_000);
    let id = send(&mut harness, "/_bulk", &[], body.as_bytes());
    while let Some(call) = harness.calls.first() {
        let upstream = call.upstream.to_string();
        harness.answer_with(&upstream, 403, r#"{"error":{"type":"security_exception"},"status":403}"#);
        harness.woken();
    }
    assert_eq!(harness.replies[&id].status, 403);
}

#[test]
fn long_errors_are_kept_or_shortened_within_the_memory_bound() {
    let mut harness =
        Harness::new(json!({"limits": {"memory": "64mb", "max_request": "16mb"}, "cluster_state": {"refresh": "1h"}}));
    let body = numbered(15_000);
    let requests: Vec<u32> =
        (0..4).map(|n| send(&mut harness, &format!("/_bulk?timeout={n}m"), &[], body.as_bytes())).collect();
    let error = json!({"type": "t", "reason": "r".repeat(4_000)});
    answer_deletes(&mut harness, |id| {
        json!({"delete": {"_index": "i", "_id": id, "status": 400, "error": error}}).to_string()
    });
    harness.woken();
    println!("largest ratio: {:?}", harness.engine.largest_ratio());
    for id in requests {
        assert_eq!(harness.items(id).iter().filter(|(_, status)| *status == 400).count(), 15_000);
    }
    assert_eq!(harness.engine.memory(), 0);
}

#[test]
fn long_updates_of_short_fields_take_no_more_memory_than_is_counted() {
    let mut harness = Harness::quiet(&json!({}));
    let fields: Vec<String> = (0..95_000).map(|n| format!(r#""{n:05x}":0"#)).collect();
    let body = format!("{{\"update\":{{\"_id\":\"{}\"}}}}\n{{\"doc\":{{{}}}}}\n", id_on(0, 0), fields.join(","));
    assert!((900_000..1_000_000).contains(&body.len()));
    for _ in 0..50 {
        let id = harness.head("/i/_bulk", &[]);
        let (first, rest) = body.split_at(body.len() / 2);
        harness.data(id, first, false);
        harness.data(id, rest, true);
        assert!(!harness.passed.contains_key(&id));
    }
    println!("largest ratio: {:?}", harness.engine.largest_ratio());
    harness.woken();
    harness.finish();
}

#[test]
fn an_answer_without_room_is_not_read() {
    let mut harness = Harness::new(json!({"limits": {"memory": "8mb", "max_request": "1mb"}}));
    harness.write(&[id_on(0, 0), id_on(1, 0)]);
    let call = harness.calls[0].id;
    assert!(harness.engine.has_room(call, 1 << 20));
    assert!(!harness.engine.has_room(call, 9 << 20));
    // Room for an answer of the usual length was reserved, whatever the limit is now.
    harness.engine.memory.set_limit(1);
    assert!(harness.engine.has_room(call, 300) && !harness.engine.has_room(call, 1 << 20));
}

#[test]
fn a_malformed_answer_uses_no_more_memory_than_its_size() {
    let nested = format!("{}{}", "[".repeat(4 << 20), "]".repeat(4 << 20));
    let zeros = format!(r#"{{"took":1,"errors":false,"items":[{}0]}}"#, "0,".repeat(4 << 20));
    let items = format!(
        r#"{{"took":1,"errors":false,"items":[{0}{{"index":{{"status":1}}}}]}}"#,
        r#"{"index":{"status":1}},"#.repeat(400_000)
    );
    let fields = format!(r#"{{{}"b":0}}"#, r#""a":0,"#.repeat(2 << 20));
    for body in [nested, zeros, items, fields] {
        for path in ["/_bulk", "/_bulk?pretty", "/_bulk?filter_path=items.*.status", "/_bulk?filter_path=-took"] {
            for (status, ids) in
                [(200, vec![id_on(0, 0)]), (200, vec![id_on(0, 0), id_on(1, 0)]), (503, vec![id_on(0, 0)])]
            {
                let mut harness = Harness::quiet(&json!({}));
                let id = harness.send(path, &index(&ids));
                harness.answer_with("es-0", status, &body);
                harness.finish();
                assert!(harness.replies.contains_key(&id));
            }
        }
    }
}

#[test]
fn a_long_refusal_that_many_requests_share_is_short_and_quotes_none_of_them() {
    for status in [401, 503] {
        let (mut harness, first) = Harness::writing(json!({"cluster_state": {"refresh": "1h"}}), &[id_on(0, 0)]);
        let waiting: Vec<u32> = (1..=2_000).map(|n| harness.request("/_bulk", &index(&[id_on(0, n % 50)]))).collect();
        harness.answer("es-0");
        harness.tick_after(Duration::from_millis(10));
        let quoting = format!(r#"no [Source: (byte[])"secret"; line: 1] {}"#, "x".repeat(1 << 20)).replace('"', "\\\"");
        harness.answer_with(
            "es-0",
            status,
            &format!(r#"{{"error":{{"type":"t","reason":"{quoting}"}},"status":{status}}}"#),
        );
        while harness.replies.len() < 2_001 {
            harness.woken();
        }
        assert!(harness.replies.contains_key(&first));
        for id in waiting {
            let response = &harness.replies[&id];
            let body = String::from_utf8_lossy(&response.body);
            assert_eq!(response.status, status);
            assert!(body.len() < 1_000 && body.contains(r#""type":"t""#) && !body.contains("secret"), "{body}");
        }
    }
}

#[test]
fn the_memory_of_headers_is_counted() {
    let mut harness = Harness::new(json!({"limits": {"memory": "16mb", "max_request": "1mb"}}));
    let long = "x".repeat(60_000);
    let passed = (0..1_000).take_while(|n| {
        let value = format!("{n}{long}");
        let id = harness.head("/_bulk", &[("x-opaque-id", &value)]);
        !harness.passed.contains_key(&id)
    });
    assert!((100..280).contains(&passed.count()));
    println!("largest ratio: {:?}", harness.engine.largest_ratio());
}

/// An item has the name of the index, which a client does not send if it uses an alias.
#[test]
fn the_room_for_an_item_depends_on_the_name_of_the_index() {
    let long = "n".repeat(255);
    let memory = |name: &str| {
        let mut state = state();
        add_index(&mut state, name);
        state["metadata"]["indices"][name]["aliases"] = json!(["alias"]);
        state["alias"] = json!({name: {"aliases": {"alias": {}}}});
        let mut harness = Harness::knowing(json!({"cluster_state": {"refresh": "1h"}}), &state);
        harness.request("/_bulk", &operation("delete", "alias", "1", &json!({})));
        assert!(harness.passed.is_empty());
        harness.engine.memory()
    };
    assert_eq!(memory(&long) - memory("n"), 254);
}

#[test]
fn repeated_429_answers_stay_within_the_memory_bound() {
    let mut harness =
        Harness::new(json!({"limits": {"memory": "32mb", "max_request": "16mb"}, "cluster_state": {"refresh": "1h"}}));
    let body = numbered(20_000);
    let id = send(&mut harness, "/_bulk", &[], body.as_bytes());
    let error = json!({"type": "es_rejected_execution_exception", "reason": "r".repeat(300)});
    let item = |id: &str| json!({"delete": {"_index": "i", "_id": id, "status": 429, "error": error}}).to_string();
    answer_deletes(&mut harness, item);
    while harness.replies.is_empty() {
        harness.tick_after(Duration::from_secs(1));
        answer_deletes(&mut harness, item);
    }
    assert_eq!(harness.items(id).len(), 20_000);
    assert_eq!(harness.engine.memory(), 0);
    println!("largest ratio: {:?}", harness.engine.largest_ratio());
}
