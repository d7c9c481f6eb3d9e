//! The lines of single operations; a body is several of them in a row.

use serde_json::json;

/// Writes a document. `n` tells it from others with the same id: see [`Items`](crate::Items).
pub fn index(index: &str, id: &str, n: u64) -> String {
    with_source("index", index, id, &json!({"n": n}).to_string())
}

/// Writes a document that must not exist.
pub fn create(index: &str, id: &str, n: u64) -> String {
    with_source("create", index, id, &json!({"n": n}).to_string())
}

/// Changes a document.
pub fn update(index: &str, id: &str, n: u64) -> String {
    with_source("update", index, id, &json!({"doc": {"n": n}}).to_string())
}

/// Removes a document.
pub fn delete(index: &str, id: &str) -> String {
    format!("{}\n", json!({"delete": {"_index": index, "_id": id}}))
}

/// An action with any source.
pub fn with_source(action: &str, index: &str, id: &str, source: &str) -> String {
    format!("{}\n{source}\n", json!({action: {"_index": index, "_id": id}}))
}

/// Writes a document of about this many bytes.
pub fn large(index: &str, id: &str, bytes: usize) -> String {
    with_source("index", index, id, &json!({"text": "x".repeat(bytes)}).to_string())
}
