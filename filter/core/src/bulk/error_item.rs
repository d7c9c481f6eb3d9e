use serde::Serialize;
use serde_json::value::RawValue;

use super::{Action, ActionLine};
use crate::invariant::found;

/// An item that the filter writes itself, in the format in which a cluster reports the failure of one operation.
///
/// ```text
/// {"index":{"_index":"books","_id":"1","status":503,"error":{"type":"…","reason":"…"}}}
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ErrorItem<'a> {
    /// The HTTP status of this operation.
    pub status: u16,
    /// The error object: a node's own, or one made by [`error`](Self::error).
    pub error: &'a RawValue,
}

#[derive(Serialize)]
struct Fields<'a> {
    #[serde(rename = "_index")]
    index: &'a str,
    #[serde(rename = "_id")]
    id: Option<&'a str>,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    reason: &'a str,
}

impl ErrorItem<'_> {
    /// Returns an error object with a type and a reason.
    pub fn error(kind: &str, reason: &str) -> Box<RawValue> {
        let error = serde_json::value::to_raw_value(&ErrorFields { kind, reason });
        found(error.ok(), "two texts are always valid JSON").unwrap_or_default()
    }

    /// Appends the item for the operation whose action line is `line`, with an index.
    pub fn write(&self, line: &ActionLine<'_>, to: &mut Vec<u8>) {
        let (index, id) = (line.index.as_deref(), line.id.as_deref());
        Self::write_short(line.action, index, id, self.status, Some(self.error), to);
    }

    /// Appends an item with only the names, the status and, if the operation failed, the error.
    pub fn write_short(
        action: Action,
        index: Option<&str>,
        id: Option<&str>,
        status: u16,
        error: Option<&RawValue>,
        to: &mut Vec<u8>,
    ) {
        let fields = Fields { index: index.unwrap_or_default(), id, status, error };
        to.extend_from_slice(b"{\"");
        to.extend_from_slice(action.name().as_bytes());
        to.extend_from_slice(b"\":");
        // Serialising strings and numbers to memory cannot fail.
        let _ = serde_json::to_writer(&mut *to, &fields);
        to.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_format_of_a_cluster_item() {
        let line = ActionLine::read(br#"{"update":{"_index":"books","_id":"a\"b"}}"#).unwrap();
        let error = ErrorItem::error("timeout_exception", "no answer");
        let mut item = Vec::new();
        ErrorItem { status: 504, error: &error }.write(&line, &mut item);
        assert_eq!(
            String::from_utf8(item).unwrap(),
            r#"{"update":{"_index":"books","_id":"a\"b","status":504,"error":{"type":"timeout_exception","reason":"no answer"}}}"#
        );
    }
}
