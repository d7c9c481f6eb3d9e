use std::collections::BTreeMap;
use std::sync::LazyLock;

use bulk_reshuffle_e2e::gzip;
use bulk_reshuffle_stack::Response;
use regex_lite::Regex;
use serde_json::{Map, Value, json};

use super::template::{Numbers, Side};

/// An answer without the parts that may differ between two answers to the same request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    status: u16,
    headers: BTreeMap<String, Vec<String>>,
    body: Body,
}

#[derive(Debug, Clone, PartialEq)]
enum Body {
    /// JSON or YAML.
    Tree {
        tree: Value,
        /// All keys, in their order.
        keys: Vec<String>,
        /// The number of lines, for `pretty`; 0 for YAML, which breaks lines at a width.
        lines: usize,
    },
    Text(String),
    /// The first bytes of CBOR or SMILE.
    Binary(Vec<u8>),
}

/// Headers that concern the transport of an answer, not its content. Envoy gives each request an id, `x-request-id`,
/// which OpenSearch returns from 3.5 on.
const TRANSPORT: &[&str] =
    &["connection", "content-length", "date", "server", "transfer-encoding", "vary", "x-request-id"];

/// A header with the name of a Java class, which Elasticsearch 9 adds to errors with 5xx. The item of a single document
/// does not have the name.
const APP_EXCEPTION: &str = "x-elastic-app-exception";

impl Answer {
    pub fn read(response: &Response, side: Side) -> Self {
        let mut headers = BTreeMap::<String, Vec<String>>::new();
        for (name, value) in &response.headers {
            if !TRANSPORT.contains(&name.as_str())
                && !name.as_str().starts_with("x-envoy")
                && name != APP_EXCEPTION
                && name != "content-encoding"
            {
                let mut value = String::from_utf8_lossy(value.as_bytes()).replace(side.twin(), "twin");
                if name == "location" {
                    value = blur_location(&value, side);
                }
                if name == "allow" {
                    value = sorted(&value);
                }
                headers.entry(name.to_string()).or_default().push(value);
            }
        }
        headers.values_mut().for_each(|values| values.sort());
        Self { status: response.status.as_u16(), headers, body: Body::read(&plain(response), side) }
    }

    /// Returns a description of the first difference from another answer.
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self.status != other.status {
            return Some(format!("{self:?}\nand {other:?}"));
        }
        if self.headers != other.headers {
            return Some(format!("headers {:#?} and {:#?}", self.headers, other.headers));
        }
        match (&self.body, &other.body) {
            (left, right) if left == right => None,
            (Body::Tree { tree, .. }, Body::Tree { tree: other, .. }) if tree != other => difference("", tree, other),
            (left, right) => Some(format!("{left:?} and {right:?}")),
        }
    }

    /// Removes the time of ingest pipelines. The filter may not know yet whether the index has one.
    pub fn forget_ingest_time(&mut self) {
        if let Body::Tree { tree, keys, lines } = &mut self.body {
            tree.as_object_mut().and_then(|fields| fields.remove("ingest_took"));
            keys.retain(|key| key != "ingest_took");
            *lines = 0;
        }
    }

    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns the number of items, if the answer contains them.
    pub fn items(&self) -> usize {
        match &self.body {
            Body::Tree { tree, .. } => tree["items"].as_array().map_or(0, Vec::len),
            _ => 0,
        }
    }
}

fn plain(response: &Response) -> Vec<u8> {
    gzip::plain(&response.headers, &response.body).unwrap()
}

/// Returns whether the master was too busy to create an index within the request's `timeout`. The sides then differ, and
/// all that follows may.
pub fn lacks_a_new_index(response: &Response) -> bool {
    String::from_utf8_lossy(&plain(response)).contains("process_cluster_event_timeout_exception")
}

/// Half a character. Clusters accept it in an id, and write it in the answer. `serde_json` does not.
static SURROGATE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\(u[dD][89a-fA-F][0-9a-fA-F]{2})").unwrap());

