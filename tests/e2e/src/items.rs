use std::fmt;
use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};

use crate::received::Received;
use crate::recorded::Recorded;

type Change = Arc<dyn Fn(&mut Vec<Value>) + Send + Sync>;

/// An answer with an item for each operation.
///
/// An item's `_seq_no` is the field `n` of the operation's source, so that a test can match items to operations, even
/// among operations on one document.
#[derive(Clone, Default)]
pub struct Items {
    took: u64,
    headers: Vec<(String, String)>,
    change: Option<Change>,
}

impl fmt::Debug for Items {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Items").field("took", &self.took).finish_non_exhaustive()
    }
}

impl Items {
    /// Sets `took`, in milliseconds.
    #[must_use]
    pub fn took(self, took: u64) -> Self {
        Self { took, ..self }
    }

    /// Adds a header to those of every answer.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Changes the items, for example to errors or to wrong items.
    #[must_use]
    pub fn change(self, change: impl Fn(&mut Vec<Value>) + Send + Sync + 'static) -> Self {
        Self { change: Some(Arc::new(change)), ..self }
    }

    /// Returns the headers to send.
    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        let usual = [("content-type", "application/json; charset=UTF-8"), ("x-elastic-product", "Elasticsearch")];
        let usual = usual.map(|(name, value)| (name.to_owned(), value.to_owned()));
        usual.into_iter().chain(self.headers.clone()).collect()
    }

    /// Returns the body to send.
    pub(crate) fn body(&self, request: &Recorded) -> Result<Vec<u8>> {
        let operations = request.operations()?;
        let mut items: Vec<Value> =
            (0..).zip(&operations).map(|(position, operation)| item(operation, position)).collect();
        if let Some(change) = &self.change {
            change(&mut items);
        }
        let (took, errors) = (self.took, items.iter().any(is_failed));
        Ok(format!(r#"{{"took":{took},"errors":{errors},"items":{}}}"#, Value::from(items)).into_bytes())
    }
}

fn is_failed(item: &Value) -> bool {
    item.as_object().is_some_and(|item| item.values().any(|fields| fields.get("error").is_some()))
}

fn item(operation: &Received, position: usize) -> Value {
    let (result, status) = match operation.action.as_str() {
        "update" => ("updated", 200),
        "delete" => ("deleted", 200),
        _ => ("created", 201),
    };
    let source = operation.source.as_ref();
    let number = source.and_then(|source| source.get("n").or_else(|| source.pointer("/doc/n"))?.as_u64());
    json!({&operation.action: {
        "_index": operation.index,
        "_id": operation.id.clone().unwrap_or_else(|| format!("generated-{position}")),
        "_version": 1,
        "result": result,
        "_shards": {"total": 1, "successful": 1, "failed": 0},
        "_seq_no": number.unwrap_or_default(),
        "_primary_term": 1,
        "status": status,
    }})
}
