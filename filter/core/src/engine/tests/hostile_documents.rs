//! Requests for single documents from hostile clients, and answers to them from hostile nodes. The
//! [audit](crate::engine::Audited) checks the memory of every step.

use std::time::Duration;

use serde_json::{Value, json};

use super::documents::{CONFLICT, harness, refused, reply, send, send_with, write_one};
use super::harness::{Harness, header_map, id_on, with};
use crate::bulk::gzip;
use crate::engine::command::RequestId;
use crate::engine::input::Input;
use crate::engine::metrics::{Counter, Gauge};
use crate::engine::pass_through::PassThrough;
use crate::routing::UpstreamId;

const MIB: usize = 1 << 20;

/// Returns a harness with these limits, in bytes.
fn limited(memory: usize, max_request: usize) -> Harness {
    let limits = json!({"limits": {"memory": format!("{memory}b"), "max_request": format!("{max_request}b")}});
    Harness::quiet(&with(json!({"single_documents": true}), &limits))
}

/// Sends the headers of a request whose body is to follow.
fn head(harness: &mut Harness, id: u32, path: &str, more: &[(&str, &str)]) {
    let fixed = [(":method", "PUT"), (":path", path), (":authority", "es"), ("content-type", "application/json")];
    let headers = header_map(&[&fixed, more].concat());
    harness.stream(Input::RequestHead { request: RequestId(id), headers, route: Some(b"es".to_vec()), end: false });
}

/// Refuses the batch of the document with this number at es-0.
fn refuse(harness: &mut Harness, number: u32) {
    harness.answer_items("es-0", &refused(number as usize, 409));
}

/// Checks that a client was told that the outcome of its write is unknown.
fn assert_unknown(harness: &Harness, id: u32, why: &str) {
    let (status, location, body) = reply(harness, id);
    let body: Value = body.parse().unwrap();
    assert_eq!((status, location), (503, None), "{why}");
    assert_eq!(body["error"]["type"], "bulk_outcome_unknown_exception", "{why}");
}

