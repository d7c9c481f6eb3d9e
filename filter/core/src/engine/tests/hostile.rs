//! Input from hostile clients or nodes that makes the filter use memory. The [audit](crate::engine::Audited) checks
//! every step.

use std::time::Duration;

use serde_json::json;

use super::world::{World, id_on, index};
use crate::bulk::gzip;
use crate::engine::pass_through::PassThrough;

/// The size of the chunks of a body, in bytes.
const CHUNK: usize = 16 << 10;

/// Returns lines that delete the same ten documents repeatedly, with at least this many bytes.
fn deletes(bytes: usize) -> String {
    let ten: String = (0..10).map(|id| format!("{{\"delete\":{{\"_id\":\"{id}\"}}}}\n")).collect();
    ten.repeat(bytes.div_ceil(ten.len()))
}

/// Sends a body in chunks, until the last one or until the request has passed through.
fn send(world: &mut World, path: &str, headers: &[(&str, &str)], body: &[u8]) -> u32 {
    let id = world.head(path, headers);
    let last = body.len().div_ceil(CHUNK);
    for (number, chunk) in (1..).zip(body.chunks(CHUNK)) {
        world.data(id, chunk, number == last);
    }
    world.woken();
    id
}

/// Returns an item of realistic length.
fn item(action: &str, id: &str) -> String {
    let rest = r#""_version":9223372036854775807,"result":"not_found","forced_refresh":true,"_shards":{"total":2,"successful":1,"failed":0},"_seq_no":9223372036854775807,"_primary_term":9223372036854775807,"status":404"#;
    format!(r#"{{"{action}":{{"_index":"i","_id":"{id}",{rest}}}}}"#)
}

/// Answers all calls in flight with an item for each delete.
fn answer_deletes(world: &mut World, mut item: impl FnMut(&str) -> String) {
    while let Some(call) = world.calls.first() {
        let (upstream, body) = (call.upstream.to_string(), String::from_utf8(call.body.clone()).unwrap());
        let ids = body.lines().map(|line| line.split(r#""_id":""#).nth(1).unwrap().split('"').next().unwrap());
        let items: Vec<String> = ids.map(&mut item).collect();
        world.answer_with(&upstream, 200, &format!(r#"{{"took":1,"errors":false,"items":[{}]}}"#, items.join(",")));
        world.tick_after(Duration::from_millis(100));
    }
}

fn ids(world: &World, id: u32) -> usize {
    String::from_utf8_lossy(&world.replies[&id].body).matches(r#""_id":""#).count()
}

#[test]
fn millions_of_tiny_operations_pass_through_for_lack_of_memory() {
    for is_compressed in [false, true] {
        let mut world = World::new(json!({"cluster_state": {"refresh": "1h"}}));
        let plain = deletes(48 << 20).into_bytes();
        let (body, headers): (_, &[_]) = match is_compressed {
            true => (gzip(&plain), &[("content-encoding", "gzip")]),
            false => (plain, &[]),
        };
        let other = world.request("/_bulk", &index(&[id_on(0, 0)]));
        let id = send(&mut world, "/i/_bulk", headers, &body);
        assert_eq!(world.passed_because(PassThrough::Memory), 1);
        assert!(world.passed[&id].len() < body.len() || is_compressed);
        world.settle();
        assert_eq!(world.items(other).len(), 1);
        assert_eq!(world.engine.memory(), 0);
        println!("compressed: {is_compressed}, largest ratio: {:?}", world.engine.largest_ratio());
    }
}

#[test]
fn a_request_as_large_as_there_is_room_for_gets_all_its_items() {
    for path in
        ["/i/_bulk", "/i/_bulk?pretty", "/i/_bulk?filter_path=items.*.status,items.*._id", "/i/_bulk?filter_path=*"]
    {
        let mut world = World::new(json!({"cluster_state": {"refresh": "1h"}}));
        let body = deletes(3 << 20);
        let operations = body.lines().count();
        let id = send(&mut world, path, &[], body.as_bytes());
        answer_deletes(&mut world, |id| item("delete", id));
        world.woken();
        assert_eq!(
            ids(&world, id).max(String::from_utf8_lossy(&world.replies[&id].body).matches(r#""_id" : ""#).count()),
            operations,
            "{path}"
        );
        assert_eq!(world.engine.memory(), 0);
        println!("{path}: largest ratio: {:?}", world.engine.largest_ratio());
    }
}

#[test]
fn answers_stay_within_their_bound_and_parts_leave_one_after_the_other() {
    let mut world = World::new(json!({"limits": {"max_answer": "1mb"}, "cluster_state": {"refresh": "1h"}}));
    let body: String = (0..20_000).map(|n| format!("{{\"delete\":{{\"_index\":\"i\",\"_id\":\"{n}\"}}}}\n")).collect();
    let id = send(&mut world, "/_bulk", &[], body.as_bytes());
    let mut batches = 0;
    while let Some(call) = world.calls.first() {
        let mut in_flight = world.upstreams();
        in_flight.dedup();
        assert_eq!(in_flight.len(), world.calls.len(), "two parts of a share are in flight");
        let operations = String::from_utf8_lossy(&call.body).lines().count();
        assert!(operations < 1_024, "{operations} operations are answered in more than a megabyte");
        let upstream = call.upstream.to_string();
        world.answer(&upstream);
        world.woken();
        batches += 1;
    }
    assert!((20..40).contains(&batches), "{batches} batches");
    let items = world.items(id);
    assert!(items.iter().map(|(id, _)| id.clone()).eq((0..20_000).map(|n| n.to_string())));
    assert_eq!(world.engine.memory(), 0);
}

#[test]
fn a_refusal_of_all_parts_answers_the_whole_request() {
    let mut world = World::new(json!({"limits": {"max_answer": "1mb"}, "cluster_state": {"refresh": "1h"}}));
    let body: String = (0..10_000).map(|n| format!("{{\"delete\":{{\"_index\":\"i\",\"_id\":\"{n}\"}}}}\n")).collect();
    let id = send(&mut world, "/_bulk", &[], body.as_bytes());
    while let Some(call) = world.calls.first() {
        let upstream = call.upstream.to_string();
        world.answer_with(&upstream, 403, r#"{"error":{"type":"security_exception"},"status":403}"#);
        world.woken();
    }
    assert_eq!(world.replies[&id].status, 403);
}

#[test]
fn long_errors_are_kept_or_shortened_within_the_memory_bound() {
    let mut world =
        World::new(json!({"limits": {"memory": "64mb", "max_request": "16mb"}, "cluster_state": {"refresh": "1h"}}));
    let body: String = (0..15_000).map(|n| format!("{{\"delete\":{{\"_index\":\"i\",\"_id\":\"{n}\"}}}}\n")).collect();
    let requests: Vec<u32> =
        (0..4).map(|n| send(&mut world, &format!("/_bulk?timeout={n}m"), &[], body.as_bytes())).collect();
    let error = json!({"type": "t", "reason": "r".repeat(4_000)});
    answer_deletes(&mut world, |id| {
        json!({"delete": {"_index": "i", "_id": id, "status": 400, "error": error}}).to_string()
    });
    world.woken();
    println!("largest ratio: {:?}", world.engine.largest_ratio());
    for id in requests {
        assert_eq!(world.items(id).iter().filter(|(_, status)| *status == 400).count(), 15_000);
    }
    assert_eq!(world.engine.memory(), 0);
}

#[test]
fn an_answer_without_room_is_not_read() {
    let mut world = World::new(json!({"limits": {"memory": "8mb", "max_request": "1mb"}}));
    world.request("/_bulk", &index(&[id_on(0, 0), id_on(1, 0)]));
    world.woken();
    let call = world.calls[0].id;
    assert!(world.engine.has_room(call, 1 << 20));
    assert!(!world.engine.has_room(call, 9 << 20));
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
                let mut world = World::new(json!({"cluster_state": {"refresh": "1h"}}));
                let id = world.request(path, &index(&ids));
                world.woken();
                world.answer_with("es-0", status, &body);
                world.settle();
                assert!(world.replies.contains_key(&id));
                assert_eq!(world.engine.memory(), 0);
            }
        }
    }
}

#[test]
fn a_long_refusal_that_many_requests_share_is_short_and_quotes_none_of_them() {
    for status in [401, 503] {
        let mut world = World::new(json!({"cluster_state": {"refresh": "1h"}}));
        let first = world.request("/_bulk", &index(&[id_on(0, 0)]));
        world.woken();
        let waiting: Vec<u32> = (1..=2_000).map(|n| world.request("/_bulk", &index(&[id_on(0, n % 50)]))).collect();
        world.answer("es-0");
        world.tick_after(Duration::from_millis(10));
        let quoting = format!(r#"no [Source: (byte[])"secret"; line: 1] {}"#, "x".repeat(1 << 20)).replace('"', "\\\"");
        world.answer_with(
            "es-0",
            status,
            &format!(r#"{{"error":{{"type":"t","reason":"{quoting}"}},"status":{status}}}"#),
        );
        while world.replies.len() < 2_001 {
            world.woken();
        }
        assert!(world.replies.contains_key(&first));
        for id in waiting {
            let response = &world.replies[&id];
            let body = String::from_utf8_lossy(&response.body);
            assert_eq!(response.status, status);
            assert!(body.len() < 1_000 && body.contains(r#""type":"t""#) && !body.contains("secret"), "{body}");
        }
    }
}

#[test]
fn the_memory_of_headers_is_counted() {
    let mut world = World::new(json!({"limits": {"memory": "16mb", "max_request": "1mb"}}));
    let long = "x".repeat(60_000);
    let passed = (0..1_000).take_while(|n| {
        let value = format!("{n}{long}");
        let id = world.head("/_bulk", &[("x-opaque-id", &value)]);
        !world.passed.contains_key(&id)
    });
    assert!((100..280).contains(&passed.count()));
    println!("largest ratio: {:?}", world.engine.largest_ratio());
}

#[test]
fn repeated_429_answers_stay_within_the_memory_bound() {
    let mut world =
        World::new(json!({"limits": {"memory": "32mb", "max_request": "16mb"}, "cluster_state": {"refresh": "1h"}}));
    let body: String = (0..20_000).map(|n| format!("{{\"delete\":{{\"_index\":\"i\",\"_id\":\"{n}\"}}}}\n")).collect();
    let id = send(&mut world, "/_bulk", &[], body.as_bytes());
    let error = json!({"type": "es_rejected_execution_exception", "reason": "r".repeat(300)});
    answer_deletes(&mut world, |id| {
        json!({"delete": {"_index": "i", "_id": id, "status": 429, "error": error}}).to_string()
    });
    while world.replies.is_empty() {
        world.tick_after(Duration::from_secs(1));
        answer_deletes(&mut world, |id| {
            json!({"delete": {"_index": "i", "_id": id, "status": 429, "error": error}}).to_string()
        });
    }
    assert_eq!(world.items(id).len(), 20_000);
    assert_eq!(world.engine.memory(), 0);
    println!("largest ratio: {:?}", world.engine.largest_ratio());
}
