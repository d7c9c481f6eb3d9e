use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::super::{PollAction, RoutingTable, Snapshot, StateCache, Unrouted, Unshared, Upstreams, hash};
use crate::Time;
use crate::config::Config;

/// Returns a cluster's whole state, with more than the queries need, and an index for every unrouted reason.
fn state() -> Value {
    let mut indices = Map::new();
    let mut tables = Map::new();
    let copy = |state: &str, node: Value| json!({"primary": true, "state": state, "node": node, "shard": 0});
    let mapping = |mapping: &Value| json!({"mappings": {"_doc": mapping}});
    let overrides = json!({"enabled": false, "missing_id": "direct"});
    let split = json!({"num_of_root_shards": 3, "max_shard_id": 3, "active_shard_ids": [0]});
    for (name, of_index, in_settings) in [
        ("plain", json!({"aliases": ["alias", "all", "fixed"]}), json!({})),
        ("second", json!({"aliases": ["all", "torn"]}), json!({})),
        ("third", json!({"aliases": ["torn"]}), json!({})),
        ("modulo", json!({"routing_num_shards": 7}), json!({"version": {"created": "9081000"}})),
        ("parts", mapping(&json!({"_routing": {"required": true}})), json!({"routing_partition_size": "2"})),
        ("required", mapping(&json!({"_routing": {"required": true}})), json!({})),
        ("meta", mapping(&json!({"_meta": {"bulk_reshuffle": overrides}})), json!({})),
        ("appended", json!({}), json!({"append_only": {"enabled": "true"}})),
        (".ds-logs-000002", json!({}), json!({})),
        ("closed", json!({"state": "close"}), json!({})),
        ("blocked", json!({}), json!({"blocks": {"read_only": "true"}})),
        ("piped", json!({}), json!({"final_pipeline": "good"})),
        ("piped-twice", json!({}), json!({"default_pipeline": "good", "final_pipeline": "reader"})),
        ("piped-badly", json!({}), json!({"default_pipeline": "bad"})),
        ("piped-nowhere", json!({}), json!({"default_pipeline": "absent"})),
        ("series", json!({}), json!({"routing_path": ["a"]})),
        ("mode", json!({}), json!({"mode": "new"})),
        ("virtual", json!({}), json!({"number_of_virtual_shards": "12"})),
        ("resharding", json!({"resharding": {"a": 1}}), json!({})),
        ("split", json!({"split_shards_metadata": split}), json!({})),
        ("later", json!({}), json!({"version": {"created": "10000000"}})),
        ("odd", json!({"routing_num_shards": 5}), json!({})),
        ("unlisted", json!({}), json!({"number_of_shards": "1"})),
    ] {
        let mut settings = json!({
            "uuid": name, "number_of_shards": "3", "creation_date": "1", "version": {"created": "136408127"},
        });
        settings.as_object_mut().unwrap().extend(in_settings.as_object().unwrap().clone());
        let mut metadata = json!({
            "version": 3, "mapping_version": 1, "state": "open", "routing_num_shards": 768, "aliases": [],
            "settings": {"index": settings}, "mappings": {"_doc": {"properties": {}}}, "primary_terms": {"0": 1},
        });
        metadata.as_object_mut().unwrap().extend(of_index.as_object().unwrap().clone());
        indices.insert(name.to_owned(), metadata);
        let shards = match name {
            "third" => json!({
                "0": [copy("UNASSIGNED", Value::Null)], "1": [copy("STARTED", json!("gone"))],
                "2": [copy("RELOCATING", json!("n1"))],
            }),
            _ => json!({
                "0": [copy("STARTED", json!("n0"))], "1": [copy("STARTED", json!("n1"))],
                "2": [copy("STARTED", json!("n2"))],
            }),
        };
        tables.insert(name.to_owned(), json!({ "shards": shards }));
    }
    json!({
        "cluster_name": "c", "version": 9, "state_uuid": "s", "cluster_uuid": "c", "blocks": {},
        "nodes": {
            "n0": {
                "name": "es-0", "attributes": {"up": "first"}, "transport_address": "127.0.0.1:9300",
                "version": "8.19.2", "roles": ["data", "ingest"],
            },
            "n1": {"name": "es-1", "attributes": {"up": "second"}, "version": "8.19.2", "roles": ["data"]},
            "n2": {"name": "es-2", "attributes": {}, "version": "8.19.2"},
        },
        "metadata": {
            "cluster_uuid": "c", "templates": {}, "indices": indices,
            "ingest": {"pipeline": [
                {"id": "good", "config": {"description": "d", "processors": [{"drop": {}}]}},
                {"id": "reader", "config": {"processors": [{"set": {"field": "a", "value": "{{_id}}"}}]}},
                {"id": "bad", "config": {"processors": [{"script": {"source": "ctx._id = 1"}}]}},
            ]},
            "data_stream": {
                "data_stream": {
                    "logs": {"indices": [{"index_name": "x"}, {"index_name": ".ds-logs-000002"}]},
                    "lazy": {"indices": [{"index_name": "plain"}], "rollover_on_write": true},
                },
                "data_stream_aliases": {"stream": {"write_data_stream": "logs"}, "read": {}, "lazier": {"write_data_stream": "lazy"}},
            },
        },
        "routing_table": {"indices": tables},
        "answers": {
            "/_alias": {
                "plain": {"aliases": {"fixed": {"index_routing": "7"}}},
                "second": {"aliases": {"all": {"is_write_index": true}}},
            },
            "/_nodes/http": {"nodes": {
                "n0": {"http": {"publish_address": "127.0.0.1:9200"}}, "n1": {"http": {"publish_address": "es-1/[::1]:9201"}},
                "n2": {"http": {"publish_address": "es-2/10.0.0.1:9202"}},
            }},
            "/_cluster/settings": {"persistent": {"cluster": {"metadata": {"bulk_reshuffle": {"enabled": "false"}}}}},
        },
    })
}

