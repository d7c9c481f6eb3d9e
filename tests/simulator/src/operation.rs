use bulk_reshuffle::bulk::Action;

use crate::layout;
use crate::rng::Rng;

#[derive(Debug, Clone)]
pub struct Operation {
    pub action: Action,
    /// The name that it is for, its own or its request's.
    pub name: String,
    /// Whether its own line has the name.
    pub is_named: bool,
    pub id: Option<String>,
    /// The routing value, its own or its request's.
    pub routing: Option<String>,
    /// Whether it would fail if it was executed again.
    pub is_conditional: bool,
    /// Whether the cluster runs a pipeline for it.
    pub piped: bool,
    /// Whether that pipeline may change where its document goes.
    pub unproven: bool,
    /// Whether it is a request for a single document, whose action line the filter writes.
    pub is_document: bool,
    /// The lines as the client sends them.
    pub text: Vec<u8>,
}

/// The number of an operation in its run. It is encoded as white space at the end of the action line, which the filter
/// must not change. It identifies every operation, even one without an id or a source. In a request for a single
/// document it follows [`MARK`] at the end of the id. Without an id, the document begins with it.
pub type Marker = usize;

const MARKER_BITS: u32 = 13;

/// The character before the marker in an id.
pub const MARK: char = '~';

/// The length of an id that the filter generates, in bytes.
pub const MADE_ID: usize = 20;

/// The parameters of a request that apply to all its operations.
#[derive(Debug, Clone, Default)]
pub struct Defaults {
    /// The index in the path.
    pub name: Option<&'static str>,
    /// How many of 100 lines name an index although the path does.
    pub named: u64,
    /// The routing value in the query.
    pub routing: Option<&'static str>,
}

impl Operation {
    /// Returns whether it may be executed twice.
    pub fn is_idempotent(&self) -> bool {
        matches!(self.action, Action::Index | Action::Delete)
            && self.id.is_some()
            && !self.is_conditional
            && !self.unproven
    }

