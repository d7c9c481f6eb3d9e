//! Requests for single documents.

use serde_json::{Value, json};

use super::harness::{Harness, add_data_stream, header_map, id_on, index, state, with};
use crate::engine::command::RequestId;
use crate::engine::input::Input;
use crate::engine::metrics::Counter;
use crate::engine::pass_through::PassThrough;
use crate::routing::Unrouted;

pub fn harness() -> Harness {
    Harness::quiet(&json!({"single_documents": true}))
}

/// Sends a request for a single document, with the whole body in one chunk. On return it is held or has passed through.
pub fn send(harness: &mut Harness, id: u32, method: &str, path: &str, body: &str) {
    let mut headers = vec![(":method", method), (":path", path), (":authority", "es")];
    if method != "DELETE" {
        headers.push(("content-type", "application/json"));
    }
    send_with(harness, id, &headers, body);
}

pub fn send_with(harness: &mut Harness, id: u32, headers: &[(&str, &str)], body: &str) {
    let (request, end) = (RequestId(id), body.is_empty());
    let head = Input::RequestHead { request, headers: header_map(headers), route: Some(b"es".to_vec()), end };
    harness.stream(head);
    if !end {
        harness.data(id, body, true);
    }
}

/// Returns the status, the `Location` and the body of a reply.
pub fn reply(harness: &Harness, id: u32) -> (u16, Option<&str>, String) {
    let reply = &harness.replies[&id];
    let location = reply.headers.iter().find(|(name, _)| name == "location").map(|(_, value)| value.as_str());
    (reply.status, location, String::from_utf8(reply.body.clone()).unwrap())
}

