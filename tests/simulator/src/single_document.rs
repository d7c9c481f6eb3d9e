//! Requests for single documents: what clients send, and what a cluster answers.

use bulk_reshuffle::bulk::{Action, FilterPath};
use bulk_reshuffle::engine::Call;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::{BOMB, Client, GZIP, Key, NO_BULK, ROUTE, ask_for, declare_zipped, headers, wait, zipped_body};
use crate::layout;
use crate::operation::{MARK, Marker, Operation, START, pipelines};
use crate::rng::Rng;
use crate::scenario::Scenario;

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
    "document_body",
    "document_body",
    "update_body",
    "empty",
    "unrouted",
    "alias_routing",
    "single_update",
];

/// The fields of answers that clients request.
const FILTER_PATHS: &[&str] = &["_id,result", "**._id", "*", "-_seq_no", "took", "error.type", "_id%2Cstatus"];

/// The parts of a request for a single document.
struct Parts {
    method: &'static str,
    path: String,
    /// The parameters of the action line.
    parameters: Vec<(&'static str, &'static str)>,
    /// The body, without the newline after it in a batch.
    source: String,
    operation: Operation,
}

impl Client {
    /// Generates a request for a single document, and adds its operation to `all`.
    pub fn draw_document(rng: &mut Rng, scenario: &Scenario, all: &mut Vec<Operation>) -> Self {
        let oddity = rng.percent(scenario.odd).then(|| rng.one_of(ODDITIES));
        let Parts { mut method, path, parameters, source, operation } = Parts::draw(rng, scenario, all.len(), oddity);
        let mut path = odd_path(rng, path, oddity);
        if oddity == Some(NO_BULK) {
            let other = rng.one_of(&[("GET", "/i/_doc/1"), ("PUT", "/i/_update/1"), ("DELETE", "/i/_doc")]);
            (method, path) = (other.0, other.1.to_owned());
        }
        let plain = odd_source(rng, source, oddity).into_bytes();
        let is_deletion = operation.action == Action::Delete;
        let zipped = !plain.is_empty() && (matches!(oddity, Some(GZIP | BOMB)) || rng.percent(scenario.zipped));
        let body = if zipped { zipped_body(rng, &plain, oddity) } else { plain.clone() };
        let is_update = operation.action == Action::Update;
        let waits = wait(rng, scenario).filter(|waits| !is_update || !waits.contains("wait_for_active_shards"));
        let of_bulk = ["/_bulk"].into_iter().chain(waits).collect::<Vec<_>>().join("?");
        let line = ["POST".to_owned(), of_bulk, "application/json".to_owned()];
        let (key, mut headers) = headers(rng, scenario, line, oddity, body.len());
        let lacks_type = is_deletion && oddity != Some("content_type") && rng.percent(70);
        headers.retain(|(name, _)| !(lacks_type && name == "content-type"));
        if zipped {
            declare_zipped(rng, &mut headers);
        }
        let path = [path, query(rng, waits, parameters, (oddity, is_update))].concat();
        let own = [(":method", method), (":path", path.as_str())];
        for (name, value) in &mut headers {
            own.iter().filter(|(own, _)| own == name).for_each(|(_, own)| *value = own.as_bytes().to_vec());
        }
        let filter_path = if rng.percent(scenario.filtered) { rng.one_of(FILTER_PATHS) } else { "" };
        ask_for(&mut headers, filter_path, oddity);
        all.push(operation);
        Self {
            document: Some(own_key(&key, &headers, lacks_type)),
            key,
            plain: plain.len() as u64,
            zipped,
            filter_path: FilterPath::parse(filter_path).unwrap_or_default(),
            operations: all.len().saturating_sub(1)..all.len(),
            oddity,
            bodiless: body.is_empty() && (oddity == Some("empty") || rng.percent(90)),
            poisoned: rng.percent(scenario.poisoned),
            headers,
            body,
        }
    }
}

