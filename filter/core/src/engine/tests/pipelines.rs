//! Operations under ingest pipelines.

use serde_json::{Value, json};

use super::admin::status;
use super::harness::{Harness, add_index, id_on, index, operation, set_releases, state};
use super::missing_ids::added;
use crate::engine::pass_through::PassThrough;
use crate::routing::Unrouted;

/// Returns the cluster of [`state`] with nodes that return items in order, and with pipelines. Indices "good", "reader"
/// and "bad" have the default pipelines of these names, "twice" has "good" and the final pipeline "reader". The third
/// node does not run pipelines.
fn cluster() -> Value {
    let mut state = state();
    set_releases(&mut state, ["8.13.0"; 3]);
    for (node, roles) in [("n0", ["data", "ingest"]), ("n1", ["data", "ingest"]), ("n2", ["data", "master"])] {
        state["nodes"][node]["roles"] = json!(roles);
    }
    for (name, first, last) in
        [("good", "good", "_none"), ("reader", "reader", "_none"), ("bad", "bad", "_none"), ("twice", "good", "reader")]
    {
        let metadata = add_index(&mut state, name);
        metadata["settings"]["index"]["default_pipeline"] = json!(first);
        metadata["settings"]["index"]["final_pipeline"] = json!(last);
    }
    let pipeline = |name: &str, processor: Value| json!({"id": name, "config": {"processors": [processor]}});
    state["metadata"]["ingest"]["pipeline"] = json!([
        pipeline("good", json!({"set": {"field": "a", "value": 1}})),
        pipeline("reader", json!({"set": {"field": "a", "copy_from": "_id"}})),
        pipeline("bad", json!({"script": {"source": "ctx._index = 'b'"}})),
    ]);
    state
}

fn harness(config: Value) -> Harness {
    Harness::knowing(config, &cluster())
}

/// Returns the upstreams of a request's batches, or the reason why it passed through.
fn way(path: &str, body: &str) -> String {
    let mut harness = harness(json!({}));
    let id = harness.send(path, body);
    if let Some(passed) = harness.passed.get(&id) {
        assert_eq!(passed, body.as_bytes());
        assert!(harness.calls.is_empty());
        return PassThrough::all().find(|why| harness.passed_because(*why) == 1).unwrap().name().to_owned();
    }
    assert_eq!(harness.calls.iter().map(|call| call.body.len()).sum::<usize>(), body.len(), "the lines are unchanged");
    harness.upstreams().join(" ")
}

#[test]
fn operations_under_a_harmless_pipeline_go_to_their_nodes() {
    let ids = [id_on(0, 0), id_on(1, 0)];
    let body: String = ids.iter().map(|id| operation("index", "good", id, &json!({}))).collect();
    assert_eq!(way("/_bulk", &body), "es-0 es-1");
    let named: String = ids.iter().map(|id| operation("create", "i", id, &json!({"pipeline": "good"}))).collect();
    assert_eq!(way("/_bulk", &named), "es-0 es-1");
    assert_eq!(way("/_bulk?pipeline=good", &index(&ids)), "es-0 es-1");
}

#[test]
fn a_pipeline_that_a_request_names_for_the_first_time_is_queried_soon() {
    let mut state = state();
    set_releases(&mut state, ["8.13.0"; 3]);
    state["nodes"]["n0"]["roles"] = json!(["data", "ingest"]);
    let set = json!({"set": {"field": "a", "value": 1}});
    state["metadata"]["ingest"]["pipeline"] = json!([{"id": "p", "config": {"processors": [set]}}]);
    let mut harness = Harness::knowing(json!({"cluster_state": {"refresh": "1h"}}), &state);
    for (path, upstream) in [("/_bulk", "es-0"), ("/_bulk?pipeline=p", "es")] {
        harness.send(path, &index(&[id_on(0, 0)]));
        assert_eq!(harness.upstreams(), [upstream]);
        harness.settle();
        harness.tick_after(std::time::Duration::from_secs(10));
        assert_eq!(harness.state_queries.len(), usize::from(upstream == "es"), "{path}");
    }
    harness.load(&state);
    harness.send("/_bulk?pipeline=p", &index(&[id_on(0, 0)]));
    assert_eq!(harness.upstreams(), ["es-0"]);
}