/// Sends a document to es-0, alone. Returns its path.
pub fn write_one(harness: &mut Harness, id: u32) -> String {
    let path = format!("/i/_doc/{}", id_on(0, id as usize));
    send(harness, id, "PUT", &path, r#"{"a":1}"#);
    harness.woken();
    path
}

pub const CONFLICT: &str = r#"{"error":{"root_cause":[{"type":"version_conflict_engine_exception","reason":"exists"}],"type":"version_conflict_engine_exception","reason":"exists"},"status":409}"#;

pub fn refused(id: usize, status: u16) -> Value {
    let error = json!({"type": "version_conflict_engine_exception", "reason": "exists"});
    json!([{"index": {"_index": "i", "_id": id_on(0, id), "status": status, "error": error}}])
}

#[test]
fn single_documents_share_a_batch_with_bulk_requests_and_each_gets_its_own_answer() {
    let mut harness = harness();
    harness.write(&[id_on(0, 9)]);
    let [a, b, c] = [0, 1, 2].map(|n| id_on(0, n));
    send(&mut harness, 100, "PUT", &format!("/i/_doc/{a}"), r#"{"a": 1}"#);
    send(&mut harness, 101, "DELETE", &format!("/i/_doc/{b}"), "");
    let bulk = harness.request("/_bulk", &index(std::slice::from_ref(&c)));
    harness.answer("es-0");
    let lines = format!(
        "{{\"index\":{{\"_index\":\"i\",\"_id\":\"{a}\"}}}}\n{{\"a\": 1}}\n{{\"delete\":{{\"_index\":\"i\",\"_id\":\"{b}\"}}}}\n{}",
        index(std::slice::from_ref(&c))
    );
    assert_eq!(harness.bodies(), [lines]);
    assert_eq!(harness.calls[0].headers[2], (":path".to_owned(), "/_bulk".to_owned()));
    harness.answer("es-0");
    let fields = |id: &str| format!(r#"{{"_id":"{id}","_index":"i","_node":"es-0"}}"#);
    assert_eq!(reply(&harness, 100), (201, Some(format!("/i/_doc/{a}").as_str()), fields(&a)));
    assert_eq!(reply(&harness, 101), (404, None, fields(&b)));
    assert_eq!(harness.items(bulk), [(c, 201)]);
    assert_eq!(harness.counts[&Counter::DocumentsMerged], 2);
    assert_eq!(harness.counts[&Counter::RequestsMerged], 4);
    harness.finish();
}

#[test]
fn a_document_without_an_id_is_created_with_a_generated_one() {
    let mut harness = harness();
    send(&mut harness, 100, "POST", "/i/_doc?routing=a%20b&refresh=wait_for", "{}");
    harness.woken();
    let call = harness.calls[0].clone();
    let line: Value = serde_json::from_slice(call.body.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    let id = line["create"]["_id"].as_str().unwrap().to_owned();
    assert_eq!(line, json!({"create": {"_index": "i", "_id": id, "routing": "a b"}}));
    assert_eq!(call.headers.iter().find(|(name, _)| name == ":path").unwrap().1, "/_bulk?refresh=wait_for");
    harness.settle();
    assert_eq!(reply(&harness, 100).1, Some(format!("/i/_doc/{id}?routing=a+b").as_str()));
    harness.finish();
}

#[test]
fn a_location_has_the_routing_value_of_an_alias() {
    let mut state = state();
    state["metadata"]["indices"]["i"]["aliases"] = json!(["routed"]);
    state["alias"] = json!({"i": {"aliases": {"routed": {"index_routing": "x y"}}}});
    let mut harness = Harness::knowing(json!({"single_documents": true}), &state);
    send(&mut harness, 100, "PUT", "/routed/_doc/1", "{}");
    harness.woken();
    harness.settle();
    assert_eq!(reply(&harness, 100).1, Some("/i/_doc/1?routing=x+y"));
    harness.finish();
}

#[test]
fn an_update_that_changes_nothing_is_answered_as_one_that_no_shard_has_written() {
    let mut harness = harness();
    let [a, b] = [0, 1].map(|n| id_on(0, n));
    // With `refresh`, a bulk request with updates would be alone in its batch.
    for (request, id) in [(100, &a), (101, &b)] {
        send(&mut harness, request, "POST", &format!("/i/_update/{id}?refresh=true"), r#"{"doc":{"a":1}}"#);
    }
    harness.woken();
    let lines = |id: &str| format!("{{\"update\":{{\"_index\":\"i\",\"_id\":\"{id}\"}}}}\n{{\"doc\":{{\"a\":1}}}}\n");
    assert_eq!(harness.bodies(), [lines(&a) + &lines(&b)]);
    let fields = |id: &str, result: &str, shards: &str| {
        format!(r#""_id":"{id}","_index":"i","result":"{result}",{shards}"_seq_no":7"#)
    };
    let wrote = r#""forced_refresh":true,"_shards":{"total":1,"successful":1,"failed":0},"#;
    let none = r#""_shards":{"total":0,"successful":0,"failed":0},"#;
    let item = |id, result| format!(r#"{{"update":{{{},"status":200}}}}"#, fields(id, result, wrote));
    let answer = format!(r#"{{"took":1,"errors":false,"items":[{},{}]}}"#, item(&a, "noop"), item(&b, "updated"));
    harness.answer_with("es-0", 200, &answer);
    assert_eq!(reply(&harness, 100), (200, None, format!("{{{}}}", fields(&a, "noop", none))));
    assert_eq!(reply(&harness, 101), (200, None, format!("{{{}}}", fields(&b, "updated", wrote))));
    harness.finish();
}

#[test]
fn an_update_passes_through_where_a_bulk_request_would_do_something_else() {
    let mut state = state();
    state["metadata"]["indices"]["i"]["aliases"] = json!(["routed"]);
    state["alias"] = json!({"i": {"aliases": {"routed": {"index_routing": "x y"}}}});
    let single = Some(PassThrough::Unrouted(Unrouted::SingleUpdate));
    let piped = Some(PassThrough::Unrouted(Unrouted::IndexPipeline));
    for (path, at, field, why) in [
        ("/i/_update/1", "", json!({}), None),
        ("/i/_update/1", "/settings/index", json!({"disable_sequence_numbers": "false"}), None),
        ("/i/_update/1", "/settings/index", json!({"disable_sequence_numbers": "true"}), single),
        ("/i/_update/1", "", json!({"field_inference": {"f": {"inference_id": "m"}}}), single),
        ("/i/_update/1", "/settings/index", json!({"write": {"wait_for_active_shards": "2"}}), single),
        ("/i/_update/1", "/settings/index", json!({"default_pipeline": "p"}), piped),
        ("/routed/_update/1", "", json!({}), single),
        ("/i/_update/1?routing=a", "", json!({}), Some(PassThrough::Parameter)),
    ] {
        let mut state = state.clone();
        let part = state.pointer_mut(&format!("/metadata/indices/i{at}")).unwrap();
        *part = with(part.take(), &field);
        let config = json!({"single_documents": true, "cluster_state": {"refresh": "1h"}});
        let mut harness = Harness::knowing(config, &state);
        send(&mut harness, 100, "POST", path, r#"{"doc":{}}"#);
        assert_eq!(why.map_or(0, |why| harness.passed_because(why)), u64::from(why.is_some()), "{path} {field}");
        assert_eq!(harness.passed.len(), usize::from(why.is_some()), "{path} {field}");
        // A bulk request with the same update is split all the same, except under a pipeline.
        harness.passed.clear();
        harness.request("/_bulk", "{\"update\":{\"_index\":\"i\",\"_id\":\"1\"}}\n{\"doc\":{}}\n");
        assert_eq!(harness.passed.len(), usize::from(why == piped), "{field}");
    }
}

#[test]
fn a_single_update_with_a_script_passes_through() {
    let mut harness = harness();
    for body in
        [r#"{"script":{"source":"ctx.op = 'delete'"}}"#, r#"{"upsert":{}}"#, "{}", r#"{"doc":{},"_source":true}"#]
    {
        send(&mut harness, 100, "POST", "/i/_update/1", body);
        assert_eq!(harness.passed.remove(&100).unwrap(), body.as_bytes());
        harness.gone(100);
    }
    assert_eq!(harness.passed_because(PassThrough::UpdateBody), 4);
    for body in ["\n{\"doc\":{}}", "{\n\"doc\":{}}", "{\"doc\":{}}\n"] {
        send(&mut harness, 100, "POST", "/i/_update/1", body);
        assert_eq!(harness.passed.remove(&100).unwrap(), body.as_bytes());
        harness.gone(100);
    }
    assert_eq!(harness.passed_because(PassThrough::DocumentBody), 3);
    harness.finish();
}

#[test]
fn an_answer_is_filtered_and_indented_as_the_client_asks() {
    let mut harness = harness();
    let id = id_on(0, 0);
    send(&mut harness, 100, "PUT", &format!("/i/_doc/{id}?filter_path=_id,_node&pretty"), "{}");
    harness.woken();
    harness.settle();
    let expected = format!("{{\n  \"_id\" : \"{id}\",\n  \"_node\" : \"es-0\"\n}}\n");
    assert_eq!(reply(&harness, 100), (201, Some(format!("/i/_doc/{id}").as_str()), expected));
}

#[test]
fn an_error_is_indented_as_the_client_asks_but_not_filtered() {
    let mut harness = harness();
    let path = format!("/i/_doc/{}?filter_path=_id&pretty", id_on(0, 0));
    let mut failed = refused(0, 503);
    failed[0]["index"]["error"] = "no".into();
    send(&mut harness, 100, "PUT", &path, "{}");
    harness.woken();
    harness.answer_items("es-0", &failed);
    let expected = "{\n  \"error\" : \"no\",\n  \"status\" : 503\n}\n";
    assert_eq!(reply(&harness, 100), (503, None, expected.to_owned()));
    send(&mut harness, 101, "PUT", &path, "{}");
    harness.woken();
    harness.answer_with("es-0", 200, r#"{"took":1,"errors":false,"items":[]}"#);
    let (status, _, unknown) = reply(&harness, 101);
    assert_eq!((status, unknown.starts_with("{\n  \"error\" : {\n")), (503, true), "{unknown}");
    assert_eq!(harness.engine.memory(), 0);
}

#[test]
fn a_refused_document_is_sent_as_it_arrived_and_gets_the_clusters_own_answer() {
    let mut harness = harness();
    let path = format!("/i/_create/{}?pretty", id_on(0, 0));
    let headers = [
        (":method", "PUT"),
        (":path", path.as_str()),
        (":authority", "es"),
        ("authorization", "Basic a"),
        ("content-type", "application/json"),
        ("x-request-id", "7"),
    ];
    send_with(&mut harness, 100, &headers, r#"{"a": 1}"#);
    harness.woken();
    harness.answer_items("es-0", &json!([{"create": refused(0, 409)[0]["index"]}]));
    let call = harness.calls[0].clone();
    assert_eq!((call.upstream.as_ref(), call.body.as_slice()), ("es", br#"{"a": 1}"#.as_slice()));
    let sent: Vec<_> = call.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(sorted(&sent), sorted(&headers[..5]));
    assert!(harness.replies.is_empty());
    harness.respond("es", 409, &[("x-elastic-product", "Elasticsearch")], CONFLICT);
    assert_eq!(reply(&harness, 100), (409, None, CONFLICT.to_owned()));
    assert_eq!(harness.counts[&Counter::DocumentsRefused], 1);
    assert_eq!(harness.counts.get(&Counter::DocumentsMerged), None);
    harness.finish();
}

fn sorted<'a>(headers: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut headers = headers.to_vec();
    headers.sort_unstable();
    headers
}

/// The cluster's answer has headers that the item has not.
#[test]
fn a_document_that_a_pipeline_refuses_is_sent_as_it_arrived_despite_a_500() {
    let mut harness = harness();
    write_one(&mut harness, 0);
    let mut items = refused(0, 500);
    items[0]["index"]["error"]["type"] = "fail_processor_exception".into();
    harness.answer_items("es-0", &items);
    harness.respond("es", 500, &[("x-elastic-product", "Elasticsearch")], "no");
    assert_eq!(reply(&harness, 0), (500, None, "no".to_owned()));
    assert_eq!(harness.counts[&Counter::DocumentsRefused], 1);
    harness.finish();
}

#[test]
fn a_batch_that_is_refused_as_a_whole_is_not_the_answer_to_a_document() {
    let mut harness = harness();
    write_one(&mut harness, 0);
    harness.answer_with("es-0", 401, r#"{"error":{"type":"security_exception","reason":"[/_bulk]"},"status":401}"#);
    harness.respond("es", 401, &[("www-authenticate", "Basic")], "no");
    assert_eq!(reply(&harness, 0), (401, None, "no".to_owned()));
    harness.finish();
}

#[test]
fn a_document_that_may_have_been_written_is_not_sent_again() {
    let mut harness = harness();
    write_one(&mut harness, 0);
    harness.answer_items("es-0", &refused(0, 503));
    assert_eq!(harness.calls.len(), 0);
    let error = r#""reason":"exists","type":"version_conflict_engine_exception""#;
    let expected = format!(r#"{{"error":{{"root_cause":[{{{error}}}],{error}}},"status":503}}"#);
    assert_eq!(reply(&harness, 0), (503, None, expected));
    harness.finish();
}

#[test]
fn the_request_itself_is_answered_if_its_connection_is_lost() {
    let mut harness = harness();
    send(&mut harness, 100, "PUT", &format!("/i/_create/{}", id_on(0, 0)), "{}");
    harness.woken();
    harness.answer_items("es-0", &json!([{"create": refused(0, 409)[0]["index"]}]));
    harness.lose("es");
    let (status, _, body) = reply(&harness, 100);
    let body: Value = body.parse().unwrap();
    assert_eq!(
        (status, &body["error"]["type"], &body["status"]),
        (503, &json!("bulk_outcome_unknown_exception"), &json!(503))
    );
    assert_eq!(harness.engine.memory(), 0);
}

#[test]
fn the_request_itself_is_sent_until_it_is_on_its_way_and_counted_once() {
    let mut harness = harness();
    write_one(&mut harness, 0);
    harness.answer_items("es-0", &refused(0, 403));
    let ended = "upstream connect error or disconnect/reset before headers. reset reason:";
    harness.envoy_says("es", 503, &format!("{ended} remote connection failure"));
    assert_eq!(harness.upstreams(), ["es"]);
    harness.envoy_says("es", 503, &format!("{ended} connection termination"));
    harness.tick_after(std::time::Duration::from_secs(1));
    assert_eq!((harness.calls.len(), reply(&harness, 0).0), (0, 503));
    assert_eq!(harness.counts[&Counter::DocumentsRefused], 1);
    assert_eq!(harness.engine.memory(), 0);
}

#[test]
fn the_request_itself_is_not_sent_after_its_client_has_left() {
    let one_slot = json!({"single_documents": true, "dispatch": {"max_in_flight_per_node": 1}});
    let mut harness = Harness::quiet(&one_slot);
    for id in [0, 1, 2] {
        write_one(&mut harness, id);
        harness.answer_items("es-0", &refused(id as usize, 403));
    }
    assert_eq!(harness.calls.len(), 1);
    harness.gone(1);
    harness.respond("es", 403, &[], "no");
    // The next one is that of request 2.
    harness.respond("es", 403, &[], "not that either");
    assert_eq!((harness.calls.len(), reply(&harness, 2).2.as_str()), (0, "not that either"));
    assert!(!harness.replies.contains_key(&1));
    assert_eq!(harness.counts[&Counter::RequestsAbandoned], 1);
    harness.finish();
}

#[test]
fn a_busy_document_is_sent_again_in_batches_first() {
    let mut harness = harness();
    write_one(&mut harness, 0);
    harness.answer_items("es-0", &refused(0, 429));
    assert_eq!(harness.calls.len(), 0);
    harness.tick_after(std::time::Duration::from_secs(1));
    harness.answer("es-0");
    assert_eq!(reply(&harness, 0).0, 201);
    harness.finish();
}

#[test]
fn a_writer_that_is_often_refused_passes_through() {
    let mut harness = harness();
    for id in 0..16 {
        write_one(&mut harness, id);
        harness.answer_items("es-0", &refused(id as usize, 409));
        harness.respond("es", 409, &[], CONFLICT);
    }
    let path = write_one(&mut harness, 100);
    assert_eq!((harness.passed.len(), harness.passed_because(PassThrough::OftenRefused)), (1, 1));
    // Deletions are another matter.
    send(&mut harness, 101, "DELETE", &path, "");
    assert_eq!(harness.passed.len(), 1);
    harness.woken();
    harness.finish();
}

#[test]
fn a_body_that_is_no_line_of_a_bulk_request_passes_through_unchanged() {
    let mut harness = harness();
    for (method, body) in [
        ("PUT", "{\n}"),
        ("PUT", "{}\n"),
        ("PUT", "{}\r"),
        ("PUT", "\n"),
        ("PUT", "{}\n{\"delete\":{\"_index\":\"i\",\"_id\":\"2\"}}\n"),
        ("PUT", "{}\n{\"delete\":{\"_index\":\"i\",\"_id\":\"2\"}}"),
        ("DELETE", "{}"),
        ("DELETE", "\n"),
        ("DELETE", "{}\n"),
        ("DELETE", "{\"delete\":{\"_index\":\"i\",\"_id\":\"2\"}}\n"),
    ] {
        harness.passed.clear();
        send(&mut harness, 100, method, "/i/_doc/1", body);
        assert_eq!(harness.passed[&100], body.as_bytes(), "{method} {body:?}");
        harness.gone(100);
    }
    assert_eq!(harness.passed_because(PassThrough::DocumentBody), 10);
    harness.passed.clear();
    send(&mut harness, 101, "PUT", "/i/_doc/1", "");
    assert_eq!((harness.passed[&101].len(), harness.passed_because(PassThrough::Empty)), (0, 1));
    harness.finish();
}

#[test]
fn any_chunks_of_a_body_make_the_same_document() {
    let body = "{\"a\": \"é\"}";
    for cut in 0..=body.len() {
        let mut harness = harness();
        let headers = [(":method", "PUT"), (":path", "/i/_doc/1"), ("content-type", "application/json")];
        let head = Input::RequestHead {
            request: RequestId(0),
            headers: header_map(&headers),
            route: Some(b"es".to_vec()),
            end: false,
        };
        harness.stream(head);
        harness.data(0, &body.as_bytes()[..cut], false);
        harness.data(0, &body.as_bytes()[cut..], false);
        harness.stream(Input::RequestEnd { request: RequestId(0) });
        harness.woken();
        let expected = format!("{{\"index\":{{\"_index\":\"i\",\"_id\":\"1\"}}}}\n{body}\n");
        assert_eq!(harness.bodies(), [expected], "{cut}");
        harness.finish();
    }
}

#[test]
fn documents_pass_through_unless_their_index_or_the_configuration_says_otherwise() {
    let index = |on: bool| json!([{"pattern": "i", "single_documents": on}]);
    let mapped = |on: bool| json!({"_doc": {"_meta": {"bulk_reshuffle": {"single_documents": on}}}});
    for (config, mappings, joins) in [
        (json!({}), json!({}), false),
        (json!({"indices": index(true)}), json!({}), true),
        (json!({"single_documents": true, "indices": index(false)}), json!({}), false),
        (json!({}), mapped(true), true),
        (json!({"single_documents": true}), mapped(false), false),
    ] {
        let mut state = state();
        state["metadata"]["indices"]["i"]["mappings"] = mappings;
        let mut harness = Harness::knowing(with(json!({"cluster_state": {"refresh": "1h"}}), &config), &state);
        assert_eq!(harness.engine.takes(b"/i/_doc/1"), joins, "{config}");
        send(&mut harness, 100, "PUT", "/i/_doc/1", "{}");
        assert_eq!(harness.passed.is_empty(), joins, "{config}");
        assert!(joins || harness.counts.is_empty(), "{config}");
    }
}

#[test]
fn what_the_filter_does_not_vouch_for_has_a_reason() {
    let mut state = state();
    add_data_stream(&mut state);
    let mut harness = Harness::knowing(json!({"single_documents": true, "cluster_state": {"refresh": "1h"}}), &state);
    for (method, path, why) in [
        ("PUT", "/i/_doc/_mapping", PassThrough::Path),
        ("PUT", "/i/_doc/1?unknown=1", PassThrough::Parameter),
        ("PUT", "/i/_doc/1?version=3", PassThrough::ActionLine),
        ("PUT", "/i/_doc/1?refresh=true&refresh=true", PassThrough::Parameter),
        ("PUT", "/i/_doc/1?timeout=20m", PassThrough::Parameter),
        ("PUT", "/none/_doc/1", PassThrough::Unrouted(Unrouted::UnknownIndex)),
        ("PUT", "/stream/_doc/1", PassThrough::Unrouted(Unrouted::CreateOnly)),
    ] {
        let before = harness.passed_because(why);
        send(&mut harness, 100, method, path, "{}");
        assert!(harness.passed.remove(&100).is_some(), "{path}");
        assert_eq!(harness.passed_because(why), before + 1, "{path}");
        harness.gone(100);
    }
    assert_eq!(harness.engine.memory(), 0);
}

#[test]
fn an_explanation_covers_a_single_document() {
    let harness = harness();
    let headers = [(":method", "PUT"), (":path", "/i/_doc/1"), ("content-type", "application/json")];
    let explanation = harness.engine.explain(header_map(&headers), b"{}".to_vec(), 1).unwrap();
    assert_eq!((explanation.operations, explanation.listed[0].id.as_deref()), (1, Some("1")));
    let refused = harness.engine.explain(header_map(&headers), b"{}\n".to_vec(), 1).unwrap();
    assert_eq!(refused.because.unwrap().why.reason, "document_body");
}