impl Body {
    fn read(bytes: &[u8], side: Side) -> Self {
        let Ok(text) = std::str::from_utf8(bytes) else {
            // An empty object has fewer than three bytes.
            return Self::Binary(bytes[..bytes.len().min(3)].to_vec());
        };
        let text = text.replace(side.twin(), "twin");
        let yaml = || text.starts_with("---").then(|| serde_saphyr::from_str(&text).ok()).flatten();
        let surrogates = || serde_json::from_str(&SURROGATE.replace_all(&text, r"\\$1")).ok();
        match serde_json::from_str::<Value>(&text).ok().or_else(yaml).or_else(surrogates) {
            Some(mut tree) => {
                blur(&mut tree);
                let lines = if text.starts_with("---") { 0 } else { text.lines().count() };
                Self::Tree { tree, keys: keys(&text), lines }
            }
            None if bytes.starts_with(b":)\n") => Self::Binary(bytes[..3].to_vec()),
            None => Self::Text(text),
        }
    }
}

/// Records the sequence numbers in a side's answer.
pub fn remember(response: &Response, side: Side, numbers: &mut Numbers) {
    let Ok(tree) = serde_json::from_slice::<Value>(&plain(response)) else { return };
    let items = tree["items"].as_array().into_iter().flatten();
    // The answer to a single document has the fields of an item.
    for fields in items.filter_map(Value::as_object).flat_map(|item| item.values()).chain([&tree]) {
        let text = |name: &str| Some(fields[name].as_str()?.to_owned());
        let number = |name: &str| fields[name].as_u64();
        if let (Some(index), Some(id)) = (text("_index"), text("_id"))
            && let (Some(number), Some(term)) = (number("_seq_no"), number("_primary_term"))
        {
            numbers.insert((index.replace(&format!("{}-", side.twin()), ""), id), (number, term));
        }
    }
}

/// Replaces the parts of a tree that may differ: times, sequence numbers, generated ids, and the number of shard copies
/// that answered.
pub fn blur(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for key in ["took", "ingest_took", "_seq_no", "index_uuid", "stack_trace", "successful"] {
                if let Some(field) = fields.get_mut(key) {
                    *field = json!("any");
                }
            }
            if let Some(Value::String(id)) = fields.get_mut("_id") {
                *id = blur_id(id);
            }
            // The filter has generated an id if it does not know yet that the index is gone. A cluster has not.
            if fields.get("error").is_some_and(|error| error["type"] == "index_not_found_exception")
                && let Some(id) = fields.get_mut("_id").filter(|id| id.is_null())
            {
                *id = json!("generated");
            }
            blur_cause(fields);
            fields.values_mut().for_each(blur);
        }
        Value::Array(values) => values.iter_mut().for_each(blur),
        Value::String(text) => *text = blur_text(text),
        _ => {}
    }
}

/// Returns a `Location` without a generated id and the side's name.
fn blur_location(location: &str, side: Side) -> String {
    let (path, query) = location.split_once('?').unwrap_or((location, ""));
    let parts: Vec<_> = path.split('/').map(blur_id).collect();
    format!("{}?{query}", parts.join("/")).replace(&side.twin().replace('@', "%40"), "twin")
}

/// Sorts the methods that a server allows. Each node lists them in an order of its own.
fn sorted(methods: &str) -> String {
    let mut methods: Vec<_> = methods.split(',').map(str::trim).collect();
    methods.sort_unstable();
    methods.join(", ")
}

/// Returns an id without a generated value.
pub fn blur_id(id: &str) -> String {
    // Clusters write the second one if a pipeline drops or fails a document before the id is generated.
    if id.len() == 20 || id == "auto-generated" { "generated".to_owned() } else { id.to_owned() }
}

