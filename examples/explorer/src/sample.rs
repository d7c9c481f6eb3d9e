//! A sample for users without their own data: a cluster of three nodes, and a bulk body.

use std::fmt::Write;

use serde_json::{Map, Value, json};

/// Returns the cluster's state: an index with six evenly spread shards, an index with five unevenly spread shards, and
/// an alias.
pub fn state() -> String {
    let copy = |node: usize| json!([{"primary": true, "state": "STARTED", "node": format!("n{node}")}]);
    let shards = |nodes: &[usize]| {
        nodes.iter().enumerate().map(|(shard, node)| (shard.to_string(), copy(*node))).collect::<Map<_, _>>()
    };
    let index = |uuid: &str, shards: u32, aliases: &[&str]| {
        json!({
            "version": 1, "state": "open", "routing_num_shards": shards * 128, "aliases": aliases,
            "settings": {"index": {
                "uuid": uuid, "number_of_shards": shards.to_string(), "version": {"created": "8000099"},
            }},
        })
    };
    let nodes = (0..3).map(|node| (format!("n{node}"), json!({"name": format!("es-{node}")})));
    let state = json!({
        "version": 1, "state_uuid": "sample", "cluster_uuid": "sample",
        "nodes": nodes.collect::<Map<String, Value>>(),
        "metadata": {"indices": {
            "logs-000007": index("sample-logs", 6, &["logs"]),
            "orders": index("sample-orders", 5, &[]),
        }},
        "routing_table": {"indices": {
            "logs-000007": {"shards": shards(&[0, 1, 2, 0, 1, 2])},
            "orders": {"shards": shards(&[0, 1, 0, 2, 1])},
        }},
    });
    state.to_string()
}

/// Returns a body of 600 operations: log lines for an alias, orders that often share a customer's routing value, and a
/// few updates and deletes.
pub fn body() -> String {
    let mut random = fastrand::Rng::with_seed(7);
    let mut body = String::new();
    for number in 0..600_u32 {
        let id = random.u32(..);
        // Writing to a string cannot fail.
        let _ = match number % 10 {
            0..=5 => {
                let words = "connection accepted ".repeat(random.usize(1..9));
                writeln!(
                    body,
                    "{{\"index\":{{\"_index\":\"logs\",\"_id\":\"l-{id:08x}\"}}}}\n{{\"message\":\"{words}\"}}"
                )
            }
            6..=7 => {
                let customer = random.u32(0..40).min(random.u32(0..40));
                writeln!(
                    body,
                    "{{\"index\":{{\"_index\":\"orders\",\"_id\":\"o-{number}\",\"routing\":\"customer-{customer}\"}}}}\n\
                     {{\"customer\":{customer},\"total\":{}}}",
                    id % 10_000
                )
            }
            8 => writeln!(
                body,
                "{{\"update\":{{\"_index\":\"orders\",\"_id\":\"o-{id:x}\"}}}}\n{{\"doc\":{{\"paid\":true}}}}"
            ),
            _ => writeln!(body, "{{\"delete\":{{\"_index\":\"logs\",\"_id\":\"l-{id:08x}\"}}}}"),
        };
    }
    body
}
