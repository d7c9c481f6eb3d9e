use std::ops::Range;

use crate::dice::Dice;
use crate::layout;
use crate::operation::{Defaults, Marker, Operation};
use crate::scenario::Scenario;

/// A request as its client sends it.
#[derive(Debug, Clone)]
pub struct Client {
    /// All headers.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Those of them that keep callers apart. Written down here while the
    /// request is made, not worked out from its headers.
    pub key: Key,
    /// The body.
    pub body: Vec<u8>,
    /// Its operations, if all of it can be vouched for.
    pub operations: Range<Marker>,
    /// Why it cannot be vouched for, in the words of the metrics.
    pub oddity: Option<&'static str>,
    /// Whether it has no body at all.
    pub bodiless: bool,
    /// Whether nodes refuse whatever it travels in.
    pub poisoned: bool,
}

/// Headers on which a server could act, sorted by name.
pub type Key = Vec<(String, String)>;

/// A request that is no bulk request.
pub const NO_BULK: &str = "no_bulk";

/// What makes a request one that cannot be vouched for.
const ODDITIES: &[&str] = &[
    NO_BULK,
    "path",
    "parameter",
    "content_type",
    "content_encoding",
    "accept",
    "header",
    "action_line",
    "pipeline",
    "update_body",
    "incomplete",
    "empty",
    "unrouted",
    "no_index",
    "alias_routing",
];

impl Client {
    /// Draws a request; its operations are added to `all`.
    pub fn draw(dice: &mut Dice, scenario: &Scenario, all: &mut Vec<Operation>) -> Self {
        let oddity = dice.percent(scenario.odd).then(|| dice.one_of(ODDITIES));
        let defaults = Defaults {
            name: dice.percent(scenario.callers.saturating_mul(10)).then(|| dice.one_of(&["i", "j", "a"])),
            routing: dice.percent(scenario.callers).then_some("x"),
        };
        let first = all.len();
        for _ in 0..dice.between(1, scenario.operations) {
            all.push(Operation::draw(dice, all.len(), &defaults, scenario.ids));
        }
        let operations = first..all.len();
        let body = body(dice, all.get(operations.clone()).unwrap_or_default(), oddity);
        let (key, headers) = headers(dice, scenario, &defaults, oddity, body.len());
        let bodiless = oddity == Some("empty") && body.is_empty();
        Self { headers, key, body, operations, oddity, bodiless, poisoned: dice.percent(scenario.poisoned) }
    }

    /// About the most memory that one chunk of it may take, which is all of it in the worst case.
    pub fn memory(&self) -> u64 {
        let places = (self.operations.len() as u64).saturating_add(1);
        places.saturating_mul(64).saturating_add(self.body.len() as u64)
    }
}

/// The body; somewhere in it, the lines that make it odd.
fn body(dice: &mut Dice, operations: &[Operation], oddity: Option<&str>) -> Vec<u8> {
    if oddity == Some("empty") {
        return dice.one_of(&["", "\n", "\r\n\n"]).as_bytes().to_vec();
    }
    let odd_at = dice.up_to(operations.len().saturating_sub(1) as u64) as usize;
    let mut body = Vec::new();
    for (position, operation) in operations.iter().enumerate() {
        if position == odd_at {
            body.extend_from_slice(odd_lines(dice, oddity).as_bytes());
        }
        if dice.percent(3) {
            body.extend_from_slice(b"\n");
        }
        body.extend_from_slice(&operation.text);
    }
    if oddity == Some("incomplete") {
        body.extend_from_slice(dice.one_of(&["{\"index\":{\"_index\":\"i\"}}\n", "{\"delete\":", "{"]).as_bytes());
    }
    body
}

fn odd_lines(dice: &mut Dice, oddity: Option<&str>) -> String {
    let line = match oddity {
        Some("action_line") => dice.one_of(&[
            "{}",
            "not json",
            r#"{"index":{"_index":"i","_id":"1","version":3}}"#,
            r#"{"delete":{"_index":"i"}}"#,
            r#"{"index":{"_index":"i","_id":null}}"#,
        ]),
        Some("pipeline") => r#"{"index":{"_index":"i","_id":"1","pipeline":"p"}}"#,
        Some("update_body") => "{\"update\":{\"_index\":\"i\",\"_id\":\"1\"}}\n[]",
        Some("unrouted") => {
            return format!("{{\"delete\":{{\"_index\":\"{}\",\"_id\":\"1\"}}}}\n", dice.one_of(layout::ODD_NAMES));
        }
        Some("no_index") => r#"{"delete":{"_id":"1"}}"#,
        Some("alias_routing") => r#"{"delete":{"_index":"r","_id":"1","routing":"y"}}"#,
        _ => return String::new(),
    };
    format!("{line}\n")
}

