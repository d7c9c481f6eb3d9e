//! All kinds, in the order of the report's rows.

use bulk_reshuffle_stack::Distribution::{self, *};
use hyper::Method;
use serde_json::{Value, json};

use crate::kind::{Expected, Kind, Routing};
use crate::older;

use Expected::{Passed, Refused, RoutedOnceMade, Unrouted};

/// Returns all kinds, with what is expected of them on a version.
pub fn all(version: Distribution) -> Vec<Kind> {
    [indices(), aliases(), data_streams(), operations(), refused(), pipelines(version), others()].concat()
}

fn has_data_streams(distribution: Distribution) -> bool {
    // The test distribution of Elasticsearch 7 has no data streams.
    !matches!(distribution, Elasticsearch7_10 | Elasticsearch7_17)
}

fn has_older(distribution: Distribution) -> bool {
    older::release(distribution).is_some()
}

fn has_modes(distribution: Distribution) -> bool {
    matches!(distribution, Elasticsearch8 | Elasticsearch9)
}

fn has_types(distribution: Distribution) -> bool {
    matches!(distribution, Elasticsearch7_10 | Elasticsearch7_17 | OpenSearch1)
}

fn indices() -> Vec<Kind> {
    let required = json!({"_routing": {"required": true}});
    let source = json!({"number_of_routing_shards": 24, "index.blocks.write": true});
    vec![
        Kind::new("index", "plain").index("plain", json!({})),
        // Replication always crosses between nodes.
        Kind { bytes_at_most: 80.0, ..Kind::new("with one replica", "copied") }
            .index("copied", json!({"number_of_replicas": 1})),
        Kind::new("`number_of_routing_shards`", "spacious")
            .index("spacious", json!({"number_of_shards": 5, "number_of_routing_shards": 30})),
        partitioned("partitioned, 2 of 6 shards", "partitioned-2").mapped_index(
            "partitioned-2",
            json!({"routing_partition_size": 2}),
            required.clone(),
        ),
        partitioned("partitioned, 3 of 4 shards", "partitioned-3").mapped_index(
            "partitioned-3",
            json!({"number_of_shards": 4, "number_of_routing_shards": 8, "routing_partition_size": 3}),
            required.clone(),
        ),
        Kind::new("split, 6 → 12 shards", "split").index("split-source", source.clone()).step(
            Method::POST,
            "/split-source/_split/split",
            resized(12),
        ),
        Kind::new("shrunk, 6 → 2 shards", "shrunk").index("shrunk-source", with_node(source, json!("es-0"))).step(
            Method::POST,
            "/shrunk-source/_shrink/shrunk",
            resized(2),
        ),
        Kind::new("restored from the previous version", "restored").only_on(has_older),
        Kind::new("…, then split, 6 → 12 shards", "restored-split")
            .only_on(has_older)
            .step(Method::PUT, "/restored-source/_settings", json!({"index.blocks.write": true}))
            .step(Method::POST, "/restored-source/_split/restored-split", resized(12)),
        Kind::new("hidden", "hidden").index("hidden", json!({"index.hidden": true})),
        Kind::new("dot index", ".dot").index(".dot", json!({"index.hidden": true})),
        Kind::new("routing required", "required").routing(Routing::All).mapped_index(
            "required",
            json!({}),
            required.clone(),
        ),
        Kind::new("routing required, none given", "unfulfilled")
            .routing(Routing::None)
            .mapped_index("unfulfilled", json!({}), required)
            .expect(Unrouted("routing_required")),
        template(Kind::new("created by the bulk request", "made"), "made").expect(RoutedOnceMade),
    ]
}

/// Adds a template for indices that bulk requests create.
fn template(kind: Kind, pattern: &str) -> Kind {
    let settings = json!({"number_of_shards": 6, "number_of_replicas": 0});
    let template = json!({"index_patterns": [pattern], "template": {"settings": settings}});
    let name = pattern.trim_end_matches("-*").to_owned();
    kind.step(Method::PUT, format!("/_index_template/{name}"), template)
}

fn partitioned(title: &'static str, target: &'static str) -> Kind {
    // For a routing value, the cluster returns all shards of the partition.
    Kind { by_routing: false, ..Kind::new(title, target).routing(Routing::All) }
}

fn resized(shards: u32) -> Value {
    let settings = json!({"index.number_of_shards": shards, "index.number_of_replicas": 0, "index.blocks.write": null});
    json!({"settings": with_node(settings, Value::Null)})
}

