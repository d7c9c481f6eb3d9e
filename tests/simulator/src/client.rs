use std::io::Write;
use std::ops::Range;

use bulk_reshuffle::bulk::{Action, FilterPath, ITEM_ROOM, Inflater};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::layout;
use crate::operation::{Defaults, Marker, Operation};
use crate::rng::Rng;
use crate::scenario::Scenario;

/// A request as its client sends it.
#[derive(Debug, Clone, Default)]
pub struct Client {
    pub headers: Vec<(String, Vec<u8>)>,
    /// The headers that distinguish callers. They are recorded when the request is generated, not derived from its
    /// headers.
    pub key: Key,
    /// The body, possibly compressed.
    pub body: Vec<u8>,
    /// The length of the uncompressed body, in bytes.
    pub plain: u64,
    /// Whether the request declares its body as compressed.
    pub zipped: bool,
    /// The fields of the answer that the client requests.
    pub filter_path: FilterPath,
    /// The operations, if the filter vouches for all of them.
    pub operations: Range<Marker>,
    /// The reason why the filter does not vouch for the request, in the words of the metrics.
    pub oddity: Option<&'static str>,
    /// Whether the request has no body at all.
    pub bodiless: bool,
    /// Whether nodes refuse every batch that contains it.
    pub poisoned: bool,
    /// The headers on which a server could act, as the client sends them, if it writes a single document. The key is
    /// then that of the batch.
    pub document: Option<Key>,
}

/// The headers on which a server could act, sorted by name.
pub type Key = Vec<(String, String)>;

/// A request that is not a bulk request.
pub const NO_BULK: &str = "no_bulk";

/// A request whose route leads elsewhere, or nowhere.
pub const ROUTE: &str = "route";

/// A compressed body that is damaged.
pub const GZIP: &str = "gzip";

/// A compressed body that is far too large for every engine.
pub const BOMB: &str = "bomb";

/// The fields of answers that clients request.
const FILTER_PATHS: &[&str] = &[
    "errors,items.*.error,items.*.status",
    "errors,items.*.error.type",
    "items.*.error",
    "items.index,took",
    "took",
    "**._id",
    "*",
    "-took,-items.*._seq_no",
    "-items.*.status",
    "items.*%2C-items.create",
];

/// A header that no request has. It distinguishes a request that shares no batch from all others.
pub const ALONE: &str = "alone";

/// The reasons for which the filter does not vouch for a request.
const ODDITIES: &[&str] = &[
    NO_BULK,
    ROUTE,
    "path",
    "parameter",
    "content_type",
    "content_encoding",
    GZIP,
    BOMB,
    "accept",
    "header",
    "action_line",
    "index_pipeline",
    "update_body",
    "incomplete",
    "empty",
    "unrouted",
    "no_index",
    "alias_routing",
];

/// The approximate maximum memory of a request without its body, including its headers, in bytes.
const MOST_HEAD: u64 = 8 << 10;

impl Client {
    /// Generates a request, and adds its operations to `all`.
    pub fn draw(rng: &mut Rng, scenario: &Scenario, all: &mut Vec<Operation>) -> Self {
        if rng.percent(scenario.documents) {
            return Self::draw_document(rng, scenario, all);
        }
        let oddity = rng.percent(scenario.odd).then(|| rng.one_of(ODDITIES));
        let defaults = Defaults {
            name: rng.percent(scenario.callers.saturating_mul(10)).then(|| rng.one_of(&["i", "j", "a"])),
            named: rng.one_of(&[0, 0, 100, 30]),
            routing: rng.percent(scenario.callers).then_some("x"),
        };
        let first = all.len();
        for _ in 0..rng.between(1, scenario.operations) {
            all.push(Operation::draw(rng, all.len(), &defaults, scenario.ids));
        }
        let operations = first..all.len();
        let plain = body(rng, all.get(operations.clone()).unwrap_or_default(), oddity);
        let bodiless = oddity == Some("empty") && plain.is_empty();
        let zipped = matches!(oddity, Some(GZIP | BOMB)) || (!bodiless && rng.percent(scenario.zipped));
        let body = if zipped { zipped_body(rng, &plain, oddity) } else { plain.clone() };
        let line = request_line(rng, scenario, &defaults, oddity);
        let (mut key, mut headers) = headers(rng, scenario, line, oddity, body.len());
        let refreshes = key.iter().any(|(_, value)| value.contains("refresh="));
        if refreshes
            && all.get(operations.clone()).is_some_and(|all| all.iter().any(|one| one.action == Action::Update))
        {
            // It shares no batch: an item that changes nothing tells whether its batch has refreshed the shard.
            key.push((ALONE.to_owned(), first.to_string()));
        }
        if zipped {
            declare_zipped(rng, &mut headers);
        }
        let filter_path = if rng.percent(scenario.filtered) { rng.one_of(FILTER_PATHS) } else { "" };
        ask_for(&mut headers, filter_path, oddity);
        let filter_path = FilterPath::parse(filter_path).unwrap_or_default();
        let (plain, poisoned) = (plain.len() as u64, rng.percent(scenario.poisoned));
        Self { headers, key, body, plain, zipped, filter_path, operations, oddity, bodiless, poisoned, document: None }
    }

