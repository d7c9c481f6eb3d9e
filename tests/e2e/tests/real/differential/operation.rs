use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::chance::Chance;
use super::oddity;
use super::style::Style;
use super::target::{IMPOSSIBLE, TARGETS, Target, WAITING};
use super::template::{Document, TWIN};

/// Where operations name their indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// In the path, in lines, or in both.
    Anywhere,
    /// Mostly in the path, for nodes that refuse an index in a line.
    PathOnly,
}

/// The generator of one client's operations in one seed. No other client names its documents, so that their outcomes do
/// not depend on the order of clients.
pub struct Author {
    seed: u64,
    client: usize,
    naming: Naming,
    written: u64,
    /// Whether operations on different names have the same ids.
    shares_ids: bool,
}

/// How unusual the operations of a request are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Only operations that the filter understands.
    Usual,
    /// Operations with versions, pipelines, or names that the filter cannot route.
    Special,
    /// Operations with lines that are, or look, invalid.
    Odd,
}

#[derive(Debug, Clone, Default)]
pub struct Body {
    /// The template for [`render`](super::template::render).
    pub template: Vec<u8>,
    /// The documents whose sequence numbers the template refers to.
    pub documents: Vec<Document>,
    /// The approximate number of operations.
    pub operations: usize,
}

impl Author {
    pub fn new(seed: u64, client: usize, naming: Naming) -> Self {
        Self { seed, client, naming, written: 0, shares_ids: true }
    }

    /// Returns the text that marks the documents of a seed.
    pub fn owner(seed: u64) -> String {
        format!("s{seed}")
    }

    /// Returns a body for a request in this style.
    pub fn body(&mut self, rng: &mut Rng, manner: Manner, style: &Style) -> Body {
        let mut body = Body::default();
        let operations = if rng.percent(3) { rng.usize(100..300) } else { rng.usize(1..14) };
        let odd_at = (manner == Manner::Odd).then(|| rng.usize(0..operations));
        let strange_ends = rng.percent(5);
        let elsewhere = self.elsewhere(rng);
        // Requests pass through whole if two operations may mean one document under two names.
        self.shares_ids = rng.percent(20);
        for place in 0..operations {
            let start = body.template.len();
            // One odd operation is enough to make a request odd.
            let manner = match manner {
                Manner::Special if rng.percent(60) => Manner::Usual,
                Manner::Odd => Manner::Usual,
                manner => manner,
            };
            self.operation(rng, manner, style, elsewhere, &mut body);
            if odd_at == Some(place) {
                let usual = body.template.split_off(start);
                body.template.extend(oddity::instead_of(rng, &usual, &self.odd_id()));
            } else if strange_ends {
                let operation = body.template.split_off(start);
                body.template.extend(oddity::with_strange_ends(rng, &operation));
            }
            body.operations += 1;
        }
        if manner == Manner::Odd && rng.percent(20) {
            oddity::break_end(rng, &mut body.template);
        }
        body
    }

    /// Returns the lines of an operation for a request of its own.
    pub fn operation_alone(&mut self, rng: &mut Rng, manner: Manner, style: &Style) -> Body {
        let mut body = Body { operations: 1, ..Body::default() };
        let manner = if manner == Manner::Odd { Manner::Special } else { manner };
        self.operation(rng, manner, style, if style.default.is_some() { 30 } else { 100 }, &mut body);
        body
    }

    /// Returns the percentage of a request's operations that name an index although the path does.
    fn elsewhere(&self, rng: &mut Rng) -> u32 {
        match self.naming {
            // A request of which only some lines name an index passes through whole.
            Naming::Anywhere => rng.one_of(&[0, 0, 0, 0, 100, 100, 100, 20]),
            Naming::PathOnly => rng.one_of(&[0, 0, 0, 0, 0, 5, 20, 100]),
        }
    }

