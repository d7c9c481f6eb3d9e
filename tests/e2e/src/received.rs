use anyhow::{Context, Result};
use serde_json::Value;

/// An operation as a node reads it. The reader is independent of the filter's, so that it does not share its bugs.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// `index`, `create`, `update` or `delete`.
    pub action: String,
    /// The index, from the line or else from the path.
    pub index: String,
    /// The document's id; if there is none, the cluster generates one.
    pub id: Option<String>,
    /// The source line; a `delete` has none.
    pub source: Option<Value>,
}

impl Received {
    /// Reads a body. Operations that name no index are for `default_index`.
    pub(crate) fn read_all(body: &[u8], default_index: &str) -> Result<Vec<Self>> {
        let mut lines = body.split(|byte| *byte == b'\n');
        let mut operations = Vec::new();
        while let Some(line) = lines.next() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let mut operation = Self::read_action(line, default_index)?;
            if operation.action != "delete" {
                let source = lines.next().context("no source line")?;
                // A source that is not JSON is an error of one item, not of the request.
                operation.source = Some(serde_json::from_slice(source).unwrap_or(Value::Null));
            }
            operations.push(operation);
        }
        Ok(operations)
    }

    fn read_action(line: &[u8], default_index: &str) -> Result<Self> {
        let line: Value = serde_json::from_slice(line).context("not an action line")?;
        let (action, parameters) = line.as_object().and_then(|line| line.iter().next()).context("no action")?;
        let text = |name: &str| match parameters.get(name) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        Ok(Self {
            action: action.clone(),
            index: text("_index").unwrap_or_else(|| default_index.to_owned()),
            id: text("_id"),
            source: None,
        })
    }
}