fn with_node(settings: Value, name: Value) -> Value {
    crate::kind::with(settings, json!({"index.routing.allocation.require._name": name}))
}

fn aliases() -> Vec<Kind> {
    let fixed = |title, target: &'static str| {
        let index = format!("{target}-index");
        Kind::new(title, target).index(&index, json!({})).alias(&index, target, json!({"index_routing": "r"}))
    };
    vec![
        Kind::new("alias of one index", "alias").index("alias-index", json!({})).alias(
            "alias-index",
            "alias",
            json!({}),
        ),
        Kind::new("alias with `is_write_index`", "written")
            .index("written-1", json!({"number_of_shards": 4}))
            .index("written-2", json!({}))
            .alias("written-1", "written", json!({}))
            .alias("written-2", "written", json!({"is_write_index": true})),
        Kind::new("alias with a filter", "filtered").index("filtered-index", json!({})).alias(
            "filtered-index",
            "filtered",
            json!({"filter": {"term": {"host": "a"}}}),
        ),
        Kind { added_routing: Some("r"), ..fixed("alias with `index_routing`", "fixed").routing(Routing::None) },
        fixed("…, the same in the operation", "fixed-same").routing(Routing::Fixed("r")),
        fixed("…, another in the operation", "fixed-other")
            .routing(Routing::Fixed("q"))
            .expect(Unrouted("alias_routing")),
        Kind::new("alias without a write index", "undecided")
            .index("undecided-1", json!({}))
            .index("undecided-2", json!({}))
            .alias("undecided-1", "undecided", json!({}))
            .alias("undecided-2", "undecided", json!({}))
            .expect(Unrouted("alias")),
        Kind {
            parameters: ",\"require_alias\":true",
            ..Kind::new("`require_alias` in the operation", "alias-by-line")
                .index("alias-by-line-index", json!({}))
                .alias("alias-by-line-index", "alias-by-line", json!({}))
        },
        Kind {
            query: "?require_alias=true",
            ..Kind::new("`require_alias` in the query", "alias-by-query")
                .index("alias-by-query-index", json!({}))
                .alias("alias-by-query-index", "alias-by-query", json!({}))
        },
        Kind {
            query: "?require_alias=true",
            ..Kind::new("`require_alias` without an alias (refused)", "no-alias")
                .index("no-alias", json!({}))
                .expect(Refused)
        },
    ]
}

fn data_streams() -> Vec<Kind> {
    // A data stream of two indices with different numbers of shards. Its documents have no routing values.
    let stream = |title, target: &'static str| {
        let template = |shards| {
            json!({
                "index_patterns": [target], "data_stream": {},
                "template": {
                    "settings": {"number_of_shards": shards, "number_of_replicas": 0},
                    "mappings": {"properties": {"@timestamp": {"type": "date"}}},
                },
            })
        };
        let templates = format!("/_index_template/{target}");
        Kind::new(title, target)
            .routing(Routing::None)
            .only_on(has_data_streams)
            .step(Method::PUT, templates.clone(), template(4))
            .step(Method::PUT, format!("/{target}/_create/first"), json!({"@timestamp": "2026-01-01T00:00:00Z"}))
            .step(Method::PUT, templates, template(6))
            .step(Method::POST, format!("/{target}/_rollover"), Value::Null)
    };
    vec![
        Kind { action: "create", ..stream("data stream, `create`", "stream") },
        Kind {
            action: "create",
            parameters: ",\"require_data_stream\":true",
            ..stream("`require_data_stream` in the operation", "stream-by-line").only_on(has_modes)
        },
        Kind {
            action: "create",
            query: "?require_data_stream=true&include_source_on_error=false&list_executed_pipelines=true",
            ..stream("`require_data_stream` in the query", "stream-by-query").only_on(has_modes)
        },
        Kind {
            query: "?require_data_stream=true",
            ..Kind::new("`require_data_stream` without a data stream (refused)", "no-stream")
                .index("no-stream", json!({}))
                .only_on(has_modes)
                .expect(Refused)
        },
        stream("data stream, `index`", "stream-index").expect(Passed("create_only")),
        Kind { action: "create", ..stream("data stream, routing value (refused)", "stream-routed") }
            .routing(Routing::All)
            .expect(Refused),
        Kind {
            action: "create",
            is_backed: true,
            ..stream("backing index of a data stream (refused)", "stream-backed").expect(Refused)
        },
        Kind {
            action: "create",
            ..stream("alias of a data stream", "stream-for-alias").only_on(has_modes).alias(
                "stream-for-alias",
                "stream-alias",
                json!({"is_write_index": true}),
            )
        }
        .named("stream-alias"),
        Kind {
            operations: 0,
            ..stream("data stream with a pending rollover", "stream-to-roll")
                .only_on(has_modes)
                .step(Method::POST, "/stream-to-roll/_rollover?lazy=true", Value::Null)
                .expect(Unrouted("rollover"))
        },
    ]
}