    fn operation(&mut self, rng: &mut Rng, manner: Manner, style: &Style, elsewhere: u32, body: &mut Body) {
        self.written += 1;
        let (target, mut parameters) = self.target(rng, manner, style, elsewhere);
        let action = match target {
            Some(target) if target.create_only && manner == Manner::Usual => "create",
            _ => rng.one_of(&["index", "index", "index", "create", "create", "update", "update", "delete"]),
        };
        let parted = target.is_some_and(|target| target.name == "parted");
        let with_id = matches!(action, "update" | "delete") || rng.percent(if parted { 97 } else { 75 });
        let id = self.id(rng.usize(0..5), target);
        if with_id {
            parameters.insert("_id".into(), id.clone());
        }
        if target.is_some_and(|target| target.with_routing) != rng.percent(3) {
            let routing = rng.one_of(&[json!("jane"), json!("john"), json!(17), json!("é🙂"), json!("a b")]);
            parameters.insert("routing".into(), routing);
        } else if rng.percent(3) {
            parameters.insert("routing".into(), json!("jane"));
        }
        if manner == Manner::Special {
            self.specials(rng, action, with_id, target, &id, &mut parameters, body);
        }
        if action == "update" && rng.percent(20) {
            parameters.insert("retry_on_conflict".into(), rng.usize(0..4).into());
        }
        if rng.percent(3) {
            parameters.insert("require_alias".into(), (manner == Manner::Special && rng.bool()).into());
        }
        let mut line = json!({action: parameters}).to_string();
        if rng.percent(4) {
            line = line.replacen("_id\":\"s", "_id\":\"\\u0073", 1);
        }
        // A placeholder expands to two fields, so it must not be quoted.
        for number in 0..body.documents.len() {
            line = line.replace(&format!("\"~{number}~\""), &format!("~{number}~"));
        }
        body.template.extend(line.bytes().chain([b'\n']));
        if action != "delete" {
            let source = match action {
                "update" => self.update(rng, target),
                _ => self.document(rng, target),
            };
            body.template.extend(source.bytes().chain([b'\n']));
        }
    }

    /// Returns the target of an operation, and the parameter that names it unless the path does.
    fn target(
        &self,
        rng: &mut Rng,
        manner: Manner,
        style: &Style,
        elsewhere: u32,
    ) -> (Option<Target>, Map<String, Value>) {
        let mut parameters = Map::new();
        if let Some(default) = style.default
            && !rng.percent(elsewhere)
        {
            return (Some(default), parameters);
        }
        if manner == Manner::Special && rng.percent(8) {
            let name = match rng.percent(40) && !style.is_hasty() {
                true => format!("<{TWIN}-new-{}-{}-{{now/y}}>", Self::owner(self.seed), self.client),
                false => rng.one_of(IMPOSSIBLE).to_owned(),
            };
            parameters.insert("_index".into(), name.into());
            return (None, parameters);
        }
        let waiting = if style.is_hasty() { 10 } else { 0 };
        let target = loop {
            let targets = if rng.percent(waiting) { WAITING } else { TARGETS };
            let target = rng.one_of(targets);
            if target.waits && !style.is_hasty() {
                continue;
            }
            // The duration of index creation is random, so hasty requests do not create indices.
            let possible = target.routed || manner == Manner::Special;
            let rare = matches!(target.name, "new-S" | "brief");
            if possible && (!rare || rng.percent(25)) && (target.name != "new-S" || !style.is_hasty()) {
                break target;
            }
        };
        parameters.insert("_index".into(), self.name(target).into());
        (Some(target), parameters)
    }

    /// Returns the name of a target, for both sides.
    pub fn name(&self, target: Target) -> String {
        match target.name {
            // The mapping of this index grows with its documents, so each client has its own index.
            "new-S" => format!("{TWIN}-new-{}-{}", Self::owner(self.seed), self.client),
            name => format!("{TWIN}-{name}"),
        }
    }

    /// Returns one of the client's few ids, or of the few for this target. None of them has 20 characters, the length of
    /// a generated id.
    fn id(&self, number: usize, target: Option<Target>) -> Value {
        let place = |target: Target| TARGETS.iter().position(|other| other.name == target.name);
        let place = target.filter(|_| !self.shares_ids).and_then(place).map_or(0, |place| place + 1);
        let (owner, client) = (Self::owner(self.seed), self.client + 100 * place);
        match number {
            0 => json!(format!("{owner}-{client}")),
            1 => json!(format!("{owner}-{client}-é🙂")),
            2 => json!(format!("{owner}-{client} \"\\\t/\u{1}")),
            3 => json!(self.seed * 10_000 + client as u64),
            _ => json!(format!("{:x<512}", format!("{owner}-{client}-"))),
        }
    }

    fn odd_id(&self) -> String {
        format!("{}-{}-odd", Self::owner(self.seed), self.client)
    }

