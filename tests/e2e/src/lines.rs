//! The lines of single operations. Their concatenation is a body.

use serde_json::json;

/// Returns an `index` operation. `n` distinguishes operations on the same id: see [`Items`](crate::Items).
pub fn index(index: &str, id: &str, n: u64) -> String {
    with_source("index", index, id, &json!({"n": n}).to_string())
}

/// Returns an `index` operation for each of these numbers, which is also its id.
pub fn documents(name: &str, numbers: std::ops::Range<usize>) -> String {
    numbers.map(|n| index(name, &n.to_string(), n as u64)).collect()
}

pub fn create(index: &str, id: &str, n: u64) -> String {
    with_source("create", index, id, &json!({"n": n}).to_string())
}

pub fn update(index: &str, id: &str, n: u64) -> String {
    with_source("update", index, id, &json!({"doc": {"n": n}}).to_string())
}

pub fn delete(index: &str, id: &str) -> String {
    format!("{}\n", json!({"delete": {"_index": index, "_id": id}}))
}

pub fn with_source(action: &str, index: &str, id: &str, source: &str) -> String {
    format!("{}\n{source}\n", json!({action: {"_index": index, "_id": id}}))
}

/// Returns an `index` operation with a document of about this many bytes.
pub fn large(index: &str, id: &str, bytes: usize) -> String {
    with_source("index", index, id, &json!({"text": "x".repeat(bytes)}).to_string())
}
