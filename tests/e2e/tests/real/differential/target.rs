use bulk_reshuffle_stack::Distribution;
use bytes::Bytes;
use hyper::Request;
use serde_json::{Value, json};

use super::template::Side;
use crate::shared_scene::SharedScene;

/// An index, alias or data stream that operations name. Each side has its own, called `twina_-…` and `twinb@-…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The name without the twin's prefix.
    pub name: &'static str,
    /// Whether the filter routes its operations.
    pub routed: bool,
    /// Whether operations require a routing value.
    pub with_routing: bool,
    /// Whether the cluster accepts only `create`, and the filter routes only `create`.
    pub create_only: bool,
    /// Whether the cluster waits for a shard copy that no node may hold. Only hasty requests name such a target.
    pub waits: bool,
}

const fn routed(name: &'static str) -> Target {
    Target { name, routed: true, with_routing: false, create_only: false, waits: false }
}

const fn unrouted(name: &'static str) -> Target {
    Target { routed: false, ..routed(name) }
}

/// All targets. Targets that are listed several times are chosen more often.
pub const TARGETS: &[Target] = &[
    routed("plain"),
    routed("plain"),
    routed("plain"),
    routed("plain"),
    routed("copied"),
    routed("copied"),
    routed("paired"),
    routed("limited"),
    routed("single"),
    routed("single"),
    routed("single"),
    routed("sparse"),
    routed("sparse"),
    routed("strict"),
    routed("nopipeline"),
    // On releases that return items in order it has a pipeline.
    routed("ingested"),
    routed("only"),
    routed("only"),
    routed("chosen"),
    routed("filtered"),
    routed("fixed"),
    // These change.
    routed("moved"),
    routed("moved"),
    routed("late"),
    routed("changing"),
    routed("brief"),
    Target { with_routing: true, ..routed("routed") },
    Target { with_routing: true, ..routed("parted") },
    // Created by the first operation on it, and routed after that.
    routed("new-S"),
    Target { create_only: true, ..routed("stream") },
    Target { create_only: true, ..routed("stream") },
    // On releases with failure stores they have one.
    Target { create_only: true, ..routed("failing") },
    Target { create_only: true, ..routed("failpiped") },
    WAITING[0],
    WAITING[1],
    unrouted("blocked"),
    unrouted("readonly"),
    unrouted("closed"),
    unrouted("piped"),
    unrouted("finished"),
    unrouted("many"),
    unrouted("unwritten"),
    unrouted("never"),
];

/// The targets for whose shard copies the cluster waits.
pub const WAITING: &[Target] =
    &[Target { waits: true, ..routed("waiting") }, Target { waits: true, ..unrouted("red") }];

/// Names that no index can have.
pub const IMPOSSIBLE: &[&str] = &["Not Valid", "-minus", "a,b", "*", "..", "_all", "a#b", "<not-math"];

/// Returns whether this distribution returns the items of operations under a pipeline in order.
pub fn orders_items(distribution: Distribution) -> bool {
    matches!(distribution, Distribution::Elasticsearch8 | Distribution::Elasticsearch9)
}

/// Returns whether this distribution has data streams. Without them, operations go to indices with the same names.
fn has_streams(distribution: Distribution) -> bool {
    !matches!(distribution, Distribution::Elasticsearch7_10 | Distribution::Elasticsearch7_17)
}

/// Returns whether data streams of this distribution have failure stores.
pub fn keeps_failures(distribution: Distribution) -> bool {
    matches!(distribution, Distribution::Elasticsearch8 | Distribution::Elasticsearch9)
}

/// Returns the processors of the pipeline with this name.
fn processors(name: &str, distribution: Distribution) -> Value {
    match name {
        "selective" => selective(distribution),
        "moving" => json!([{"set": {"field": "_routing", "value": "elsewhere"}}]),
        // Some servers know no `copy_from`, and others no scripts.
        "naming" => match distribution {
            Distribution::OpenSearch2 | Distribution::OpenSearch3 | Distribution::Elasticsearch7_10 => {
                json!([{"script": {"source": "if (ctx.key != null) { ctx._id = ctx.key }"}}])
            }
            _ => json!([{"set": {"field": "_id", "copy_from": "key", "ignore_empty_value": true}}]),
        },
        _ => json!([]),
    }
}

