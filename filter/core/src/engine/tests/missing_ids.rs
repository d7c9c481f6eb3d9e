use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::failures::RESET;
use super::harness::{
    Harness, Sent, add_data_stream, add_index, id_on, index, sent, set_releases, shard_of, state, text,
};
use crate::engine::command::{Call, Response};
use crate::engine::input::Input;

const LINES: &str = concat!(
    "{\"index\":{}}\n{\"n\":0}\n",
    "{ \"create\" : { } }\r\n{\"n\":1}\n",
    "\n",
    "{\"index\":{\"_id\":\"mine\"}}\n{\"n\":2}\n",
    "{\"index\":{\"require_alias\":false}}\n{\"n\":3}\n",
);

/// Returns the operations of a batch: the parameters and the number in the source.
fn operations(call: &Call) -> Vec<(Value, u64)> {
    let operation = |sent: Sent| (sent.parameters, sent.document["n"].as_u64().unwrap_or_default());
    sent(&call.body).into_iter().map(operation).collect()
}

#[test]
fn generated_ids_route_documents_and_appear_in_their_items() {
    let mut harness = Harness::new(json!({"missing_id": "generate"}));
    let id = harness.request("/i/_bulk", LINES);
    let before = harness.engine.memory();
    assert!(before > LINES.len() as u64 + 3 * 20);
    harness.woken();
    let mut made = [const { String::new() }; 4];
    for call in &harness.calls {
        for (parameters, n) in operations(call) {
            let id = parameters["_id"].as_str().unwrap().to_owned();
            assert_eq!(call.upstream.as_ref(), format!("es-{}", shard_of(&id) % 3));
            made[n as usize] = id;
        }
    }
    assert_eq!((made[2].as_str(), made.iter().collect::<BTreeSet<_>>().len()), ("mine", 4));
    assert!(made.iter().all(|id| id == "mine" || id.len() == 20), "{made:?}");
    // Everything arrives byte for byte, except for the added ids.
    let sent: String = harness.calls.iter().map(text).collect();
    for expected in [
        format!("{{\"index\":{{\"_id\":\"{}\"}}}}\n{{\"n\":0}}\n", made[0]),
        format!("{{ \"create\" : {{\"_id\":\"{}\" }} }}\r\n{{\"n\":1}}\n", made[1]),
        format!("{{\"index\":{{\"_id\":\"{}\",\"require_alias\":false}}}}\n{{\"n\":3}}\n", made[3]),
    ] {
        assert!(sent.contains(&expected), "{expected} is not in\n{sent}");
    }
    harness.finish();
    assert_eq!(harness.items(id), made.map(|id| (id, 201)));
}

/// Returns the shards of the operations of each batch in flight, each once.
fn shards_in_flight(harness: &Harness) -> Vec<BTreeSet<u32>> {
    let shard = |(parameters, _): (Value, u64)| shard_of(parameters["_id"].as_str().unwrap());
    harness.calls.iter().map(|call| operations(call).into_iter().map(shard).collect()).collect()
}

#[test]
fn operations_without_ids_go_to_one_shard_of_an_idle_node() {
    let mut harness = Harness::new(json!({"missing_id": "generate"}));
    let lines = "{\"index\":{}}\n{\"n\":0}\n".repeat(50);
    let first = harness.send("/i/_bulk", &lines);
    let shards = shards_in_flight(&harness);
    assert_eq!((shards.len(), shards[0].len()), (1, 1), "{shards:?}");
    // Further requests go to the other nodes, and what arrives while all are busy is divided among them.
    for _ in 0..8 {
        harness.send("/i/_bulk", &lines);
    }
    let shards = shards_in_flight(&harness);
    assert!(shards.len() == 3 && shards.iter().all(|shards| shards.len() == 1), "{shards:?}");
    let upstreams: BTreeSet<String> = harness.upstreams().into_iter().map(str::to_owned).collect();
    assert_eq!(upstreams.len(), 3);
    for upstream in upstreams {
        harness.answer(&upstream);
    }
    assert!((0..3).all(|call| harness.operations(call) == 100), "{:?}", harness.bodies());
    harness.finish();
    assert_eq!(harness.items(first).len(), 50);
}

