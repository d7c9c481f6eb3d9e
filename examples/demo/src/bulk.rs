//! Bulk requests and their expected answers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle::bulk::Action;
use bulk_reshuffle_stack::Response;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

/// An operation and the status that the cluster must return.
#[derive(Debug, Clone)]
pub struct Operation {
    pub action: Action,
    pub id: String,
    pub routing: Option<String>,
    /// The document, or the fields to update; `None` for a delete.
    pub source: Option<Value>,
    pub status: u16,
}

/// A request's body, and the expected item of each operation.
#[derive(Debug, Clone)]
pub struct BulkRequest {
    pub body: Bytes,
    expected: Vec<Expected>,
}

#[derive(Debug, Clone)]
struct Expected {
    action: Action,
    id: String,
    status: u16,
}

impl BulkRequest {
    pub fn new(operations: Vec<Operation>) -> Result<Self> {
        let mut body = String::new();
        for operation in &operations {
            let mut target = json!({"_id": operation.id});
            if let (Some(routing), Some(target)) = (&operation.routing, target.as_object_mut()) {
                target.insert("routing".into(), routing.as_str().into());
            }
            writeln!(body, "{{\"{}\":{target}}}", operation.action.name())?;
            match (&operation.source, operation.action) {
                (Some(source), Action::Update) => writeln!(body, "{{\"doc\":{source}}}")?,
                (Some(source), _) => writeln!(body, "{source}")?,
                (None, _) => {}
            }
        }
        let expected = |Operation { action, id, status, .. }| Expected { action, id, status };
        Ok(Self { body: body.into(), expected: operations.into_iter().map(expected).collect() })
    }

    pub fn operations(&self) -> usize {
        self.expected.len()
    }

    /// Checks an answer: it must have one item per operation in the request's order, each with its operation's action,
    /// id and status, and the right `errors` flag. Returns the growth of the index in documents, according to the
    /// answer.
    pub fn check(&self, answer: &Response, index: &str) -> Result<i64> {
        ensure!(answer.status == 200, "status {}: {}", answer.status, answer.text());
        let answer: Answer = serde_json::from_slice(&answer.body).context("the answer is not a bulk answer in JSON")?;
        let (wanted, found) = (self.expected.len(), answer.items.len());
        ensure!(wanted == found, "{found} items for {wanted} operations");
        let mut growth = 0;
        for (position, (expected, item)) in self.expected.iter().zip(&answer.items).enumerate() {
            let Expected { action, id, status } = expected;
            let found = item.get(action.name());
            let fits = |found: &&Item| found.id == *id && found.index == index && found.status == *status;
            let item = found.filter(fits).with_context(|| {
                format!("item {position} is {item:?}, expected {} of {id} with status {status}", action.name())
            })?;
            growth += match (action, item.status) {
                (Action::Delete, 200) => -1,
                (_, 201) => 1,
                _ => 0,
            };
        }
        let failed = answer.items.iter().flat_map(BTreeMap::values).any(|item| item.error.is_some());
        ensure!(answer.errors == failed, "`errors` is {}, which contradicts the items", answer.errors);
        Ok(growth)
    }
}

#[derive(Debug, Deserialize)]
struct Answer {
    errors: bool,
    /// Each item is an object with one field, the action.
    items: Vec<BTreeMap<String, Item>>,
}

#[derive(Debug, Deserialize)]
struct Item {
    #[serde(rename = "_index")]
    index: String,
    #[serde(rename = "_id")]
    id: String,
    status: u16,
    error: Option<Value>,
}
