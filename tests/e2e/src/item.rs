use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::Response;
use serde_json::Value;

/// An item of a bulk response, as a client reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// `index`, `create`, `update` or `delete`.
    pub action: String,
    /// The document's id.
    pub id: String,
    /// The operation's status.
    pub status: u64,
    /// All fields of the item.
    pub fields: Value,
}

impl Item {
    /// Reads the items of an answer, which must be 200.
    pub fn read_all(response: &Response) -> Result<Vec<Self>> {
        ensure!(response.status == 200, "{}: {}", response.status, response.text());
        Self::of_answer(&response.json()?)
    }

    /// Reads the items of an answer's body.
    pub fn of_answer(answer: &Value) -> Result<Vec<Self>> {
        let items = answer["items"].as_array().with_context(|| format!("no items in {answer}"))?;
        let errors = answer["errors"].as_bool().context("no `errors`")?;
        let items: Vec<Self> = items.iter().map(Self::read).collect::<Result<_>>()?;
        ensure!(errors == items.iter().any(|item| item.error().is_some()), "`errors` is wrong in {answer}");
        Ok(items)
    }

    /// Returns the type of the item's error.
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
