//! A request for a single document as a bulk request of one operation.

use anyhow::Result;
use bytes::Bytes;
use hyper::Request;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::case::Case;

/// Parameters that belong into the action line. The others stay in the query.
const IN_LINE: &[&str] = &[
    "routing",
    "version",
    "version_type",
    "if_seq_no",
    "if_primary_term",
    "pipeline",
    "require_alias",
    "require_data_stream",
    "retry_on_conflict",
];

/// Parameters of the answer's form. The filter applies them itself.
const OF_ANSWERS: &[&str] = &["pretty", "human", "filter_path", "format", "error_trace"];

/// A bulk request of one operation.
#[derive(Debug)]
pub struct BulkOfOne {
    pub action: String,
    line: Vec<u8>,
    query: String,
}

impl BulkOfOne {
    /// Returns the bulk request for a request; `None` if its route does not write a single document.
    pub fn of(case: &Case) -> Option<Self> {
        let (path, query) = case.target();
        let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let parameters =
            || query.split('&').filter(|part| !part.is_empty()).map(|part| part.split_once('=').unwrap_or((part, "")));
        if segments.iter().any(|segment| segment.is_empty()) {
            return None;
        }
        let action = action(case.method(), &segments, parameters().find(|(name, _)| *name == "op_type"))?;
        let mut line = Line::new(&action);
        line.add("_index", &decoded(segments.first()?));
        if let Some(id) = segments.get(2) {
            line.add("_id", &decoded(id));
        }
        let mut kept = String::new();
        for (name, value) in parameters().filter(|(name, _)| *name != "op_type" && !OF_ANSWERS.contains(name)) {
            let value_bytes = decoded(&value.replace('+', " "));
            if let Some(source) = source(name, &String::from_utf8_lossy(&value_bytes)).filter(|_| action == "update") {
                line.add_json("_source", &source);
            } else if IN_LINE.contains(&name) {
                line.add(name, &value_bytes);
            } else {
                kept += if kept.is_empty() { "?" } else { "&" };
                kept += &if value.is_empty() { name.to_owned() } else { format!("{name}={value}") };
            }
        }
        Some(Self { action, line: line.end(), query: kept })
    }

    pub fn line(&self) -> String {
        format!("{} {}", String::from_utf8_lossy(&self.line), self.query)
    }

    /// Returns the request, with the path only.
    pub fn request(&self, case: &Case) -> Result<Request<Bytes>> {
        let mut body = [&self.line[..], b"\n"].concat();
        if self.action != "delete" {
            body.extend(case.bytes());
            body.push(b'\n');
        }
        case.bulk(&self.query, body)
    }
}

/// Returns the action of a method and a path, which `op_type` may change.
fn action(method: &str, segments: &[&str], op_type: Option<(&str, &str)>) -> Option<String> {
    let action = match (method, segments) {
        ("PUT" | "POST", [_, "_doc", _]) => op_type.map_or("index", |(_, op_type)| op_type),
        ("POST", [_, "_doc"]) => op_type.map_or("create", |(_, op_type)| op_type),
        ("PUT" | "POST", [_, "_create", _]) => "create",
        ("DELETE", [_, "_doc", _]) => "delete",
        ("POST", [_, "_update", _]) => "update",
        _ => return None,
    };
    Some(action.to_owned())
}

/// Returns the value of an update's `_source` for a parameter that selects the fields to return.
fn source(parameter: &str, value: &str) -> Option<Value> {
    let fields: Vec<&str> = value.split(',').collect();
    match (parameter, value) {
        ("_source", "true" | "false") => Some(json!(value == "true")),

        ("_source" | "_source_includes", _) => Some(json!({ "includes": fields })),
        ("_source_excludes", _) => Some(json!({ "excludes": fields })),
        _ => None,
    }
}

fn decoded(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// An action line.
struct Line(Vec<u8>);

impl Line {
    fn new(action: &str) -> Self {
        Self(format!("{{\"{action}\":{{").into_bytes())
    }

    /// Adds a parameter. Its value may be any bytes, not only UTF-8.
    fn add(&mut self, name: &str, value: &[u8]) {
        if !self.0.ends_with(b"{") {
            self.0.push(b',');
        }
        self.0.extend(format!("\"{name}\":\"").into_bytes());
        for byte in value {
            match byte {
                b'"' | b'\\' => self.0.extend([b'\\', *byte]),
                0..0x20 => self.0.extend(format!("\\u{byte:04x}").into_bytes()),
                _ => self.0.push(*byte),
            }
        }
        self.0.push(b'"');
    }

    fn add_json(&mut self, name: &str, value: &Value) {
        self.0.extend(format!(",\"{name}\":{value}").into_bytes());
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend(b"}}");
        self.0
    }
}