fn operations() -> Vec<Kind> {
    let with = |title, target: &'static str, parameters| Kind {
        parameters,
        ..Kind::new(title, target).index(target, json!({}))
    };
    vec![
        with("`version_type: external_gte`", "versioned", ",\"version\":7,\"version_type\":\"external_gte\""),
        with(
            "`version_type: external`, the same version again",
            "versioned-once",
            ",\"version_type\":\"external\",\"version\":\"7\"",
        ),
        with("`if_seq_no` (refused)", "compared", ",\"if_seq_no\":0,\"if_primary_term\":1").expect(Refused),
        with(
            "parameters that are `null`, `version_type: internal`",
            "nulls",
            ",\"_type\":null,\"pipeline\":null,\"version\":null,\"if_seq_no\":null,\"version_type\":\"internal\",\
             \"dynamic_templates\":null",
        ),
        Kind {
            parameters: ",\"_type\":\"_doc\"",
            ..Kind::new("`_type`", "typed").index("typed", json!({})).only_on(has_types)
        },
        Kind {
            parameters: ",\"dynamic_templates\":{\"n\":\"numbers\"}",
            ..Kind::new("`dynamic_templates`", "templated")
                .mapped_index(
                    "templated",
                    json!({}),
                    json!({"dynamic_templates": [{"numbers": {"mapping": {"type": "double"}}}]}),
                )
                .only_on(|distribution| has_modes(distribution) || distribution == Elasticsearch7_17)
        },
    ]
}

fn refused() -> Vec<Kind> {
    vec![
        template(Kind::new("date-math name", "<dated-{now/d}>"), "dated-*").expect(Unrouted("date_math")),
        Kind::new("closed", "closed")
            .index("closed", json!({}))
            .step(Method::POST, "/closed/_close", Value::Null)
            .expect(Unrouted("closed")),
        Kind::new("`blocks.write`", "blocked")
            .index("blocked", json!({"index.blocks.write": true}))
            .expect(Unrouted("write_block")),
        Kind::new("`blocks.read_only_allow_delete`", "full")
            .index("full", json!({}))
            .step(Method::PUT, "/full/_settings", json!({"index.blocks.read_only_allow_delete": true}))
            .expect(Unrouted("write_block")),
        Kind {
            operations: 12,
            query: "?timeout=50ms",
            ..Kind::new("primary not started", "nowhere")
                .step(
                    Method::PUT,
                    "/nowhere?wait_for_active_shards=0&timeout=1s",
                    json!({"settings": with_node(json!({"number_of_shards": 3}), json!("nowhere"))}),
                )
                .expect(Unrouted("primary"))
        },
    ]
}