/// Removes a difference in causes. A cause reads differently after it has crossed between nodes, which in a direct
/// answer depends on the random location of the shard.
fn blur_cause(fields: &mut Map<String, Value>) {
    // OpenSearch 3 has a later Jackson, with other names.
    const IO: &[&str] = &[
        "json_parse_exception",
        "json_e_o_f_exception",
        "input_coercion_exception",
        "stream_read_exception",
        "unexpected_end_of_input_exception",
    ];
    // The client may request only one of these fields.
    if let Some(Value::String(reason)) = fields.get_mut("reason")
        && let Some((kind, bare)) = reason.split_once("_exception: ")
        && kind.chars().all(|char| char.is_ascii_lowercase() || char == '_')
    {
        *reason = bare.to_owned();
    }
    let Some(kind) = fields.get("type").and_then(Value::as_str).map(str::to_owned) else { return };
    let crossed = match kind.as_str() {
        kind if IO.contains(&kind) => "i_o_exception",
        "x_content_parse_exception" | "x_content_e_o_f_exception" => "illegal_argument_exception",
        kind => kind,
    };
    fields.insert("type".into(), crossed.into());
}

/// Replaces generated ids, sequence numbers and shards in reasons.
fn blur_text(text: &str) -> String {
    let number =
        |rest: &str| ("any".to_owned(), rest.trim_start_matches(|char: char| char.is_ascii_digit()).to_owned());
    let id = |rest: &str| {
        let (id, rest) = rest.split_once('\'').unwrap_or((rest, ""));
        (blur_id(id), format!("'{rest}"))
    };
    let text = blur_after(&blur_quotations(text), "seqNo [", number);
    let text = blur_after(&text, "with id '", id);
    let bracketed_id = |rest: &str| {
        let (id, rest) = rest.split_once(']').unwrap_or((rest, ""));
        (blur_id(id), format!("]{rest}"))
    };
    let text = blur_after(&text, "]/[", bracketed_id);
    let list = |rest: &str| {
        let (list, rest) = rest.split_once(']').unwrap_or((rest, ""));
        (sorted(list), format!("]{rest}"))
    };
    let text = blur_after(&text, "allowed: [", list);
    // Elasticsearch names two headers in any order.
    let text = text.replace("[Content-Type, Accept]", "[Accept, Content-Type]");
    // If a shard is not active, Elasticsearch quotes the shard's request, which has the operations of a whole batch. A
    // document with a generated id may be on any shard.
    let (text, _) = text.split_once(", request: [BulkShardRequest ").unwrap_or((&text, ""));
    let is_inactive = text.contains("Not enough active copies") || text.contains("primary shard is not active");
    if is_inactive { blur_after(text, "][", number) } else { text.to_owned() }
}

/// Blurs what errors quote, which the filter removes, from the first quotation to the last.
fn blur_quotations(text: &str) -> String {
    let quoted = text.split_once("[Source: ").and_then(|(before, rest)| Some((before, rest.rsplit_once("; line")?.1)));
    quoted.map_or_else(|| text.to_owned(), |(before, after)| format!("{before}[Source: any; line{after}"))
}

/// Blurs the text after each occurrence of some words. `blur` returns the blurred part and the rest.
fn blur_after(text: &str, words: &str, blur: impl Fn(&str) -> (String, String)) -> String {
    let mut parts = text.split(words);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.map(blur).fold(first, |text, (blurred, rest)| text + words + &blurred + &rest)
}

/// Returns the keys of all objects in a JSON text, in their order.
fn keys(text: &str) -> Vec<String> {
    static STRING: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""((?:[^"\\]|\\.)*)"(\s*:)?"#).unwrap());
    let strings = STRING.captures_iter(text).filter(|string| string.get(2).is_some());
    strings.map(|string| string[1].to_owned()).collect()
}

/// Returns a description of the first difference between two trees.
fn difference(place: &str, left: &Value, right: &Value) -> Option<String> {
    match (left, right) {
        _ if left == right => None,
        // Shows the whole item.
        (Value::Object(fields), Value::Object(_)) if fields.contains_key("_id") => {
            Some(format!("{place}: {left}\nand {right}"))
        }
        (Value::Object(fields), Value::Object(others)) if fields.keys().eq(others.keys()) => {
            fields.iter().find_map(|(name, field)| difference(&format!("{place}/{name}"), field, &others[name]))
        }
        (Value::Array(values), Value::Array(others)) if values.len() == others.len() => {
            let mut pairs = values.iter().zip(others).enumerate();
            pairs.find_map(|(n, (value, other))| difference(&format!("{place}/{n}"), value, other))
        }
        _ => Some(format!("{place}: {left}\nand {right}")),
    }
}
