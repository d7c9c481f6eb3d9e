use serde_json::{Value, json};

use crate::documents::INDEX;

/// Three nodes, and one index of six shards.
const NODES: usize = 3;
const SHARDS: usize = 6;

/// What the cluster answers to a question of the filter's.
pub fn answer(path: &str) -> Vec<u8> {
    let is_state = path.starts_with("/_cluster/state/");
    if is_state { state() } else { json!({}) }.to_string().into_bytes()
}

/// More than is asked for, which does no harm.
fn state() -> Value {
    let nodes: serde_json::Map<String, Value> =
        (0..NODES).map(|node| (format!("n{node}"), json!({"name": format!("es-{node}")}))).collect();
    let primary = |shard: usize| json!([{"primary": true, "state": "STARTED", "node": format!("n{}", shard % NODES)}]);
    let shards: serde_json::Map<String, Value> = (0..SHARDS).map(|shard| (shard.to_string(), primary(shard))).collect();
    let settings = json!({"index": {"uuid": "u", "number_of_shards": "6", "version": {"created": "136408127"}}});
    json!({
        "version": 1, "state_uuid": "s", "cluster_uuid": "c", "nodes": nodes,
        "metadata": {"indices": {INDEX: {
            "version": 1, "state": "open", "routing_num_shards": 768, "settings": settings,
        }}},
        "routing_table": {"indices": {INDEX: {"shards": shards}}},
    })
}