/// Returns the headers on which a server could act, with the client's own method and path.
fn own_key(key: &Key, headers: &[(String, Vec<u8>)], lacks_type: bool) -> Key {
    let own = |name: &str| {
        let (_, value) = headers.iter().find(|(other, _)| other == name)?;
        String::from_utf8(value.clone()).ok()
    };
    let kept = key.iter().filter(|(name, _)| !(lacks_type && name == "content-type"));
    kept.map(|(name, value)| match name.as_str() {
        ":method" | ":path" => (name.clone(), own(name).unwrap_or_default()),
        _ => (name.clone(), value.clone()),
    })
    .collect()
}

impl Parts {
    fn draw(rng: &mut Rng, scenario: &Scenario, marker: Marker, oddity: Option<&str>) -> Self {
        let action = match oddity {
            Some("empty" | GZIP | BOMB) => Action::Index,
            Some("update_body" | "single_update") => Action::Update,
            _ if scenario.creators => Action::Create,
            _ => rng
                .pick(&[Action::Index, Action::Index, Action::Create, Action::Update, Action::Delete])
                .copied()
                .unwrap_or(Action::Index),
        };
        let name = match oddity {
            Some("unrouted") => rng.one_of(layout::ODD_NAMES),
            Some("alias_routing" | "single_update") => "r",
            Some("update_body") => "i",
            _ if scenario.creators => "i",
            _ => rng.one_of(layout::NAMES),
        };
        // An update under a pipeline passes through, and so does one for the alias "r", which adds a routing value, and
        // one for the partitioned index "p", which has none.
        let is_other =
            action == Action::Update && oddity != Some("single_update") && ["h", "p", "piped", "r"].contains(&name);
        let action = if is_other { Action::Index } else { action };
        let has_id = matches!(action, Action::Update | Action::Delete) || scenario.creators || rng.percent(80);
        let id = has_id.then(|| format!("{}{}{MARK}{marker}", rng.one_of(&["", "", "é"]), rng.up_to(scenario.ids)));
        let parameters = parameters(rng, name, action, has_id, oddity);
        let value = |name| parameters.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
        let (piped, unproven) = match action {
            Action::Delete | Action::Update => (false, false),
            _ => pipelines(name, value("pipeline")),
        };
        let source = match action {
            Action::Delete => String::new(),
            Action::Update => update(rng, marker, value("if_seq_no").is_some(), oddity),
            // Only the node that owns the document parses it.
            _ if has_id && rng.percent(3) => "\0 no document".to_owned(),
            _ => format!("{START}{marker},\"f\":\"{}\"}}", "x".repeat(rng.one_of(&[0, 0, 10, 200]))),
        };
        let operation = Operation {
            action,
            name: name.to_owned(),
            is_named: true,
            routing: value("routing").map(str::to_owned),
            is_conditional: value("version_type").or(value("if_seq_no")).is_some_and(|of| of != "external_gte"),
            piped,
            unproven,
            is_document: true,
            text: lines(action, name, id.as_deref(), &parameters, &source).into_bytes(),
            id,
        };
        Self::of(rng, operation, parameters, source)
    }

    /// Chooses a request that stands for an operation.
    fn of(
        rng: &mut Rng,
        operation: Operation,
        mut parameters: Vec<(&'static str, &'static str)>,
        source: String,
    ) -> Self {
        let Operation { action, name, id, .. } = &operation;
        let is_creation = *action == Action::Create;
        let at = match action {
            Action::Update => "_update",
            _ if is_creation && id.is_some() && rng.percent(50) => "_create",
            _ => "_doc",
        };
        match (action, id) {
            (Action::Index, None) => parameters.push(("op_type", "index")),
            (Action::Create, Some(_)) if at == "_doc" => parameters.push(("op_type", "create")),
            _ => {}
        }
        let method = match (action, id) {
            (Action::Delete, _) => "DELETE",
            (Action::Update, _) | (_, None) => "POST",
            _ => rng.one_of(&["PUT", "POST"]),
        };
        let id = id.as_ref().map(|id| format!("/{}", id.replace('é', "%C3%A9"))).unwrap_or_default();
        Self { method, path: format!("/{name}/{at}{id}"), parameters, source, operation }
    }
}