#[test]
fn large_requests_without_ids_are_divided_among_all_nodes() {
    let mut harness = Harness::new(json!({"missing_id": "generate"}));
    let line = format!("{{\"index\":{{}}}}\n{{\"n\":0,\"text\":\"{}\"}}\n", "x".repeat(1000));
    harness.send("/i/_bulk", &line.repeat(1000));
    let operations: Vec<_> = (0..harness.calls.len()).map(|call| harness.operations(call)).collect();
    assert!(operations.len() == 3 && operations.iter().all(|count| (300..370).contains(count)), "{operations:?}");
    harness.finish();
}

#[test]
fn a_request_whose_client_disconnects_before_it_leaves_uses_up_no_credit() {
    let config = json!({"missing_id": "generate", "hold": {"early_release": false}});
    let first_shard = |large: usize| {
        let mut harness = Harness::new(config.clone());
        let line = format!("{{\"index\":{{}}}}\n{{\"n\":0,\"text\":\"{}\"}}\n", "x".repeat(100_000));
        for _ in 0..large {
            let id = harness.request("/i/_bulk", &line.repeat(3));
            harness.gone(id);
        }
        harness.send("/i/_bulk", "{\"index\":{}}\n{\"n\":0}\n");
        harness.tick_after(Duration::from_secs(1));
        let shards = shards_in_flight(&harness);
        harness.finish();
        shards
    };
    assert_eq!(first_shard(5), first_shard(0));
}

#[test]
fn an_item_without_the_generated_id_does_not_match() {
    let mut harness = Harness::new(json!({"missing_id": "generate"}));
    let id = harness.request("/i/_bulk", &"{\"index\":{}}\n{\"n\":0}\n".repeat(2));
    // Each node gets a batch that contains more than this request.
    harness.send("/i/_bulk", &index(&[id_on(0, 0), id_on(1, 0), id_on(2, 0)]));
    let sent: Vec<_> =
        harness.calls.iter().flat_map(operations).map(|(parameters, _)| parameters["_id"].clone()).collect();
    while let Some(call) = harness.calls.first() {
        let upstream = call.upstream.to_string();
        let item = json!({"index": {"_id": "another", "status": 200}});
        let items = vec![item; operations(call).len()];
        harness.answer_items(&upstream, &json!(items));
    }
    harness.woken();
    let items = harness.items(id);
    assert_eq!(items.len(), 2);
    // The error contains the id under which the document may be found.
    assert!(items.iter().all(|(id, status)| *status == 503 && sent.contains(&json!(id))), "{items:?}");
}

#[test]
fn an_index_operation_with_a_generated_id_is_retried_but_a_create_is_not() {
    for (action, resent) in [("index", true), ("create", false)] {
        let mut harness = Harness::new(json!({"missing_id": "generate"}));
        let id = harness.send("/i/_bulk", &format!("{{\"{action}\":{{}}}}\n{{\"n\":0}}\n"));
        let call = harness.calls[0].clone();
        harness.envoy_says(&call.upstream, 503, RESET);
        harness.tick_after(Duration::from_secs(1));
        let again = harness.calls.iter().find(|again| again.upstream == call.upstream);
        assert_eq!(again.is_some(), resent, "{action}");
        let made = operations(&call)[0].0["_id"].as_str().unwrap().to_owned();
        match again {
            Some(again) => assert_eq!(again.body, call.body),
            None => assert_eq!(harness.items(id), [(made, 503)]),
        }
    }
}

#[test]
fn rejected_operations_are_retried_with_their_generated_id() {
    let mut harness = Harness::new(json!({"missing_id": "generate", "cluster_state": {"refresh": "1h"}}));
    let routing = id_on(0, 0);
    let line = format!("{{\"index\":{{\"routing\":\"{routing}\"}}}}\n{{}}\n");
    let id = harness.send("/i/_bulk", &line.repeat(2));
    let call = harness.calls[0].clone();
    let made: Vec<_> = operations(&call).into_iter().map(|(parameters, _)| parameters["_id"].clone()).collect();
    let item = |id: &Value, status: u16| match status {
        429 => json!({"index": {"_index": "i", "_id": id, "status": 429, "error": {"type": "busy"}}}),
        _ => json!({"index": {"_index": "i", "_id": id, "status": status}}),
    };
    harness.answer_items("es-0", &json!([item(&made[0], 201), item(&made[1], 429)]));
    harness.tick_after(Duration::from_millis(50));
    assert_eq!(harness.calls[0].body, call.body[call.body.len() / 2..]);
    harness.answer_items("es-0", &json!([item(&made[1], 201)]));
    harness.woken();
    let expected: Vec<_> = made.iter().map(|id| (id.as_str().unwrap().to_owned(), 201)).collect();
    assert_eq!(harness.items(id), expected);
}