/// What tells callers apart, and all headers: these and some on which no server acts.
fn headers(
    dice: &mut Dice,
    scenario: &Scenario,
    defaults: &Defaults,
    oddity: Option<&str>,
    length: usize,
) -> (Key, Vec<(String, Vec<u8>)>) {
    let (methods, types) = match scenario.callers {
        0..=2 => (["POST"; 2], ["application/x-ndjson"; 2]),
        _ => (["POST", "PUT"], ["application/x-ndjson", "application/json"]),
    };
    let mut key = vec![
        (":authority", "search".to_owned()),
        (":method", dice.one_of(&methods).to_owned()),
        (":path", path(dice, scenario, defaults, oddity)),
        ("content-type", dice.one_of(&types).to_owned()),
    ];
    match dice.up_to(scenario.callers) {
        0 => {}
        caller => key.push(("authorization", format!("Basic caller{caller}"))),
    }
    if scenario.callers > 2 && dice.percent(10) {
        key.push(("x-opaque-id", dice.one_of(&["1", "2"]).to_owned()));
    }
    replace(&mut key, oddity);
    let mut key: Vec<_> = key.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut headers: Vec<_> = key.iter().map(|(name, value)| (name.clone(), value.as_bytes().to_vec())).collect();
    for name in ["user-agent", "x-request-id", "traceparent", "accept-encoding"] {
        if dice.percent(30) {
            headers.push((name.to_owned(), dice.up_to(1_000).to_string().into_bytes()));
        }
    }
    if dice.percent(60) {
        headers.push(("content-length".to_owned(), length.to_string().into_bytes()));
    }
    if oddity == Some("header") {
        headers.push(("x-odd".to_owned(), vec![0xff]));
    }
    // The order of headers of different names means nothing.
    let by = dice.up_to(headers.len() as u64) as usize;
    headers.rotate_left(by);
    // That of values of the same name does.
    if scenario.callers > 2 && dice.percent(10) {
        for value in dice.one_of(&[["::1", "::2"], ["::2", "::1"]]) {
            key.push(("x-forwarded-for".to_owned(), value.to_owned()));
            headers.push(("x-forwarded-for".to_owned(), value.as_bytes().to_vec()));
        }
    }
    key.sort_by(|(left, _), (right, _)| left.cmp(right));
    (key, headers)
}

fn path(dice: &mut Dice, scenario: &Scenario, defaults: &Defaults, oddity: Option<&str>) -> String {
    let name = if oddity == Some("no_index") { None } else { defaults.name };
    let mut path = name.map_or("/_bulk".to_owned(), |name| format!("/{name}/_bulk"));
    if oddity == Some("path") {
        path = dice.one_of(&["/i/_doc/_bulk", "/i%2Cj/_bulk", "//_bulk"]).to_owned();
    }
    if oddity == Some(NO_BULK) {
        path = dice.one_of(&["/_search", "/_bulk/x", "/i/_doc/1"]).to_owned();
    }
    let mut query: Vec<String> = Vec::new();
    query.extend(defaults.routing.map(|routing| format!("routing={routing}")));
    if scenario.callers > 2 && dice.percent(20) {
        query
            .push(dice.one_of(&["refresh=true", "timeout=1m", "refresh=wait_for&wait_for_active_shards=1"]).to_owned());
    }
    if oddity == Some("parameter") {
        query.push(
            dice.one_of(&["filter_path=-items.**", "format=yaml", "pipeline=p", "routing=%61", "require_alias=true"])
                .to_owned(),
        );
    }
    if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
}

fn replace(key: &mut Vec<(&'static str, String)>, oddity: Option<&str>) {
    let (name, value) = match oddity {
        Some("content_type") => ("content-type", "application/smile"),
        Some("content_encoding") => ("content-encoding", "deflate"),
        Some("accept") => ("accept", "application/yaml"),
        _ => return,
    };
    key.retain(|(other, _)| *other != name);
    key.push((name, value.to_owned()));
}