/// Returns parameters of the action line, in its order.
fn parameters(
    rng: &mut Rng,
    name: &str,
    action: Action,
    has_id: bool,
    oddity: Option<&str>,
) -> Vec<(&'static str, &'static str)> {
    let routing = match name {
        // A single update changes the routing value of its document.
        _ if action == Action::Update => None,
        "p" => rng.percent(90).then(|| rng.one_of(&["x", "y", "z"])),
        "r" if oddity == Some("alias_routing") => Some("y"),
        "r" => rng.percent(20).then_some("x"),
        _ => rng.percent(8).then(|| rng.one_of(&["x", "y", "z"])),
    };
    let mut parameters: Vec<_> = routing.map(|routing| ("routing", routing)).into_iter().collect();
    if has_id && action != Action::Create && oddity != Some("action_line") && rng.percent(10) {
        let version = |kind| [("version", "7"), ("version_type", kind)];
        let at_number = [("if_seq_no", "3"), ("if_primary_term", "1")];
        let preconditions = [version("external"), version("external_gt"), version("external_gte"), at_number];
        let preconditions = if action == Action::Update { &[at_number] } else { &preconditions[..] };
        parameters.extend(rng.pick(preconditions).into_iter().flatten());
    } else if action == Action::Update && rng.percent(20) {
        parameters.push(("retry_on_conflict", "3"));
    }
    if matches!(action, Action::Index | Action::Create) && rng.percent(5) {
        parameters.push(("pipeline", rng.one_of(&[layout::HARMLESS, layout::UNPROVEN, "_none"])));
    }
    parameters
}

/// Returns the body of an update.
fn update(rng: &mut Rng, marker: Marker, is_conditional: bool, oddity: Option<&str>) -> String {
    if oddity == Some("update_body") {
        return rng.one_of(&["{}", "[]", "{\"doc\":1}", "{\"script\":{\"source\":\"ctx.op = 'none'\"}}"]).to_owned();
    }
    let upsert = if !is_conditional && rng.percent(50) { ",\"doc_as_upsert\":true" } else { "" };
    format!("{{\"doc\":{START}{marker}}}{upsert}}}")
}