#[test]
fn direct_sends_all_operations_on_an_index_to_one_shard_that_differs_by_request() {
    let mut harness = Harness::new(json!({"indices": [{"pattern": "i*", "missing_id": "direct"}]}));
    let mut nodes = Vec::new();
    for _ in 0..6 {
        let id = harness.send("/i/_bulk", &"{\"index\":{}}\n{\"n\":0}\n".repeat(5));
        assert_eq!(harness.calls.len(), 1);
        let values: BTreeSet<_> = operations(&harness.calls[0])
            .iter()
            .map(|(line, _)| line["routing"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(values.len(), 1, "{values:?}");
        let node = shard_of(values.first().unwrap()) % 3;
        assert_eq!(harness.calls[0].upstream.as_ref(), format!("es-{node}"));
        nodes.push(node);
        harness.settle();
        assert_eq!(harness.items(id), vec![("made".to_owned(), 201); 5]);
    }
    assert_eq!(nodes[..3], nodes[3..]);
    nodes.truncate(3);
    nodes.sort_unstable();
    assert_eq!(nodes, [0, 1, 2]);
}

#[test]
fn direct_does_not_change_operations_with_an_id_or_a_routing_value() {
    let mut harness = Harness::new(json!({"missing_id": "direct"}));
    let (here, there) = (id_on(0, 0), id_on(1, 0));
    let with_id = index(std::slice::from_ref(&here));
    let with_routing = format!("{{\"index\":{{\"_index\":\"i\",\"routing\":\"{there}\"}}}}\n{{}}\n");
    harness.request("/_bulk", &format!("{with_id}{with_routing}"));
    harness.send(&format!("/i/_bulk?routing={here}"), "{\"index\":{}}\n{}\n");
    let sent: Vec<_> = harness.calls.iter().map(|call| (call.upstream.as_ref(), text(call))).collect();
    let bare = "{\"index\":{}}\n{}\n".to_owned();
    assert_eq!(sent, [("es-0", with_id), ("es-1", with_routing), ("es-0", bare)]);
}

#[test]
fn pass_routes_operations_by_their_routing_value() {
    for mode in ["pass", "direct"] {
        let mut harness = Harness::new(json!({"missing_id": mode}));
        for node in [2, 0, 1] {
            let routing = id_on(node, 0);
            harness.request("/i/_bulk", &format!("{{\"index\":{{\"routing\":\"{routing}\"}}}}\n{{}}\n"));
        }
        harness.woken();
        assert_eq!(harness.upstreams(), ["es-2", "es-0", "es-1"]);
    }
}

#[test]
fn a_routing_value_alone_is_not_enough_where_the_id_routes_too() {
    let mut partitioned = state();
    partitioned["metadata"]["indices"]["i"]["settings"]["index"]["routing_partition_size"] = json!("2");
    let mut harness = Harness::knowing(json!({"missing_id": "direct"}), &partitioned);
    let body = "{\"index\":{}}\n{}\n";
    harness.send("/i/_bulk?routing=a", body);
    assert_eq!((harness.upstreams(), text(&harness.calls[0]).as_str()), (vec!["es"], body));
    // With its own id a document can be routed, unless the index requires a routing value.
    for mode in ["direct", "generate"] {
        let mut harness = Harness::knowing(json!({"missing_id": mode}), &partitioned);
        harness.assert_passes("/i/_bulk", body);
    }
    let mut harness = Harness::knowing(json!({"missing_id": "generate"}), &partitioned);
    harness.send("/i/_bulk?routing=a", body);
    assert!(text(&harness.calls[0]).starts_with("{\"index\":{\"_id\":\""));
    assert_ne!(harness.upstreams(), ["es"]);
}

/// Logstash sends null for parameters that it does not have. A cluster refuses a whole request with a duplicate
/// parameter.
#[test]
fn an_added_parameter_replaces_a_null() {
    let body = "{\"index\":{\"_id\":null,\"_index\":\"i\",\"routing\":null}}\n{\"n\":1}\n";
    for (mode, added) in [("generate", "_id"), ("direct", "routing"), ("pass", "")] {
        let mut harness = Harness::new(json!({"missing_id": mode}));
        let id = harness.send("/_bulk", body);
        let [call] = harness.calls.as_slice() else { panic!("{mode}: {:?}", harness.calls) };
        let (sent, _) = operations(call).remove(0);
        for name in ["_id", "routing"] {
            assert_eq!(sent[name].is_string(), name == added, "{mode}: {sent}");
        }
        let value = sent.get(added).and_then(Value::as_str).unwrap_or_default();
        let expected = body.replacen(&format!("\"{added}\":null"), &format!("\"{added}\":\"{value}\""), 1);
        assert_eq!(text(call), expected, "{mode}");
        harness.settle();
        assert_eq!(harness.items(id).len(), 1);
    }
}

/// Returns the parameters that are added to the action line of an operation on this name.
pub fn added(harness: &mut Harness, name: &str, action: &str, parameters: &Value) -> Vec<String> {
    let mut line = parameters.clone();
    line["_index"] = json!(name);
    let id = harness.request("/_bulk", &format!("{}\n{{}}\n", json!({action: line})));
    assert!(!harness.passed.contains_key(&id), "{name} {action} {parameters}");
    harness.woken();
    let call = harness.calls.remove(0);
    let (sent, _) = operations(&call).remove(0);
    harness.root(Input::CallAnswered { call: call.id, response: Response { status: 500, ..Response::default() } });
    let is_new = |key: &&String| line.get(key.as_str()).is_none();
    sent.as_object().unwrap().keys().filter(is_new).cloned().collect()
}

#[test]
fn operations_that_the_cluster_refuses_get_no_id() {
    let mut state = state();
    add_data_stream(&mut state);
    ["appended", "passed"].into_iter().for_each(|name| _ = add_index(&mut state, name));
    state["metadata"]["indices"]["appended"]["settings"]["index"]["append_only"] = json!({"enabled": "true"});
    state["metadata"]["indices"]["passed"]["mappings"] =
        json!({"_doc": {"_meta": {"bulk_reshuffle": {"missing_id": "pass"}}}});
    // Nodes of these releases know `require_data_stream`.
    set_releases(&mut state, ["8.13.0", "8.19.2", "9.5.3"]);
    let (none, routed, required) = (json!({}), json!({"routing": "x"}), json!({"require_alias": true}));
    let (stream_required, not) = (json!({"require_data_stream": true}), json!({"require_data_stream": false}));
    for (mode, makes) in [("generate", "_id"), ("direct", "routing")] {
        let mut harness = Harness::knowing(json!({"missing_id": mode, "cluster_state": {"refresh": "1h"}}), &state);
        let of_stream = if mode == "generate" { "_id" } else { "" };
        for (name, action, parameters, expected) in [
            ("i", "index", &none, makes),
            ("a", "index", &required, makes),
            ("i", "index", &required, ""),
            ("stream", "create", &routed, ""),
            (".ds-stream-1", "create", &none, ""),
            ("appended", "index", &none, ""),
            ("passed", "index", &none, ""),
            ("stream", "create", &none, of_stream),
            ("streams", "create", &none, of_stream),
            ("streams", "create", &required, of_stream),
            ("stream", "create", &required, ""),
            // The refusal of an operation on a name that is not a data stream contains no id.
            ("i", "index", &not, makes),
            ("i", "index", &stream_required, ""),
            ("a", "index", &stream_required, ""),
            ("stream", "create", &stream_required, of_stream),
            ("streams", "create", &stream_required, of_stream),
        ] {
            let added = added(&mut harness, name, action, parameters);
            assert_eq!(added.concat(), expected, "{mode} {name} {action} {parameters}");
        }
        for (stream, action) in [("stream", "index"), ("streams", "update"), ("stream", "delete")] {
            let body = format!("{}\n{{}}\n", json!({action: {"_index": stream, "_id": "1"}}));
            let end = if action == "delete" { body.len() - 3 } else { body.len() };
            let id = harness.request("/_bulk", &body[..end]);
            assert_eq!(harness.passed[&id], body.as_bytes()[..end], "{stream} {action}");
        }
    }
}