/// Returns the processors of a pipeline that drops and fails some documents. Some distributions have one that answers
/// later, on another thread.
fn selective(distribution: Distribution) -> Value {
    let late = json!({"enrich": {"policy_name": "p", "field": "owner", "target_field": "rich"}});
    let mut processors = vec![
        json!({"set": {"field": "changed", "value": true}}),
        json!({"drop": {"if": "ctx.text == 'dropped'"}}),
        json!({"fail": {"message": "the document is to fail", "if": "ctx.text == 'failed'"}}),
    ];
    processors.extend(orders_items(distribution).then_some(late));
    processors.into()
}

/// Returns the templates of the data streams.
fn streams(distribution: Distribution) -> [(&'static str, Value); 3] {
    let usual = json!({"settings": {"number_of_shards": 2, "number_of_replicas": 0}, "mappings": mappings()});
    let mut failing = usual.clone();
    if keeps_failures(distribution) {
        failing["data_stream_options"] = json!({"failure_store": {"enabled": true}});
    }
    let mut piped = failing.clone();
    if orders_items(distribution) {
        piped["settings"]["default_pipeline"] = json!("twin-selective");
    }
    [("stream", usual), ("failing", failing), ("failpiped", piped)]
}

fn indices(distribution: Distribution) -> Vec<(&'static str, Value)> {
    let required = json!({"_routing": {"required": true}});
    vec![
        ("copied", json!({"settings": {"number_of_shards": 3, "number_of_replicas": 1}})),
        (
            "single",
            json!({
                "settings": {"number_of_shards": 1},
                "aliases": {"~-many": {}, "~-unwritten": {"is_write_index": false}, "~-moved": {}},
            }),
        ),
        (
            "sparse",
            json!({
                "settings": {"number_of_shards": 3, "number_of_routing_shards": 12},
                "aliases": {"~-chosen": {"is_write_index": true}},
            }),
        ),
        ("strict", json!({"mappings": {"dynamic": "strict"}})),
        // The mapping has no room for another field.
        ("limited", json!({"settings": {"mapping.total_fields.limit": 5}, "mappings": {"dynamic": true}})),
        ("paired", json!({"settings": {"number_of_replicas": 1, "write.wait_for_active_shards": 2}})),
        (
            "waiting",
            json!({"settings": {
                "number_of_replicas": 1, "write.wait_for_active_shards": 2,
                // Each node has two primaries, and so no room for a replica.
                "routing.allocation.total_shards_per_node": 2,
            }}),
        ),
        ("blocked", json!({"settings": {"blocks.write": true}})),
        ("readonly", json!({"settings": {"blocks.read_only": true}})),
        ("nopipeline", json!({"settings": {"default_pipeline": "_none", "final_pipeline": "_none"}})),
        ("routed", json!({"mappings": required})),
        ("parted", json!({"settings": {"routing_partition_size": 2}, "mappings": required})),
        ("closed", json!({})),
        ("piped", json!({"settings": {"default_pipeline": "twin-moving"}})),
        (
            "ingested",
            match orders_items(distribution) {
                true => json!({"settings": {"default_pipeline": "twin-selective", "final_pipeline": "twin-nothing"}}),
                false => json!({}),
            },
        ),
        ("late", json!({})),
        (
            "changing",
            match orders_items(distribution) {
                true => json!({"settings": {"default_pipeline": "twin-changing"}}),
                false => json!({}),
            },
        ),
        ("finished", json!({"settings": {"final_pipeline": "twin-nothing"}})),
        // The last index, so that a routing table that has it has all indices.
        (
            "plain",
            json!({"aliases": {
                "~-only": {}, "~-many": {}, "~-chosen": {},
                "~-filtered": {"filter": {"term": {"flag": true}}},
                "~-fixed": {"index_routing": "jane", "search_routing": "jane"},
            }}),
        ),
    ]
}

fn mappings() -> Value {
    json!({"dynamic": false, "properties": {
        "owner": {"type": "keyword"}, "n": {"type": "integer"}, "when": {"type": "date"}, "flag": {"type": "boolean"},
        "text": {"type": "keyword", "index": false, "doc_values": false},
    }})
}

pub fn both(name: &str) -> [String; 2] {
    Side::BOTH.map(|side| format!("{}-{name}", side.twin()))
}

impl SharedScene {
    /// Creates all targets, for both sides.
    pub async fn make_twins(&self, distribution: Distribution) {
        // One shard, because with two it is random which one sees a field first and so determines its type.
        let new = json!({"index_patterns": both("new-*"), "template": {
            "settings": {"number_of_shards": 1, "number_of_replicas": 0, "gc_deletes": "1h"},
            "mappings": {"properties": {"owner": {"type": "keyword"}}},
        }});
        self.put("/_index_template/twin-new", &new).await;
        for name in ["nothing", "selective", "moving", "naming", "changing"] {
            self.define_pipeline(name, name, distribution).await;
        }
        for (name, template) in streams(distribution) {
            let mut stream = json!({"index_patterns": both(name), "template": template});
            if has_streams(distribution) {
                stream["data_stream"] = json!({});
            }
            self.put(&format!("/_index_template/twin-{name}"), &stream).await;
        }
        let settings = json!({"persistent": {
            // An odd operation names index 17, which both sides would share.
            "action.auto_create_index": format!("-{},-17,+*", [both("never"), both("brief")].concat().join(",-")),
            // Afterwards all indices that a seed has created are deleted.
            "action.destructive_requires_name": false,
            // During a relocation, items count an additional copy.
            "cluster.routing.rebalance.enable": "none",
        }});
        self.put("/_cluster/settings", &settings).await;
        for name in both("stream").into_iter().chain(both("failing")).chain(both("failpiped")) {
            // Some distributions lack the API that creates data streams.
            let first = json!({"@timestamp": "2026-01-01T00:00:00Z", "owner": "none"});
            self.put(&format!("/{name}/_create/first"), &first).await;
        }
        if keeps_failures(distribution) {
            // The first refusal by a shard creates the failure store. Before that, Elasticsearch answers 500 to a request
            // with a document that fails in a pipeline.
            for name in both("failing").into_iter().chain(both("failpiped")) {
                self.put(&format!("/{name}/_create/failed"), &json!({"owner": "none"})).await;
            }
        }
        for (name, index) in indices(distribution) {
            for side in Side::BOTH {
                self.make_target(side, name, index.clone()).await;
            }
        }
        // Wait for the replicas, which otherwise would be counted in some items only.
        let copied = [both("copied"), both("paired")].concat().join(",");
        let green = self.direct(0, &format!("/_cluster/health/{copied}?wait_for_status=green&timeout=50s"));
        self.client.get_json(&green).await.unwrap();
        self.wait_for_routing(&format!("{}-plain", Side::Filtered.twin())).await;
    }

    /// Defines a pipeline with the processors of another name.
    pub async fn define_pipeline(&self, name: &str, like: &str, distribution: Distribution) {
        let definition = json!({"processors": processors(like, distribution)});
        self.put(&format!("/_ingest/pipeline/twin-{name}"), &definition).await;
    }

    pub async fn make_target(&self, side: Side, name: &str, mut index: Value) {
        let twin = side.twin();
        let mut settings = json!({
            "number_of_shards": 6, "number_of_replicas": 0,
            // The refresh interval limits `refresh=wait_for`. At 300 ms, refreshes take a quarter of the nodes' processor
            // time, and the test takes longer. `gc_deletes` keeps the versions of deleted documents.
            "refresh_interval": "1s", "gc_deletes": "1h",
            // No test kills a node.
            "translog.durability": "async",
        });
        merge(&mut settings, index["settings"].take());
        let mut mapping = mappings();
        merge(&mut mapping, index["mappings"].take());
        let mut aliases = json!({});
        merge(&mut aliases, index["aliases"].take());
        let whole = json!({"settings": settings, "mappings": mapping, "aliases": aliases});
        let whole: Value = serde_json::from_str(&whole.to_string().replace('~', twin)).unwrap();
        let started = u8::from(whole["settings"]["routing.allocation.include._name"] != "nowhere");
        self.put(&format!("/{twin}-{name}?wait_for_active_shards={started}"), &whole).await;
        if name == "closed" {
            let close = Request::post(self.direct(0, &format!("/{twin}-closed/_close")));
            self.client.send(close.body(Bytes::new()).unwrap()).await.unwrap().ok().unwrap();
        }
    }

    /// Removes the indices that lack shard copies, for which other tests would wait.
    pub async fn remove_waiting(&self) {
        self.delete(&[both("waiting"), both("red")].concat()).await;
    }

    /// Deletes the indices that exist among these.
    pub async fn delete(&self, indices: &[String]) {
        let url = self.direct(0, &format!("/{}?ignore_unavailable=true", indices.join(",")));
        self.client.delete(&url).await.unwrap().ok().unwrap();
    }

    /// Sends a request to a node, which must accept it.
    pub async fn put(&self, path: &str, body: &Value) {
        let answer = self.client.put_json(&self.direct(0, path), body).await.unwrap();
        answer.ok().unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

fn merge(into: &mut Value, more: Value) {
    if let Value::Object(more) = more {
        into.as_object_mut().unwrap().extend(more);
    }
}