/// Returns the lines of the operation that a request stands for.
fn lines(action: Action, name: &str, id: Option<&str>, parameters: &[(&str, &str)], source: &str) -> String {
    let mut fields = vec![format!(r#""_index":"{name}""#)];
    fields.extend(id.map(|id| format!(r#""_id":"{id}""#)));
    fields.extend(parameters.iter().map(|(name, value)| match value.parse::<u64>() {
        Ok(number) => format!(r#""{name}":{number}"#),
        Err(_) => format!(r#""{name}":"{value}""#),
    }));
    let line = format!("{{\"{}\":{{{}}}}}\n", action.name(), fields.join(","));
    if source.is_empty() { line } else { format!("{line}{source}\n") }
}

/// Returns the query of a request, with its question mark. The order of its parameters has no meaning, except that of
/// those for the batch.
fn query(
    rng: &mut Rng,
    waits: Option<&str>,
    parameters: Vec<(&str, &str)>,
    (oddity, is_update): (Option<&str>, bool),
) -> String {
    let mut query: Vec<String> = waits.map(str::to_owned).into_iter().collect();
    let odd: &[&str] = match oddity {
        Some("parameter") => {
            &["unknown=1", "routing=", "pipeline=a;b", "_source=true", "refresh=a;b", "op_type=update", "timeout=%zz"]
        }
        Some("action_line") if is_update => &["if_seq_no=3"],
        Some("action_line") => &["version=3", "if_seq_no=3", "version_type=external"],
        _ => &[],
    };
    query.extend(rng.pick(odd).map(|odd| (*odd).to_owned()));
    for (name, value) in parameters {
        let at = rng.up_to(query.len() as u64) as usize;
        query.insert(at, format!("{name}={value}"));
    }
    if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) }
}

fn odd_path(rng: &mut Rng, path: String, oddity: Option<&str>) -> String {
    if oddity != Some("path") {
        return path;
    }
    match rng.up_to(3) {
        0 => format!("{path}/"),
        1 => "/i/_doc/_mapping".to_owned(),
        2 => "/i,j/_doc/1".to_owned(),
        _ => "/i/_doc/%FF".to_owned(),
    }
}

fn odd_source(rng: &mut Rng, source: String, oddity: Option<&str>) -> String {
    match oddity {
        Some("empty") => String::new(),
        Some("document_body") if source.is_empty() => rng.one_of(&["{}", "\n", "{}\n"]).to_owned(),
        Some("document_body") => match rng.up_to(3) {
            0 => format!("{source}\n"),
            1 => format!("{source}\r"),
            2 => format!("\n{source}"),
            _ => format!("{source}\n{{\"delete\":{{\"_index\":\"i\",\"_id\":\"1\"}}}}\n"),
        },
        Some(BOMB) => source + &"x".repeat(2 << 20),
        _ => source,
    }
}

/// Returns whether a call sends a request for a single document itself.
pub fn is_original(call: &Call) -> bool {
    ["/_doc", "/_create", "/_update"].iter().any(|part| path_of(call).contains(part))
}

/// Returns the path of a call.
pub fn path_of(call: &Call) -> &str {
    call.headers.iter().find(|(name, _)| name == ":path").map_or("", |(_, path)| path)
}

/// The answer to a request for a single document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentAnswer {
    pub status: u16,
    pub location: Option<String>,
    pub body: String,
}

/// The outcome of an update in a batch that changes nothing.
pub const UNCHANGED: &str = r#""result":"noop","forced_refresh":true,"_shards":{"total":2,"successful":2,"failed":0}"#;

/// The same in the answer to a single update.
const UNCHANGED_ALONE: &str = r#""result":"noop","_shards":{"total":0,"successful":0,"failed":0}"#;

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(rename = "_index")]
    index: String,
    #[serde(rename = "_id")]
    id: Option<String>,
    status: u16,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl DocumentAnswer {
    /// Returns the answer of a cluster that would have this item for the operation in a batch.
    pub fn of(item: &str, operation: &Operation) -> Option<Self> {
        let (_, fields) = item.strip_suffix('}')?.split_once(':')?;
        let Fields { index, id, status, error } = serde_json::from_str(fields).ok()?;
        if let Some(error) = error {
            return Some(Self { status, location: None, body: error_body(error.get(), status) });
        }
        let mut body = format!("{}}}", fields.strip_suffix(&format!(r#","status":{status}}}"#))?);
        if operation.action == Action::Update {
            // A single update that changes nothing writes to no shard.
            body = body.replace(UNCHANGED, UNCHANGED_ALONE);
        }
        // The alias "r" stands for the routing "x".
        let routing = if operation.name == "r" { Some("x") } else { operation.routing.as_deref() };
        let routing = routing.map(|routing| format!("?routing={routing}")).unwrap_or_default();
        let id = id?.replace('é', "%C3%A9").replace(MARK, "%7E").replace(' ', "+");
        let location = (status == 201).then(|| format!("/{index}/_doc/{id}{routing}"));
        Some(Self { status, location, body })
    }
}

/// Returns the body of a refusal with this error.
pub fn error_body(error: &str, status: u16) -> String {
    let fields = error.strip_prefix('{').unwrap_or(error);
    format!(r#"{{"error":{{"root_cause":[{error}],{fields},"status":{status}}}"#)
}
