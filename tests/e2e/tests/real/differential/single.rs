//! Requests for single documents, made of the lines of an operation.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::style::Style;

/// The parts of a request for a single document.
pub struct Single {
    pub method: &'static str,
    pub path_and_query: String,
    pub body: Vec<u8>,
}

impl Single {
    /// Returns the request that stands for an operation with these lines, in this style, whose path is this one. `choice`
    /// chooses among equal forms.
    pub fn of(lines: &[u8], style: &Style, path: &str, choice: usize) -> Self {
        let mut parts = lines.splitn(2, |byte| *byte == b'\n');
        let line: Map<String, Value> = serde_json::from_slice(parts.next().unwrap()).unwrap();
        let (action, Value::Object(mut parameters)) = line.into_iter().next().unwrap() else { panic!("no parameters") };
        let document = parts.next().unwrap_or_default();
        let mut query = style.query.clone();
        let in_path = path.trim_end_matches('/').trim_end_matches("/_bulk").trim_start_matches('/').to_owned();
        let index = parameters.remove("_index").map_or(in_path, |name| encoded(&name));
        let id = parameters.remove("_id").map(|id| encoded(&id));
        let writes = if choice.is_multiple_of(2) { "PUT" } else { "POST" };
        let (method, kind) = match (action.as_str(), &id) {
            ("delete", _) => ("DELETE", "_doc"),
            ("update", _) => ("POST", "_update"),
            ("create", Some(_)) if choice.is_multiple_of(3) => (writes, "_create"),
            ("create", Some(_)) => {
                query.push("op_type=create".to_owned());
                (writes, "_doc")
            }
            ("create", None) => ("POST", "_doc"),
            (_, None) => {
                query.push("op_type=index".to_owned());
                ("POST", "_doc")
            }
            (_, Some(_)) => (writes, "_doc"),
        };
        query.extend(parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))));
        let id = id.map_or_else(String::new, |id| format!("/{id}"));
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        let end = if choice % 20 == 19 { b"\n".as_slice() } else { b"" };
        let body =
            [document.strip_suffix(b"\n").unwrap_or(document), if document.is_empty() { b"" } else { end }].concat();
        Self { method, path_and_query: format!("/{index}/{kind}{id}{query}"), body }
    }
}

/// Returns a value as a part of a path or a query.
fn encoded(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string()
}