    /// Returns the approximate maximum memory that it may need, in bytes: for the request, for the items of its answer,
    /// and for a copy of the larger of the two.
    pub fn memory(&self) -> u64 {
        let operations = (self.operations.len() as u64).saturating_add(1);
        let places = operations.saturating_add(self.plain / (32 << 10)).saturating_mul(128);
        let items = operations.saturating_mul(ITEM_ROOM.saturating_add(300)).saturating_add(self.plain);
        let inflated = if self.zipped { self.plain.saturating_add(Inflater::MEMORY) } else { 0 };
        // Each byte may arrive in its own piece.
        let arrived = (self.body.len() as u64).saturating_mul(65);
        let parts = [MOST_HEAD, places, self.shares(), arrived, inflated, items, items.max(self.plain)];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    /// Returns the approximate maximum memory of its shares, in bytes. There are at most as many as operations or
    /// shards.
    fn shares(&self) -> u64 {
        (self.operations.len() as u64).min(24).saturating_mul(1024)
    }
}

/// Returns the body, with the odd lines somewhere in it.
fn body(rng: &mut Rng, operations: &[Operation], oddity: Option<&str>) -> Vec<u8> {
    if oddity == Some("empty") {
        return rng.one_of(&["", "\n", "\r\n\n"]).as_bytes().to_vec();
    }
    let odd_at = rng.up_to(operations.len().saturating_sub(1) as u64) as usize;
    let mut body = Vec::new();
    for (position, operation) in operations.iter().enumerate() {
        if position == odd_at {
            body.extend_from_slice(odd_lines(rng, oddity).as_bytes());
        }
        if rng.percent(3) {
            body.extend_from_slice(b"\n");
        }
        body.extend_from_slice(&operation.text);
    }
    if oddity == Some(BOMB) {
        body.extend_from_slice(b"{\"index\":{\"_index\":\"i\"}}\n");
        body.resize(body.len().saturating_add(2 << 20), b'x');
    }
    if oddity == Some("incomplete") {
        body.extend_from_slice(rng.one_of(&["{\"index\":{\"_index\":\"i\"}}\n", "{\"delete\":", "{"]).as_bytes());
    }
    body
}

/// Returns a compressed body, possibly damaged.
pub fn zipped_body(rng: &mut Rng, plain: &[u8], oddity: Option<&str>) -> Vec<u8> {
    let mut body = gzip(plain);
    if oddity == Some(GZIP) {
        match rng.up_to(3) {
            0 => body.truncate(body.len().saturating_sub(rng.between(1, 20) as usize)),
            1 => body.extend_from_slice(b"x"),
            2 => body.extend_from_within(..),
            _ => body = plain.to_vec(),
        }
    }
    body
}

/// Adds the header that declares a compressed body, unless there is another one.
pub fn declare_zipped(rng: &mut Rng, headers: &mut Vec<(String, Vec<u8>)>) {
    if headers.iter().all(|(name, _)| name != "content-encoding") {
        headers.push(("content-encoding".to_owned(), rng.one_of(&["gzip", "gzip", "GZIP"]).into()));
    }
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory cannot fail.
    encoder.write_all(plain).and_then(|()| encoder.finish()).unwrap_or_default()
}

/// Adds the parameter `filter_path`. It does not distinguish callers.
pub fn ask_for(headers: &mut [(String, Vec<u8>)], filter_path: &str, oddity: Option<&str>) {
    let Some((_, path)) = headers.iter_mut().find(|(name, _)| name == ":path") else { return };
    if filter_path.is_empty() || oddity == Some("parameter") {
        return;
    }
    let text = String::from_utf8_lossy(path).into_owned();
    *path = match text.split_once('?') {
        Some((path, query)) if query.len() % 2 == 0 => format!("{path}?filter_path={filter_path}&{query}"),
        Some(_) => format!("{text}&filter_path={filter_path}"),
        None => format!("{text}?filter_path={filter_path}"),
    }
    .into_bytes();
}

fn odd_lines(rng: &mut Rng, oddity: Option<&str>) -> String {
    let line = match oddity {
        Some("action_line") => rng.one_of(&[
            "{}",
            "not json",
            r#"{"index":{"_index":"i","_id":"1","version":3}}"#,
            r#"{"create":{"_index":"i","_id":"1","if_seq_no":3,"if_primary_term":1}}"#,
            r#"{"delete":{"_index":"i"}}"#,
            r#"{"delete":{"_index":"i","_id":null}}"#,
        ]),
        Some("index_pipeline") => "{\"update\":{\"_index\":\"h\",\"_id\":\"1\"}}\n{\"doc\":{}}",
        Some("update_body") => "{\"update\":{\"_index\":\"i\",\"_id\":\"1\"}}\n[]",
        Some("unrouted") => {
            // No pipeline runs for a deletion.
            return format!("{{\"index\":{{\"_index\":\"{}\",\"_id\":\"1\"}}}}\n{{}}\n", rng.one_of(layout::ODD_NAMES));
        }
        Some("no_index") => r#"{"delete":{"_id":"1"}}"#,
        Some("alias_routing") => r#"{"delete":{"_index":"r","_id":"1","routing":"y"}}"#,
        _ => return String::new(),
    };
    format!("{line}\n")
}

/// Returns the method, the path and the content type of a bulk request.
fn request_line(rng: &mut Rng, scenario: &Scenario, defaults: &Defaults, oddity: Option<&str>) -> [String; 3] {
    let (methods, types) = match scenario.callers {
        0..=2 if scenario.documents > 0 => (["POST"; 2], ["application/json"; 2]),
        0..=2 => (["POST"; 2], ["application/x-ndjson"; 2]),
        _ => (["POST", "PUT"], ["application/x-ndjson", "application/json"]),
    };
    [rng.one_of(&methods).to_owned(), path(rng, scenario, defaults, oddity), rng.one_of(&types).to_owned()]
}

/// Returns the headers that distinguish callers, and all headers, which include some on which no server acts.
pub fn headers(
    rng: &mut Rng,
    scenario: &Scenario,
    [method, path, content_type]: [String; 3],
    oddity: Option<&str>,
    length: usize,
) -> (Key, Vec<(String, Vec<u8>)>) {
    let mut key =
        vec![(":authority", "search".to_owned()), (":method", method), (":path", path), ("content-type", content_type)];
    match rng.up_to(scenario.callers) {
        0 => {}
        caller => key.push(("authorization", format!("Basic caller{caller}"))),
    }
    if scenario.opaque > 0 && rng.percent(70) {
        key.push(("x-opaque-id", rng.up_to(scenario.opaque).to_string()));
    }
    replace(&mut key, oddity);
    let mut key: Vec<_> = key.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut headers: Vec<_> = key.iter().map(|(name, value)| (name.clone(), value.as_bytes().to_vec())).collect();
    for name in ["user-agent", "x-request-id", "traceparent", "accept-encoding"] {
        if rng.percent(30) {
            headers.push((name.to_owned(), rng.up_to(1_000).to_string().into_bytes()));
        }
    }
    if rng.percent(60) {
        headers.push(("content-length".to_owned(), length.to_string().into_bytes()));
    }
    if oddity == Some("header") {
        headers.push(("x-odd".to_owned(), vec![0xff]));
    }
    // The order of headers with different names has no meaning.
    let by = rng.up_to(headers.len() as u64) as usize;
    headers.rotate_left(by);
    // The order of values of the same name does have one.
    if scenario.callers > 2 && rng.percent(10) {
        for value in rng.one_of(&[["::1", "::2"], ["::2", "::1"]]) {
            key.push(("x-forwarded-for".to_owned(), value.to_owned()));
            headers.push(("x-forwarded-for".to_owned(), value.as_bytes().to_vec()));
        }
    }
    key.sort_by(|(left, _), (right, _)| left.cmp(right));
    (key, headers)
}

fn path(rng: &mut Rng, scenario: &Scenario, defaults: &Defaults, oddity: Option<&str>) -> String {
    let name = if oddity == Some("no_index") { None } else { defaults.name };
    let mut path = name.map_or("/_bulk".to_owned(), |name| format!("/{name}/_bulk"));
    if oddity == Some("path") {
        path = rng.one_of(&["/i/_doc/_bulk", "/i%2Cj/_bulk", "//_bulk"]).to_owned();
    }
    if oddity == Some(NO_BULK) {
        let other = if scenario.documents > 0 { "/i/_update" } else { "/i/_doc/1" };
        path = rng.one_of(&["/_search", "/_bulk/x", other]).to_owned();
    }
    let mut query: Vec<String> = Vec::new();
    query.extend(defaults.routing.map(|routing| format!("routing={routing}")));
    query.extend(wait(rng, scenario).map(str::to_owned));
    if oddity == Some("parameter") {
        query.push(
            rng.one_of(&["filter_path=-items.**", "format=yaml", "batch_size=1", "routing=%61", "require_alias=yes"])
                .to_owned(),
        );
    }
    if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
}

/// Returns parameters that are about waiting, if a request has any.
pub fn wait(rng: &mut Rng, scenario: &Scenario) -> Option<&'static str> {
    if scenario.callers > 2 && rng.percent(20) {
        return Some(rng.one_of(&["refresh=true", "timeout=1m", "refresh=wait_for&wait_for_active_shards=1"]));
    }
    rng.percent(scenario.waiters).then(|| rng.one_of(&["refresh=wait_for", "wait_for_active_shards=all"]))
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