#[test]
fn an_operation_goes_where_its_pipelines_let_it_go() {
    for (query, action, name, pipeline, expected) in [
        ("", "index", "twice", "", "es-0"),
        ("", "index", "reader", "", "es-0"),
        // The pipeline of the operation replaces that of the query, and that replaces the index's.
        ("", "index", "bad", "_none", "es-0"),
        ("?pipeline=_none", "index", "bad", "", "es-0"),
        ("?pipeline=bad", "index", "i", "good", "es-0"),
        ("?pipeline=bad", "index", "i", "_none", "es-0"),
        // The names in an item may have any length, and an answer that is too long to be read has an unknown outcome.
        ("?list_executed_pipelines", "index", "good", "", "index_pipeline"),
        ("?list_executed_pipelines", "index", "bad", "", "index_pipeline"),
        ("?list_executed_pipelines", "index", "twice", "", "index_pipeline"),
        ("?list_executed_pipelines=true", "create", "i", "good", "index_pipeline"),
        ("?list_executed_pipelines=true&pipeline=good", "index", "i", "", "index_pipeline"),
        ("?list_executed_pipelines=false", "create", "i", "good", "es-0"),
        ("?list_executed_pipelines", "index", "i", "", "es-0"),
        ("?list_executed_pipelines", "delete", "good", "", "es-0"),
        ("?list_executed_pipelines", "index", "good", "_none", "es-0"),
        // Deletions run no pipeline, and updates under one pass through.
        ("?pipeline=bad", "delete", "bad", "", "es-0"),
        ("", "update", "good", "", "index_pipeline"),
        ("", "update", "bad", "", "index_pipeline"),
        ("", "update", "i", "good", "index_pipeline"),
        ("", "update", "i", "", "es-0"),
        // Some releases do not heed `_none` in upserts.
        ("", "update", "good", "_none", "index_pipeline"),
        ("?pipeline=_none", "update", "good", "_none", "index_pipeline"),
        ("", "index", "good", "_none", "es-0"),
        ("?pipeline=_none", "index", "good", "_none", "es-0"),
        ("", "update", "i", "_none", "es-0"),
        ("?pipeline=_none", "update", "i", "_none", "es-0"),
    ] {
        let more = if pipeline.is_empty() { json!({}) } else { json!({"pipeline": pipeline}) };
        let way = way(&format!("/_bulk{query}"), &operation(action, name, &id_on(0, 0), &more));
        assert_eq!(way, expected, "{query} {action} {name} {pipeline}");
    }
}

#[test]
fn requests_under_another_pipeline_go_to_the_coordinator_as_they_are() {
    let id = id_on(0, 0);
    for (path, name, more) in [
        ("/_bulk", "bad", json!({})),
        ("/_bulk", "i", json!({"pipeline": "bad"})),
        ("/_bulk", "i", json!({"pipeline": "absent"})),
        ("/_bulk", "good", json!({"pipeline": "bad"})),
        ("/_bulk?pipeline=bad", "good", json!({})),
        ("/_bulk?pipeline=good", "good", json!({"pipeline": "bad"})),
        ("/_bulk?pipeline=bad", "twice", json!({})),
    ] {
        // The same document may be meant under two names, so all operations stay together and in order.
        let body = operation("index", "i", &id, &json!({"pipeline": "_none"}))
            + &operation("delete", "i", &id, &json!({}))
            + &operation("index", name, &id, &more)
            + &operation("delete", "good", &id_on(1, 0), &json!({}));
        assert_eq!(way(path, &body), "es", "{path} {name} {more}");
    }
}

#[test]
fn operations_under_another_pipeline_keep_missing_ids_and_are_not_sent_again() {
    let bodies = ["{\"index\":{\"_index\":\"bad\"}}\n{}\n".to_owned(), operation("index", "bad", "1", &json!({}))];
    for body in bodies {
        let mut harness = harness(json!({}));
        let id = harness.send("/_bulk", &body);
        assert_eq!(harness.calls[0].body, body.as_bytes());
        harness.lose("es");
        harness.tick_after(std::time::Duration::from_secs(5));
        assert!(harness.calls.is_empty());
        assert_eq!(harness.items(id)[0].1, 503, "{body}");
    }
}