    /// Generates an operation that the filter vouches for.
    pub fn draw(rng: &mut Rng, marker: Marker, defaults: &Defaults, ids: u64) -> Self {
        let actions = [Action::Index, Action::Index, Action::Create, Action::Update, Action::Delete];
        let action = rng.pick(&actions).copied().unwrap_or(Action::Index);
        let own_name = match defaults.name {
            Some(_) if !rng.percent(defaults.named) => None,
            _ => Some(rng.one_of(layout::NAMES)),
        };
        let name = own_name.or(defaults.name).unwrap_or_default();
        // An update under a pipeline passes through.
        let has_pipeline = ["h", "piped"].contains(&name);
        let action = if has_pipeline && action == Action::Update { Action::Index } else { action };
        // The index "p" is partitioned, and the alias "r" stands for the routing "x".
        let may_lack_id = matches!(action, Action::Index | Action::Create);
        let id = (!(may_lack_id && rng.percent(10))).then(|| Id::draw(rng, ids));
        let own_routing = match name {
            "p" => rng.percent(90).then(|| rng.one_of(&["x", "y", "z"])),
            "r" => rng.percent(20).then_some("x"),
            _ => rng.percent(8).then(|| rng.one_of(&["x", "y", "z"])),
        };
        let mut fields = Vec::new();
        fields.extend(own_name.map(|name| format!(r#""_index":"{name}""#)));
        fields.extend(id.as_ref().map(|id| format!(r#""_id":{}"#, id.json)));
        fields.extend(own_routing.map(|routing| format!(r#""routing":"{routing}""#)));
        let precondition = id.as_ref().filter(|_| rng.percent(10)).and_then(|_| precondition(action, rng));
        fields.extend(precondition.map(str::to_owned));
        let is_conditional = precondition.is_some_and(|fields| !fields.contains("external_gte"));
        let is_written = matches!(action, Action::Index | Action::Create);
        let pipeline =
            (is_written && rng.percent(5)).then(|| rng.one_of(&[layout::HARMLESS, layout::UNPROVEN, "_none"]));
        fields.extend(pipeline.map(|pipeline| format!(r#""pipeline":"{pipeline}""#)));
        let (piped, unproven) = if is_written { pipelines(name, pipeline) } else { (false, false) };
        let line = format!(r#"{{"{}":{{{}}}}}"#, action.name(), fields.join(","));
        let end = if rng.percent(5) { "\r\n" } else { "\n" };
        let mut text = format!("{line}{}{end}", written(marker)).into_bytes();
        if action.has_source() {
            text.extend_from_slice(source(action, is_conditional, marker, rng).as_bytes());
        }
        let routing = own_routing.or(defaults.routing).map(str::to_owned);
        Self {
            action,
            name: name.to_owned(),
            is_named: own_name.is_some(),
            id: id.map(|id| id.plain),
            routing,
            is_conditional,
            piped,
            unproven,
            is_document: false,
            text,
        }
    }

    /// Returns the operation with the parameter that the filter added to its action line in these lines. Only an id or
    /// a routing value may be added.
    pub fn extended_in(&self, lines: &[u8], missing_id: &str) -> Option<Self> {
        let head = format!(r#"{{"{}":{{"#, self.action.name());
        let (field, length) = match missing_id {
            "generate" => (r#""_id":""#, Some(MADE_ID)),
            "direct" if self.routing.is_none() && !self.is_document => (r#""routing":""#, None),
            _ => return None,
        };
        let value = lines.strip_prefix(head.as_bytes())?.strip_prefix(field.as_bytes())?;
        let value = std::str::from_utf8(value.split(|byte| *byte == b'"').next()?).ok()?.to_owned();
        if self.id.is_some() || length.is_some_and(|length| value.len() != length) {
            return None;
        }
        let rest = self.text.strip_prefix(head.as_bytes())?;
        let comma = if rest.starts_with(b"}") { "" } else { "," };
        let text = [format!("{head}{field}{value}\"{comma}").as_bytes(), rest].concat();
        let mut extended = Self { text, ..self.clone() };
        match length {
            Some(_) => extended.id = Some(value),
            None => extended.routing = Some(value),
        }
        Some(extended)
    }

    /// Returns the document in its lines, without the newline after it.
    pub fn source(&self) -> &[u8] {
        let line = self.text.iter().position(|byte| *byte == b'\n').unwrap_or_default();
        let source = self.text.get(line.saturating_add(1)..).unwrap_or_default();
        source.strip_suffix(b"\n").unwrap_or(source)
    }

    /// Returns the marker of the operation at the start of some lines.
    pub fn marker(lines: &[u8]) -> Option<Marker> {
        let mut lines = lines.split(|byte| *byte == b'\n');
        let line = lines.next()?;
        let of_document = || number_after(line, "~").or_else(|| number_after(lines.next()?, START));
        Self::marker_at_end(line).or_else(of_document)
    }

    fn marker_at_end(line: &[u8]) -> Option<Marker> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let bits = line.get(line.len().checked_sub(MARKER_BITS as usize)?..)?;
        bits.iter().try_fold(0_usize, |marker, byte| match byte {
            b' ' => Some(marker << 1),
            b'\t' => Some(marker << 1 | 1),
            _ => None,
        })
    }
}

/// The start of a document, before its marker.
pub const START: &str = r#"{"m":"#;

/// Returns the number after this text in a line.
fn number_after(line: &[u8], text: &str) -> Option<Marker> {
    let line = String::from_utf8_lossy(line);
    let (_, after) = line.split_once(text)?;
    after.split(|char: char| !char.is_ascii_digit()).next()?.parse().ok()
}

/// Returns whether the cluster runs a pipeline when it writes a document, and whether that may change where the document
/// goes. A named pipeline replaces the default one. A final pipeline runs in any case.
pub fn pipelines(name: &str, pipeline: Option<&str>) -> (bool, bool) {
    let first = pipeline.or((name == "piped").then_some(layout::UNPROVEN));
    let piped = name == "h" || first.is_some_and(|pipeline| pipeline != "_none");
    (piped, first == Some(layout::UNPROVEN))
}

fn written(marker: Marker) -> String {
    (0..MARKER_BITS).rev().map(|bit| if marker >> bit & 1 == 1 { '\t' } else { ' ' }).collect()
}

/// Returns parameters with a version or a sequence number, if the action takes them.
fn precondition(action: Action, rng: &mut Rng) -> Option<&'static str> {
    let versions = [
        r#""version":7,"version_type":"external""#,
        r#""version_type":"external_gt","version":"7""#,
        r#""version":7,"version_type":"external_gte""#,
    ];
    match action {
        Action::Index | Action::Delete if rng.percent(60) => Some(rng.one_of(&versions)),
        Action::Index | Action::Delete | Action::Update => Some(r#""if_seq_no":3,"if_primary_term":1"#),
        Action::Create => None,
    }
}

fn source(action: Action, is_conditional: bool, marker: Marker, rng: &mut Rng) -> String {
    let filling = "x".repeat(rng.one_of(&[0, 0, 10, 200]));
    match action {
        Action::Update => match rng.up_to(2) {
            0 if !is_conditional => {
                format!("{{\"doc\":{{\"m\":{marker},\"f\":\"{filling}\"}},\"doc_as_upsert\":true}}\n")
            }
            1 => format!("{{\"script\":{{\"source\":\"ctx._source.m = {marker}\"}}}}\n"),
            _ => format!("{{\"doc\":{{\"m\":{marker},\"f\":\"{filling}\"}}}}\n"),
        },
        // Only the node that owns the document parses it.
        _ if rng.percent(3) => "\0 no document\n".to_owned(),
        _ => format!("{{\"m\":{marker},\"f\":\"{filling}\"}}\n"),
    }
}

struct Id {
    plain: String,
    json: String,
}

impl Id {
    fn draw(rng: &mut Rng, ids: u64) -> Self {
        let number = rng.up_to(ids);
        match rng.up_to(9) {
            0 => Self { plain: number.to_string(), json: number.to_string() },
            1 => Self { plain: format!("é{number}"), json: format!(r#""\u00e9{number}""#) },
            _ => Self { plain: number.to_string(), json: format!(r#""{number}""#) },
        }
    }
}