#[test]
fn no_path_and_no_query_makes_a_second_line() {
    let long = ["%C3%A9".repeat(256), "%F0%9F%98%80".repeat(128), "%01".repeat(512)];
    let texts = [
        ("a%0A%7B%22delete%22%3A%7B%22_id%22%3A%22b%22%7D%7D%0A", "a\n{\"delete\":{\"_id\":\"b\"}}\n"),
        ("a%0D%0A%0D%0Ab", "a\r\n\r\nb"),
        ("a%22%7D%7D%0a%7b%22x%22:%22", "a\"}}\n{\"x\":\""),
        ("%5C%22%5Cn%5Cu000A", "\\\"\\n\\u000A"),
        ("%00", "\0"),
        ("a%00%01%1F%7F%C2%80", "a\0\u{1}\u{1f}\u{7f}\u{80}"),
        ("%E2%80%A8%EF%BB%BF", "\u{2028}\u{feff}"),
        ("%2F..%2F_bulk%3Frefresh%23%26", "/../_bulk?refresh#&"),
        (&long[0], &"é".repeat(256)),
        (&long[1], &"😀".repeat(128)),
        (&long[2], &"\u{1}".repeat(512)),
    ];
    for (coded, plain) in texts {
        for (method, path, expected) in [
            ("PUT", format!("/i/_doc/{coded}"), json!({"index": {"_index": "i", "_id": plain}})),
            ("POST", format!("/i/_create/{coded}"), json!({"create": {"_index": "i", "_id": plain}})),
            ("DELETE", format!("/i/_doc/{coded}"), json!({"delete": {"_index": "i", "_id": plain}})),
            ("POST", format!("/i/_update/{coded}"), json!({"update": {"_index": "i", "_id": plain}})),
            (
                "PUT",
                format!("/i/_doc/1?routing={coded}"),
                json!({"index": {"_index": "i", "_id": "1", "routing": plain}}),
            ),
        ] {
            let mut harness = harness();
            let (has_source, body) = if method == "DELETE" { (0, "") } else { (1, r#"{"doc":{}}"#) };
            send(&mut harness, 0, method, &path, body);
            harness.woken();
            let batch = harness.bodies().concat();
            assert_eq!(batch.matches('\n').count(), 1 + has_source, "{path}: {batch}");
            let line: Value = batch.lines().next().unwrap().parse().unwrap();
            assert_eq!(line, expected, "{path}");
            assert_eq!(harness.calls[0].headers[2].1, "/_bulk", "{path}");
            harness.finish();
        }
    }
}

#[test]
fn a_path_that_makes_too_long_a_line_passes_through_before_its_body_arrives() {
    let control = "%01".repeat(15_000);
    for path in [
        format!("/i/_doc/{control}"),
        format!("/{control}/_doc/1"),
        format!("/i/_doc/1?routing={control}"),
        format!("/i/_doc/1?version_type={}", "x".repeat(50_000)),
    ] {
        let mut harness = harness();
        head(&mut harness, 0, &path, &[]);
        assert_eq!((harness.passed.len(), harness.passed_because(PassThrough::ActionLine)), (1, 1));
        assert_eq!(harness.engine.memory(), 0);
    }
}

#[test]
fn the_memory_of_paths_and_queries_is_counted() {
    const MEMORY: usize = 16 * MIB;
    let control = |count| "%01".repeat(count);
    let paths = [
        (format!("/{}/_doc/1", control(1_300)), 900..1_600),
        (format!("/{}/_doc/{}?routing={}", control(400), control(400), control(400)), 900..1_600),
        (format!("/i/_doc/1?refresh={}", "x".repeat(50_000)), 30..80),
    ];
    for (path, expected) in paths {
        let mut harness = limited(MEMORY, MIB);
        let accepted = (0..10_000).take_while(|id| {
            head(&mut harness, *id, &path, &[]);
            !harness.passed.contains_key(id)
        });
        let accepted = accepted.count();
        assert!(expected.contains(&accepted), "{accepted}");
        assert_eq!(harness.passed_because(PassThrough::Memory), 1);
        (0..=accepted as u32).for_each(|id| harness.gone(id));
        assert_eq!(harness.engine.memory(), 0);
        println!("{accepted} requests, largest ratio: {:?}", harness.engine.largest_ratio());
    }
}

#[test]
fn a_document_that_is_too_large_passes_through_as_it_arrived() {
    let bomb = gzip(&vec![b' '; 64 * MIB]);
    for (body, more, why) in [
        (bomb.as_slice(), &[("content-encoding", "gzip")][..], PassThrough::TooLarge),
        (&vec![b' '; MIB + 1], &[], PassThrough::TooLarge),
        (&gzip(b"{}\n{\"delete\":{\"_id\":\"1\"}}\n"), &[("content-encoding", "gzip")], PassThrough::DocumentBody),
        (&gzip(b"{}")[..15], &[("content-encoding", "gzip")], PassThrough::Gzip),
    ] {
        let mut harness = limited(8 * MIB, MIB);
        head(&mut harness, 0, "/i/_doc/1", more);
        let chunks = body.chunks(16 << 10);
        let last = chunks.len();
        let mut arrived = 0;
        for (number, chunk) in (1..).zip(chunks) {
            if !harness.passed.contains_key(&0) {
                arrived += chunk.len();
                harness.data(0, chunk, number == last);
            }
        }
        assert!(harness.passed[&0] == body[..arrived], "{why:?}");
        assert_eq!(harness.passed_because(why), 1);
        harness.gone(0);
        assert_eq!(harness.engine.memory(), 0);
    }
}

#[test]
fn a_compressed_document_is_inflated_for_its_batch_and_for_its_own_request() {
    let mut harness = harness();
    head(&mut harness, 0, &format!("/i/_doc/{}", id_on(0, 0)), &[("content-encoding", "gzip")]);
    harness.data(0, gzip(br#"{"a": 1}"#), true);
    harness.woken();
    assert!(harness.bodies()[0].ends_with("}\n{\"a\": 1}\n"));
    refuse(&mut harness, 0);
    let call = &harness.calls[0];
    assert_eq!((call.upstream.as_ref(), call.body.as_slice()), ("es", br#"{"a": 1}"#.as_slice()));
    assert!(!call.headers.iter().any(|(name, _)| name == "content-encoding" || name == "content-length"));
    harness.respond("es", 409, &[], CONFLICT);
    harness.finish();
}

#[test]
fn a_document_in_tiny_chunks_passes_through_when_its_memory_is_used_up() {
    let mut harness = limited(2 * MIB, MIB);
    head(&mut harness, 0, "/i/_doc/1", &[]);
    let chunks = (0..100_000).take_while(|_| {
        harness.data(0, "x", false);
        !harness.passed.contains_key(&0)
    });
    let chunks = chunks.count();
    assert!((20_000..40_000).contains(&chunks), "{chunks}");
    assert_eq!((harness.passed[&0].len(), harness.passed_because(PassThrough::Memory)), (chunks + 1, 1));
}

#[test]
fn documents_that_never_end_hold_no_more_than_the_memory_and_delay_no_other() {
    let mut harness = limited(4 * MIB, MIB);
    let chunk = "x".repeat(10_000);
    for id in 0..1_000 {
        head(&mut harness, id, "/i/_doc/1", &[]);
        harness.data(id, &chunk, false);
    }
    assert!(harness.engine.memory() <= 4 * MIB as u64);
    let passed = harness.passed_because(PassThrough::Memory);
    assert!((550..900).contains(&passed), "{passed}");
    (0..500).for_each(|id| harness.gone(id));
    write_one(&mut harness, 1_000);
    harness.answer("es-0");
    assert_eq!(reply(&harness, 1_000).0, 201);
    (500..1_000).for_each(|id| harness.gone(id));
    harness.finish();
}

/// Returns how many requests wait to be sent, or to be sent again, to the coordinator.
fn waiting(harness: &Harness) -> u64 {
    harness.engine.gauges().get(&Gauge::HeldRequests(UpstreamId::COORDINATOR)).copied().unwrap_or_default()
}

#[test]
fn refused_documents_wait_for_slots_and_leave_no_memory_behind_with_their_clients() {
    const REQUESTS: u32 = 5_000;
    let mut harness = harness();
    let path = format!("/i/_doc/{}", id_on(0, 0));
    for id in 0..REQUESTS {
        send(&mut harness, id, "PUT", &path, "{}");
        harness.woken();
        refuse(&mut harness, 0);
    }
    let in_flight = harness.calls.len();
    assert!((1..=16).contains(&in_flight), "{in_flight} requests at the coordinator");
    assert_eq!(waiting(&harness), u64::from(REQUESTS) - in_flight as u64);
    (0..REQUESTS).rev().for_each(|id| harness.gone(id));
    assert_eq!(waiting(&harness), 0);
    for _ in 0..in_flight {
        harness.respond("es", 409, &[], CONFLICT);
    }
    assert!(harness.replies.is_empty() && harness.calls.is_empty());
    assert_eq!(harness.counts[&Counter::RequestsAbandoned], u64::from(REQUESTS));
    assert_eq!(harness.counts[&Counter::DocumentsRefused], in_flight as u64);
    harness.finish();
}

#[test]
fn clients_that_come_and_leave_while_the_coordinator_hangs_leave_nothing_behind() {
    let mut harness = harness();
    let path = format!("/i/_doc/{}", id_on(0, 0));
    for id in 0..2_000 {
        let caller = ("x-opaque-id", id.to_string());
        let headers = [
            (":method", "PUT"),
            (":path", path.as_str()),
            (":authority", "es"),
            ("content-type", "application/json"),
            (caller.0, caller.1.as_str()),
        ];
        send_with(&mut harness, id, &headers, "{}");
        harness.woken();
        refuse(&mut harness, 0);
        harness.gone(id);
        assert_eq!(waiting(&harness), 0);
    }
    assert!(harness.calls.len() <= 16, "{} requests at the coordinator", harness.calls.len());
    while !harness.calls.is_empty() {
        harness.respond("es", 409, &[], CONFLICT);
    }
    assert!(harness.replies.is_empty());
    harness.finish();
}

#[test]
fn a_client_that_leaves_while_its_own_request_is_in_flight_gets_no_answer() {
    let mut harness = harness();
    write_one(&mut harness, 0);
    refuse(&mut harness, 0);
    assert_eq!(harness.upstreams(), ["es"]);
    harness.gone(0);
    assert!(harness.engine.memory() > 0);
    harness.respond("es", 409, &[], CONFLICT);
    assert!(harness.replies.is_empty());
    assert_eq!(harness.counts[&Counter::RequestsAbandoned], 1);
    harness.finish();
}

#[test]
fn a_document_that_is_always_refused_with_429_is_sent_ten_times() {
    let mut harness = harness();
    write_one(&mut harness, 0);
    let mut sent = Vec::new();
    while harness.replies.is_empty() {
        sent.extend(harness.calls.iter().map(|call| call.upstream.to_string()));
        match harness.calls.first().map(|call| call.upstream.to_string()).as_deref() {
            Some("es") => harness.respond("es", 429, &[], "busy"),
            Some(_) => harness.answer_items("es-0", &refused(0, 429)),
            None => harness.tick_after(Duration::from_secs(2)),
        }
    }
    // The first attempt, eight retries and the request itself.
    assert_eq!(sent, [vec!["es-0"; 9], vec!["es"]].concat());
    assert_eq!(reply(&harness, 0), (429, None, "busy".to_owned()));
    harness.finish();
}

#[test]
fn an_item_that_no_cluster_writes_has_an_unknown_outcome() {
    let id = id_on(0, 0);
    let mut items = vec![
        format!(r#"{{"index":{{"_index":"i","status":201,"_id":"{id}"}}}}"#),
        format!(r#"{{"index":{{"_index":"i","_id":"{id}","status":201 }}}}"#),
        format!(r#"{{"index":{{"_index":"i","_id":"{id}"}}}}"#),
        format!(r#"{{"index":{{"_index":"i","_id":"{id}","status":201}},"delete":{{"status":200}}}}"#),
        format!(r#"{{"index":{{"_index":"{}","_id":"{id}","status":201}}}}"#, "n".repeat(300)),
        format!(r#"{{"index":{{"_index":"i","_id":"{id}","status":201,"error":{{"type":"t"}}}}}}"#),
        format!(r#"{{"index":{{"_index":"i","_id":"{id}","status":503,"error":"\ud800","error":7"#),
        format!(r#"{{"index":{{"_index":"i","_id":"{}","failure_store":"used","status":201}}}}"#, "x".repeat(600)),
    ];
    // With some of these, a client would read the body as the next answer.
    for status in [0, 7, 99, 100, 101, 103, 199, 202, 204, 205, 304, 399, 600, 999, 65_535] {
        items.push(format!(r#"{{"index":{{"_index":"i","_id":"{id}","status":{status}}}}}"#));
        items.push(format!(r#"{{"index":{{"_index":"i","_id":"{id}","status":{status},"error":{{"type":"t"}}}}}}"#));
    }
    for item in items {
        let mut harness = harness();
        write_one(&mut harness, 0);
        harness.answer_with("es-0", 200, &format!(r#"{{"took":1,"errors":false,"items":[{item}]}}"#));
        assert_unknown(&harness, 0, &item);
        assert!(harness.calls.is_empty(), "it may have been carried out: {item}");
        harness.finish();
    }
}

#[test]
fn enormous_items_and_answers_take_no_more_memory_than_is_counted() {
    let long = "r".repeat(20 * MIB);
    let item = |status: u16, rest: &str| {
        format!(r#"{{"index":{{"_index":"i","_id":"{}",{rest},"status":{status}}}}}"#, id_on(0, 0))
    };
    let error = format!(r#""error":{{"type":"t","reason":"{long}"}}"#);
    let fields = format!(r#""error":{{{}"type":"t"}}"#, r#""a":0,"#.repeat(2 * MIB));
    let success = format!(r#""result":"{long}""#);
    for (status, rest) in [(503, &error), (503, &fields), (201, &success), (409, &error)] {
        for path in ["", "?pretty", "?filter_path=error.type,result"] {
            let mut harness = harness();
            send(&mut harness, 0, "PUT", &format!("/i/_doc/{}{path}", id_on(0, 0)), "{}");
            harness.woken();
            harness.answer_with(
                "es-0",
                200,
                &format!(r#"{{"took":1,"errors":true,"items":[{}]}}"#, item(status, rest)),
            );
            if status == 409 {
                harness.respond("es", 409, &[], &format!(r#"{{"error":"{long}","status":409}}"#));
            }
            let (found, _, body) = reply(&harness, 0);
            assert_eq!(found, status);
            assert!(body.len() < 90 * MIB);
            assert_eq!(harness.engine.memory(), 0);
            println!("{status}{path}: largest ratio: {:?}", harness.engine.largest_ratio());
        }
    }
}

#[test]
fn an_enormous_answer_to_an_update_that_changes_nothing_takes_no_more_memory_than_is_counted() {
    let (id, long) = (id_on(0, 0), "r".repeat(20 * MIB));
    for result in ["noop", "updated"] {
        let mut harness = harness();
        send(&mut harness, 0, "POST", &format!("/i/_update/{id}"), r#"{"doc":{}}"#);
        harness.woken();
        let fields = format!(r#""_index":"i","_id":"{id}","x":"{long}","result":"{result}","_shards":{{"total":2}}"#);
        let items = format!(r#"[{{"update":{{{fields},"status":200}}}}]"#);
        harness.answer_with("es-0", 200, &format!(r#"{{"took":1,"errors":false,"items":{items}}}"#));
        assert_eq!(reply(&harness, 0).0, 200);
        harness.finish();
    }
}

#[test]
fn without_room_for_another_answer_the_client_gets_the_refusal_in_the_item() {
    let mut harness = harness();
    write_one(&mut harness, 0);
    harness.engine.memory.set_limit(1);
    refuse(&mut harness, 0);
    assert!(harness.calls.is_empty());
    let (status, _, body) = reply(&harness, 0);
    let body: Value = body.parse().unwrap();
    assert_eq!(
        (status, &body["error"]["root_cause"][0]["reason"], &body["status"]),
        (409, &json!("exists"), &json!(409))
    );
    harness.finish();
}

#[test]
fn each_refused_document_costs_two_requests_however_many_callers_there_are() {
    const CALLERS: u32 = 3_000;
    let mut harness = harness();
    let mut originals = 0;
    for id in 0..CALLERS {
        let path = format!("/i/_create/{}?timeout={}m", id_on(0, 0), id % 10);
        let (opaque, other) = (id.to_string(), id_on(0, 1));
        let headers = [
            (":method", "PUT"),
            (":path", path.as_str()),
            (":authority", "es"),
            ("content-type", "application/json"),
            ("x-opaque-id", opaque.as_str()),
        ];
        send_with(&mut harness, id, &headers, "{}");
        // Another client has its own batch, whatever the first one does.
        let neighbour = 10_000 + id;
        send(&mut harness, neighbour, "PUT", &format!("/i/_doc/{other}"), "{}");
        harness.woken();
        assert_eq!(harness.upstreams(), ["es-0", "es-0"]);
        harness.answer_items("es-0", &json!([{"create": refused(0, 409)[0]["index"]}]));
        assert_eq!(harness.upstreams(), ["es-0", "es"]);
        originals += 1;
        harness.answer("es-0");
        assert_eq!(harness.replies.remove(&neighbour).unwrap().status, 201);
        harness.respond("es", 409, &[], CONFLICT);
        assert_eq!(harness.replies.remove(&id).unwrap().status, 409);
        harness.now += Duration::from_millis(100);
    }
    assert_eq!((originals, harness.counts[&Counter::DocumentsRefused]), (CALLERS, u64::from(CALLERS)));
    assert_eq!(harness.counts[&Counter::DocumentsMerged], u64::from(CALLERS));
    assert_eq!(harness.passed.len(), 0);
    harness.finish();
}
