use std::fmt;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::Response;
use serde_json::{Value, json};

use super::{Received, Recorded};

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
    pub fn took(self, took: u64) -> Self {
        Self { took, ..self }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Changes the items, for example to errors or to wrong items.
    pub fn change(self, change: impl Fn(&mut Vec<Value>) + Send + Sync + 'static) -> Self {
        Self { change: Some(Arc::new(change)), ..self }
    }

    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        let usual = [("content-type", "application/json; charset=UTF-8"), ("x-elastic-product", "Elasticsearch")];
        let usual = usual.map(|(name, value)| (name.to_owned(), value.to_owned()));
        usual.into_iter().chain(self.headers.clone()).collect()
    }

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

/// An item of a bulk response, as a client reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// `index`, `create`, `update` or `delete`.
    pub action: String,
    pub id: String,
    pub status: u64,
    pub fields: Value,
}

impl Item {
    /// Reads the items of an answer, which must be 200.
    pub fn read_all(response: &Response) -> Result<Vec<Self>> {
        ensure!(response.status == 200, "{}: {}", response.status, response.text());
        Self::of_answer(&response.json()?)
    }

    /// Returns the number and the status of each item of an answer, which must be 200.
    pub fn outcomes(response: &Response) -> Result<Vec<(Option<u64>, u64)>> {
        Ok(Self::read_all(response)?.iter().map(|item| (item.number(), item.status)).collect())
    }

    pub fn of_answer(answer: &Value) -> Result<Vec<Self>> {
        let items = answer["items"].as_array().with_context(|| format!("no items in {answer}"))?;
        let errors = answer["errors"].as_bool().context("no `errors`")?;
        let items: Vec<Self> = items.iter().map(Self::read).collect::<Result<_>>()?;
        ensure!(errors == items.iter().any(|item| item.error().is_some()), "`errors` is wrong in {answer}");
        Ok(items)
    }

    pub fn error(&self) -> Option<&str> {
        self.fields.pointer("/error/type")?.as_str()
    }

    /// Returns the number by which [`Items`](crate::Items) identifies the operation.
    pub fn number(&self) -> Option<u64> {
        self.fields.get("_seq_no")?.as_u64()
    }

    fn read(item: &Value) -> Result<Self> {
        let (action, fields) = item.as_object().and_then(|item| item.iter().next()).context("no item")?;
        Ok(Self {
            action: action.clone(),
            id: fields["_id"].as_str().with_context(|| format!("no id in {item}"))?.to_owned(),
            status: fields["status"].as_u64().with_context(|| format!("no status in {item}"))?,
            fields: fields.clone(),
        })
    }
}