/// Returns the table of a snapshot, and the cache that built it.
fn load(state: &[u8], template: &str) -> (Rc<RoutingTable>, Upstreams, StateCache) {
    let config = format!(r#"{{"coordinator":"es","nodes":{{"upstream":"{template}"}}}}"#);
    let mut cache = StateCache::new(&Config::read(config.as_bytes()).unwrap(), 1, Box::new(Unshared));
    let (snapshot, mut upstreams) = (Snapshot::read(state).unwrap(), Upstreams::new("es"));
    cache.wake(Time::ZERO);
    while let Some(action) = cache.next(Time::ZERO) {
        if let PollAction::Ask(query) = action {
            cache.answered(200, snapshot.answer(&query.path()), Time::ZERO);
        }
    }
    assert!(std::iter::from_fn(|| cache.next_event()).all(|events| events == super::super::PollEvent::Loaded));
    (cache.new_table(&mut upstreams).unwrap(), upstreams, cache)
}

fn names(state: &Value) -> Vec<String> {
    let indices = state["metadata"]["indices"].as_object().unwrap().keys().map(String::as_str);
    let others = ["alias", "all", "fixed", "torn", "logs", "lazy", "stream", "read", "lazier", "nothing"];
    indices.chain(others).map(str::to_owned).collect()
}

/// Describes the destination of operations on a name with an id, a routing value, both or neither, and the name's other
/// properties.
fn routes((table, upstreams, _): &(Rc<RoutingTable>, Upstreams, StateCache), name: &str) -> String {
    let ids = [None].into_iter().chain((0..40).map(Some)).map(|id: Option<u32>| id.map(|id| hash(&id.to_string())));
    let of_id = |id| [None, Some("7"), Some("8")].map(|routing| format!("{:?}", table.route(name, id, routing)));
    let target = table.write_target(name);
    let about = target.map(|target| {
        let ingest = [None, Some("_none"), Some("reader")].map(|pipeline| target.ingest(pipeline));
        (target.index, target.kind, target.overrides(), target.added_routing, target.direct(1), ingest)
    });
    let upstreams = upstreams.ids().map(|upstream| upstreams.name(upstream)).collect::<Vec<_>>();
    format!("{about:?} {upstreams:?} {:?}", ids.map(of_id).collect::<Vec<_>>())
}

#[test]
fn an_exported_table_routes_the_same_after_import() {
    let state = state();
    for template in ["{name}", "{attr.up}", "{host}-{ip}-{http_port}"] {
        let original = load(state.to_string().as_bytes(), template);
        let settings = serde_json::from_slice(original.2.settings()).unwrap();
        let exported = original.0.export("*", 1000, original.2.verified().map(|(version, _)| version), settings);
        let again = load(&serde_json::to_vec(&exported).unwrap(), template);
        for name in names(&state) {
            assert_eq!(routes(&original, &name), routes(&again, &name), "{name} by {template}");
        }
        assert!(original.0.nodes().eq(again.0.nodes()) && original.0.upstreams() == again.0.upstreams());
        assert_eq!(
            (original.2.verified().map(|(version, _)| version), original.2.settings().len()),
            (again.2.verified().map(|(version, _)| version), again.2.settings().len())
        );
    }
}

#[test]
fn a_state_may_omit_empty_parts() {
    let mut small = state();
    small["metadata"].as_object_mut().unwrap().remove("data_stream");
    for key in ["answers", "version", "state_uuid"] {
        small.as_object_mut().unwrap().remove(key);
    }
    let (table, ..) = load(small.to_string().as_bytes(), "{name}");
    assert!(table.write_target("alias").is_ok() && table.write_target("logs").is_err());
}

#[test]
fn the_test_state_covers_every_unrouted_reason() {
    let (table, ..) = load(state().to_string().as_bytes(), "{attr.up}");
    let mut found: Vec<&str> = names(&state())
        .iter()
        .flat_map(|name| {
            (0..20).filter_map(|id| table.route(name, Some(id * 0x0123_4567), None).err()).collect::<Vec<_>>()
        })
        .map(Unrouted::name)
        .collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(
        found,
        [
            "alias",
            "closed",
            "index_mode",
            "primary",
            "resharding",
            "rollover",
            "routing_path",
            "routing_required",
            "split",
            "unknown_index",
            "unknown_settings",
            "upstream",
            "version",
            "virtual_shards",
            "write_block",
        ]
    );
}

#[test]
fn exports_only_matching_indices_up_to_the_limit() {
    let whole = load(state().to_string().as_bytes(), "{name}");
    let export = |pattern: &str, most| serde_json::to_value(whole.0.export(pattern, most, None, None)).unwrap();
    let indices =
        |export: &Value| export["metadata"]["indices"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        indices(&export("p*", 1000)),
        ["parts", "piped", "piped-badly", "piped-nowhere", "piped-twice", "plain"]
    );
    assert_eq!(indices(&export("log?", 1000)), [""; 0]);
    let stream = export("logs", 1000);
    assert_eq!(indices(&stream), [".ds-logs-000002"]);
    assert_eq!(stream["metadata"]["data_stream"]["data_stream_aliases"]["stream"]["write_data_stream"], "logs");
    let few = export("*", 2);
    assert_eq!(
        (indices(&few), &few["indices_left_out"]),
        (vec![".ds-logs-000002".to_owned(), "appended".to_owned()], &json!(21))
    );
}

#[test]
fn rejects_other_json_and_names_the_expected_format() {
    for text in
        ["", "[]", "{}", r#"{"nodes":{},"metadata":{}}"#, r#"{"nodes":1,"metadata":{"indices":[]},"routing_table":{}}"#]
    {
        let error = Snapshot::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("GET _cluster/state"), "{error}");
    }
}