fn pipelines(version: Distribution) -> Vec<Kind> {
    let pipeline = |kind: Kind, name: &str, processors: Value| {
        kind.step(Method::PUT, format!("/_ingest/pipeline/{name}"), json!({"processors": processors}))
    };
    let harmless = |kind| pipeline(kind, "harmless", json!([{"set": {"field": "changed", "value": true}}]));
    let called = json!([{"set": {"field": "called", "value": 7}}, {"rename": {"field": "n", "target_field": "m"}}]);
    let mut processors = vec![
        json!({"pipeline": {"name": "called"}}),
        json!({"drop": {"if": "ctx.host == 'a'"}}),
        json!({"fail": {"message": "bad host"}}),
    ];
    // The processors of these versions include one that answers later, on another thread.
    if has_modes(version) {
        processors.insert(1, json!({"enrich": {"policy_name": "p", "field": "host", "target_field": "rich"}}));
    }
    let selective = |kind| pipeline(pipeline(kind, "called", called.clone()), "selective", processors.clone().into());
    let orders_items = has_modes(version) || version == Elasticsearch7_17;
    let on_ordered = |expected, other| if orders_items { expected } else { other };
    let changes = |title, name: &'static str, processor: Value| {
        pipeline(Kind::new(title, name), name, json!([processor]))
            .index(name, json!({"index.default_pipeline": name}))
            .expect(Passed(if orders_items { "unproven_pipeline" } else { "index_pipeline" }))
    };
    let stream = json!({
        "index_patterns": ["logs-piped"], "data_stream": {},
        "template": {"settings": {"number_of_shards": 6, "number_of_replicas": 0, "index.default_pipeline": "harmless"}},
    });
    vec![
        harmless(Kind::new("`default_pipeline`", "piped-by-default"))
            .index("piped-by-default", json!({"index.default_pipeline": "harmless"}))
            .expect(on_ordered(Expected::Routed, Passed("index_pipeline"))),
        harmless(Kind::new("`final_pipeline`", "piped-finally"))
            .index("piped-finally", json!({"index.final_pipeline": "harmless"}))
            .expect(on_ordered(Expected::Routed, Passed("index_pipeline"))),
        Kind {
            query: "?pipeline=harmless",
            ..harmless(Kind::new("pipeline in the query", "piped-by-query"))
                .index("piped-by-query", json!({}))
                .expect(on_ordered(Expected::Routed, Passed("pipeline")))
        },
        Kind {
            parameters: ",\"pipeline\":\"harmless\"",
            ..harmless(Kind::new("pipeline in the operation", "piped-by-line"))
                .index("piped-by-line", json!({}))
                .expect(on_ordered(Expected::Routed, Passed("pipeline")))
        },
        Kind {
            parameters: ",\"pipeline\":\"_none\"",
            ..Kind::new("pipeline `_none` in the operation", "unpiped")
                .index("unpiped", json!({"index.default_pipeline": "absent"}))
        },
        Kind {
            action: "create",
            ..harmless(Kind::new("data stream with a pipeline", "logs-piped"))
                .routing(Routing::None)
                .step(Method::PUT, "/_index_template/logs-piped", stream)
                .step(Method::PUT, "/logs-piped/_create/first", json!({"@timestamp": "2026-01-01T00:00:00Z"}))
                .only_on(has_data_streams)
                .expect(on_ordered(Expected::Routed, Passed("index_pipeline")))
        },
        selective(Kind::new("pipeline that drops or fails all documents (refused)", "piped-selectively"))
            .index("piped-selectively", json!({"index.default_pipeline": "selective"}))
            .expect(on_ordered(Refused, Passed("index_pipeline"))),
        changes(
            "pipeline that changes `_routing`",
            "piped-elsewhere",
            json!({"set": {"field": "_routing", "value": "elsewhere"}}),
        ),
        changes("pipeline that calls `reroute`", "piped-away", json!({"reroute": {"destination": "piped-there"}}))
            .index("piped-there", json!({}))
            .only_on(has_modes),
    ]
}

fn others() -> Vec<Kind> {
    let dimension = json!({"properties": {
        "@timestamp": {"type": "date"}, "host": {"type": "keyword", "time_series_dimension": true},
    }});
    let host = json!({"properties": {"@timestamp": {"type": "date"}, "host": {"type": "keyword"}}});
    vec![
        Kind {
            has_ids: false,
            ..Kind::new("time series", "series")
                .routing(Routing::None)
                .mapped_index("series", json!({"index.mode": "time_series", "index.routing_path": ["host"]}), dimension)
                .expect(Unrouted("routing_path"))
                .only_on(has_modes)
        },
        Kind::new("`logsdb`", "logs").index("logs", json!({"index.mode": "logsdb"})).only_on(has_modes),
        Kind {
            has_ids: false,
            ..Kind::new("`logsdb` with a routing path", "logs-by-host")
                .routing(Routing::None)
                .mapped_index(
                    "logs-by-host",
                    json!({
                        "index.mode": "logsdb", "index.logsdb.route_on_sort_fields": true,
                        "index.sort.field": ["host", "@timestamp"], "index.routing_path": ["host"],
                    }),
                    host,
                )
                .expect(Unrouted("routing_path"))
                .only_on(has_modes)
        },
        Kind::new("disabled in its mapping", "off")
            .mapped_index("off", json!({}), json!({"_meta": {"bulk_reshuffle": {"enabled": false}}}))
            .expect(Passed("disabled")),
        Kind { action: "create", ..Kind::new("append-only", "appended") }
            .index("appended", json!({"index.append_only.enabled": true}))
            .only_on(|distribution| matches!(distribution, OpenSearch2 | OpenSearch3)),
        Kind::new("`number_of_virtual_shards`", "virtual")
            .index("virtual", json!({"number_of_virtual_shards": 24}))
            .expect(Unrouted("virtual_shards"))
            .only_on(|distribution| distribution == OpenSearch3),
    ]
}