/// The pipeline may lead both operations to one document.
#[test]
fn a_rejected_operation_is_not_sent_again_after_a_later_one_of_its_request() {
    let (first, second) = (operation("index", "bad", "1", &json!({})), operation("index", "i", "2", &json!({})));
    let both = first + &second;
    for (statuses, expected) in [([429, 201], None), ([201, 429], Some(&second)), ([429, 429], Some(&both))] {
        let mut harness = harness(json!({}));
        harness.send("/_bulk", &both);
        let item = |(id, status)| format!(r#"{{"index":{{"_index":"x","_id":"{id}","status":{status}}}}}"#);
        let items = [1, 2].into_iter().zip(statuses).map(item).collect::<Vec<_>>().join(",");
        harness.answer_with("es", 200, &format!(r#"{{"took":3,"errors":true,"items":[{items}]}}"#));
        harness.tick_after(std::time::Duration::from_secs(5));
        assert_eq!(harness.bodies().first(), expected);
    }
}

#[test]
fn an_index_that_refuses_operations_under_a_pipeline_gets_whole_requests() {
    let mut state = cluster();
    state["metadata"]["indices"]["bad"]["state"] = json!("close");
    let mut harness = Harness::knowing(json!({}), &state);
    harness.request("/_bulk", &operation("index", "bad", "1", &json!({})));
    assert_eq!(harness.passed_because(PassThrough::Unrouted(Unrouted::Closed)), 1);
}

#[test]
fn requests_under_any_pipeline_pass_through_if_items_may_come_in_another_order() {
    let mut state = cluster();
    state["nodes"]["n1"]["version"] = json!("8.12.2");
    for (path, name, why) in
        [("/_bulk", "good", Unrouted::IndexPipeline), ("/_bulk?pipeline=good", "i", Unrouted::NamedPipeline)]
    {
        let mut harness = Harness::knowing(json!({}), &state);
        harness.request(path, &operation("index", name, &id_on(0, 0), &json!({})));
        assert_eq!(harness.passed_because(PassThrough::Unrouted(why)), 1);
    }
}

/// Before Elasticsearch 8.4, a pipeline takes these fields for the metadata of the operation.
#[test]
fn a_document_with_metadata_under_a_pipeline_passes_through_on_older_releases() {
    let passes = |release: &str, name: &str, document: &str| {
        let mut state = cluster();
        set_releases(&mut state, [release; 3]);
        let mut harness = Harness::knowing(json!({}), &state);
        harness.request("/_bulk", &operation("index", name, &id_on(0, 0), &json!({})).replace("{}\n", document));
        harness.passed_because(PassThrough::Unrouted(Unrouted::IndexPipeline)) == 1
    };
    for document in
        ["{\"_routing\":\"x\"}\n", "{\"_if_seq_no\":7,\"_if_primary_term\":1}\n", "{\"\\u005frouting\":\"x\"}\n"]
    {
        assert!(passes("7.17.18", "good", document), "{document}");
        assert!(!passes("7.17.18", "i", document), "{document}");
        assert!(!passes("8.13.0", "good", document), "{document}");
    }
    assert!(!passes("7.17.18", "good", "{\"a_routing\":\"\\u00e9\"}\n"));
}

#[test]
fn operations_go_to_the_coordinator_if_their_node_runs_no_pipelines() {
    let [elsewhere, own] = [id_on(2, 0), id_on(0, 0)];
    let body = operation("index", "good", &elsewhere, &json!({})) + &operation("index", "good", &own, &json!({}));
    assert_eq!(way("/_bulk", &body), "es es-0");
    assert_eq!(way("/_bulk", &operation("index", "i", &elsewhere, &json!({}))), "es-2");
    // Operations without an id whose pipeline reads ids go to any node that runs pipelines.
    for _ in 0..3 {
        let upstream = way("/_bulk", "{\"index\":{\"_index\":\"reader\"}}\n{}\n");
        assert!(["es-0", "es-1"].contains(&upstream.as_str()), "{upstream}");
    }
}

#[test]
fn a_pipeline_that_reads_ids_does_not_see_added_ones() {
    for (mode, of_good) in [("generate", "_id"), ("direct", ""), ("pass", "")] {
        let mut harness = harness(json!({"missing_id": mode}));
        // The node with the first shard that is chosen runs no pipelines. While it is busy, others are chosen.
        harness.send("/i/_bulk", "{\"index\":{}}\n{}\n");
        harness.calls.clear();
        let expected: &[&str] = if of_good.is_empty() { &[] } else { &[of_good] };
        assert_eq!(added(&mut harness, "good", "index", &json!({})), expected, "{mode}");
        for name in ["reader", "twice"] {
            assert_eq!(added(&mut harness, name, "index", &json!({})), [""; 0], "{mode} {name}");
        }
    }
}

/// A pipeline may have been changed since the last poll, and a failure store gives a failed document another index and
/// id.
#[test]
fn an_item_under_a_pipeline_may_have_another_id() {
    let item = r#"{"index":{"_index":"x","_id":"other","status":201}}"#;
    let answer = format!(r#"{{"errors":false,"took":3,"ingest_took":2,"items":[{item}]}}"#);
    for name in ["good", "i"] {
        let mut harness = harness(json!({}));
        let body =
            operation("index", name, &id_on(0, 0), &json!({})) + &operation("index", "i", &id_on(1, 0), &json!({}));
        let id = harness.send("/_bulk", &body);
        harness.answer_with("es-0", 200, &answer);
        harness.answer("es-1");
        assert_eq!(harness.items(id), [("other".to_owned(), 201), (id_on(1, 0), 201)], "{name}");
    }
}

#[test]
fn only_requests_under_a_pipeline_get_the_time_of_the_pipelines() {
    let mut harness = harness(json!({"hold": {"early_release": false}}));
    let under = harness.request("/_bulk", &operation("index", "good", &id_on(0, 0), &json!({})));
    let plain = harness.request("/_bulk", &operation("index", "i", &id_on(0, 1), &json!({})));
    harness.tick_after(std::time::Duration::from_secs(1));
    let item = |id: &str| format!(r#"{{"index":{{"_index":"x","_id":"{id}","status":201}}}}"#);
    let answer = |items: &str| format!(r#"{{"took":3,"ingest_took":2,"errors":false,"items":[{items}]}}"#);
    let [first, second] = [item(&id_on(0, 0)), item(&id_on(0, 1))];
    harness.answer_with("es-0", 200, &answer(&[first.as_str(), &second].join(",")));
    assert_eq!(harness.replies[&under].body, answer(&first).as_bytes());
    assert_eq!(harness.replies[&plain].body, answer(&second).replace("\"ingest_took\":2,", "").as_bytes());
}

#[test]
fn explain_tells_the_pipelines_and_why_they_are_not_harmless() {
    let mut harness = harness(json!({"admin_path": "/_bulk_reshuffle"}));
    let mut explained = |path: &str, body: &str| {
        let id = harness.send(&format!("/_bulk_reshuffle/explain{path}"), body);
        harness.reply(id)
    };
    let [own, elsewhere] = [id_on(0, 0), id_on(2, 0)];
    let body = operation("index", "twice", &own, &json!({}))
        + &operation("index", "good", &elsewhere, &json!({}))
        + &operation("delete", "bad", &own, &json!({}));
    let split = explained("/_bulk", &body);
    let harmless = |name: &str| json!({"name": name, "harmless": true});
    assert_eq!(split["listed"][0]["pipelines"], json!([harmless("good"), harmless("reader")]));
    assert_eq!(split["listed"][1]["unrouted"]["reason"], "ingest_role");
    assert_eq!(split["listed"][2]["pipelines"], Value::Null);
    let merged = explained(
        "/_bulk",
        &(operation("index", "bad", &own, &json!({})) + &operation("delete", "i", &elsewhere, &json!({}))),
    );
    let because = "the processor `script` may write any field";
    assert_eq!(merged["listed"][0]["pipelines"], json!([{"name": "bad", "harmless": false, "because": because}]));
    for operation in 0..2 {
        assert_eq!(merged["listed"][operation]["unrouted"]["reason"], "unproven_pipeline");
        assert_eq!(merged["listed"][operation]["upstream"], "es");
    }
    let absent = json!({"name": "absent", "harmless": false, "because": "it does not exist"});
    let named = explained("/_bulk?pipeline=absent", &operation("index", "twice", &own, &json!({})));
    assert_eq!(named["listed"][0]["pipelines"], json!([absent, harmless("reader")]));
    let whole = explained("/_bulk?pipeline=absent", &operation("update", "twice", &own, &json!({})));
    assert_eq!(whole["because"]["pipelines"], json!([absent, harmless("reader")]));
    let status = status(&mut harness);
    let names: Vec<&str> =
        status["pipelines"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!((names, &status["pipelines_left_out"]), (vec!["bad", "good", "reader"], &json!(0)));
}

#[test]
fn an_item_that_may_be_of_an_operation_under_an_unproven_pipeline_is_assigned_to_none() {
    let id = id_on(0, 0);
    let operations = [operation("create", "i", &id, &json!({})), operation("create", "bad", &id, &json!({}))];
    let mut harness = harness(json!({}));
    let request = harness.request("/_bulk", &operations.concat());
    harness.send("/_bulk", &operation("create", "bad", "other", &json!({})));
    // The second item may be of either operation, because the pipeline may write to index "i".
    let item = |action: &str, id: &str| json!({action: {"_index": "i", "_id": id, "status": 201}});
    let items = json!([item("delete", &id), item("create", &id), item("create", "other")]);
    harness.answer_items("es", &items);
    harness.settle();
    assert_eq!(harness.statuses(request), [503, 503]);
}