    #[allow(clippy::too_many_arguments)]
    fn specials(
        &self,
        rng: &mut Rng,
        action: &str,
        with_id: bool,
        target: Option<Target>,
        id: &Value,
        parameters: &mut Map<String, Value>,
        body: &mut Body,
    ) {
        match rng.usize(0..6) {
            0 | 1 if with_id && (action != "create" || rng.percent(3)) => {
                if let Some(target) = target {
                    let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
                    let number = body.documents.len();
                    // With several shards, one id may identify several documents with different routing, and the
                    // sequence number of another one may match by chance.
                    let index = if target.name == "single" { "single" } else { "unknown" };
                    body.documents.push((index.to_owned(), id));
                    parameters.insert("if_seq_no".into(), format!("~{number}~").into());
                }
            }
            2 if with_id && (matches!(action, "index" | "delete") || rng.percent(5)) => {
                let kind = rng.one_of(&["external", "external", "external_gte", "external_gte", "internal", "none"]);
                let kind = if rng.percent(90) && !kind.starts_with('e') { "external" } else { kind };
                parameters.insert("version".into(), rng.usize(0..9).into());
                parameters.insert("version_type".into(), kind.into());
            }
            3 if action != "delete" => {
                let pipeline = rng.one_of(&["twin-nothing", "twin-selective", "_none", "nowhere"]);
                parameters.insert("pipeline".into(), pipeline.into());
            }
            4 if action == "update" => {
                let source = rng.one_of(&[json!(true), json!("n"), json!(["n", "te*"]), json!(false)]);
                parameters.insert("_source".into(), source);
            }
            5 => {
                parameters.insert("require_alias".into(), true.into());
            }
            _ => {}
        }
    }

    fn update(&mut self, rng: &mut Rng, target: Option<Target>) -> String {
        let whole = self.document(rng, target);
        let n = self.written;
        match rng.usize(0..20) {
            0..6 => format!(r#"{{"doc":{{"n":{n}}}}}"#),
            6..9 => format!(r#"{{"doc":{whole},"doc_as_upsert":true}}"#),
            9..12 => format!(r#"{{"doc":{{"text":"changed"}},"upsert":{whole}}}"#),
            12..14 => format!(r#"{{"doc":{{"text":"changed"}},"detect_noop":{}}}"#, rng.bool()),
            14 => format!(r#"{{"doc":{{"n":"many"}},"upsert":{whole},"detect_noop":false}}"#),
            15 => format!(r#"{{"script":{{"source":"ctx._source.n += 1","lang":"painless"}},"upsert":{whole}}}"#),
            16 => r#"{"script":{"id":"none"},"scripted_upsert":true,"upsert":{}}"#.to_owned(),
            17 => format!(r#"{{"doc":{{"n":{n}}},"_source":true}}"#),
            18 => r#"{"doc":{}}"#.to_owned(),
            _ => format!(r#"{{ "doc" : {{ "n" : {n}, "deep": {{"er": [{{"x":1.50}}, null]}} }} }}"#),
        }
    }

    /// Returns a document that mostly can be indexed.
    fn document(&mut self, rng: &mut Rng, target: Option<Target>) -> String {
        let mut document = json!({"owner": Self::owner(self.seed), "n": self.written});
        if target.is_some_and(|target| target.create_only) && rng.percent(90) {
            document["@timestamp"] = "2026-01-02T03:04:05Z".into();
        }
        // A pipeline may make this the id.
        if target.is_some_and(|target| matches!(target.name, "late" | "changing")) && rng.percent(80) {
            document["key"] = format!("{}-{}-key-{}", Self::owner(self.seed), self.client, self.written).into();
        }
        match rng.usize(0..40) {
            0 => document["n"] = "many".into(),
            1 => document["n"] = json!({"a": 1}),
            2 => document["n"] = json!(99_999_999_999_u64),
            3 => document["when"] = "yesterday".into(),
            4 => document["flag"] = "perhaps".into(),
            5 => document["text"] = json!({"not": "text"}),
            6 => document["owner"] = json!([]),
            7 => document["unknown"] = json!({"deep": [1, {"er": null}]}),
            8 => document["_id"] = "inside".into(),
            9 => document["text"] = "x".repeat(10_000).into(),
            10 => document["text"] = "x".repeat(40_000).into(),
            11..14 => document["when"] = "2026-01-02T03:04:05.678Z".into(),
            14..18 => document["flag"] = rng.bool().into(),
            18..24 => document["text"] = "é🙂\"\\\u{1}\u{2028}/ü".into(),
            24 => document["n"] = Value::Null,
            25 => document["text"] = "dropped".into(),
            26 => document["text"] = "failed".into(),
            _ => {}
        }
        document.to_string()
    }
}
