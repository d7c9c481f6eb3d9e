//! The lines of single operations. Their concatenation is a body.

use serde_json::json;

/// Returns an `index` operation. `n` distinguishes operations on the same id: see [`Items`](crate::Items).
pub fn index(index: &str, id: &str, n: u64) -> String {
    with_source("index", index, id, &json!({"n": n}).to_string())
}

/// Returns a `create` operation.
pub fn create(index: &str, id: &str, n: u64) -> String {
    with_source("create", index, id, &json!({"n": n}).to_string())
}

/// Returns an `update` operation.
pub fn update(index: &str, id: &str, n: u64) -> String {
    with_source("update", index, id, &json!({"doc": {"n": n}}).to_string())
}

/// Returns a `delete` operation.
pub fn delete(index: &str, id: &str) -> String {
    format!("{}\n", json!({"delete": {"_index": index, "_id": id}}))
}

/// Returns an operation with this source.
pub fn with_source(action: &str, index: &str, id: &str, source: &str) -> String {
    format!("{}\n{source}\n", json!({action: {"_index": index, "_id": id}}))
}

/// Returns an `index` operation with a document of about this many bytes.
pub fn large(index: &str, id: &str, bytes: usize) -> String {
    with_source("index", index, id, &json!({"text": "x".repeat(bytes)}).to_string())
}
