use fastrand::Rng;

use super::values::{self, WORDS};

/// A bulk body, and what is unusual about it.
#[derive(Debug, Clone)]
pub struct Body {
    pub bytes: Vec<u8>,
    pub query: Query,
    /// The names of its oddities, in the order of the body.
    pub oddities: Vec<String>,
}

/// The parameters of a request's path and query.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query {
    pub index: Option<&'static str>,
    pub routing: Option<&'static str>,
    pub pipeline: Option<&'static str>,
    pub require_alias: bool,
}

/// Grows bodies of a few operations: most have none or one oddity.
///
/// An oddity is whatever a server may refuse, read differently or find unusual: a parameter with a value of another
/// type or at the end of a range, white space, line ends, text that is not JSON. Everything else is as clients write it.
#[derive(Debug)]
pub struct Grammar {
    rng: Rng,
    /// The number of oddities that the body may still get.
    left: usize,
    /// How many of 100 lines name an index although the path does. A body in which some do, but not all, is not split.
    named: u8,
    oddities: Vec<String>,
}

const ACTIONS: [&str; 4] = ["index", "create", "update", "delete"];

impl Grammar {
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), left: 0, named: 0, oddities: Vec::new() }
    }

    /// Grows the next body.
    pub fn body(&mut self) -> Body {
        self.left = match self.rng.u8(0..100) {
            0..20 => 0,
            20..85 => 1,
            _ => self.rng.usize(2..4),
        };
        self.named = self.one_of(&[0, 0, 0, 0, 100, 100, 20]);
        self.oddities.clear();
        let query = self.query();
        let mut bytes = Vec::new();
        for _ in 0..self.rng.usize(1..4) {
            self.blank_line(&mut bytes);
            self.operation(query, &mut bytes);
        }
        self.blank_line(&mut bytes);
        self.end(&mut bytes);
        if self.odd(60) {
            self.change(&mut bytes);
            self.oddities.push("changed bytes".to_owned());
        }
        Body { bytes, query, oddities: std::mem::take(&mut self.oddities) }
    }

    fn query(&mut self) -> Query {
        Query {
            index: self.percent(80).then_some("books"),
            routing: self.percent(10).then_some("jane"),
            pipeline: self.percent(5).then_some("archive"),
            require_alias: self.percent(5),
        }
    }

    fn operation(&mut self, query: Query, to: &mut Vec<u8>) {
        let action = self.one_of(&ACTIONS);
        let start = to.len();
        self.action_line(action, query, to);
        if self.odd(60) {
            self.spoil("an action line", start, to);
        }
        self.line_end(to);
        if action != "delete" {
            let start = to.len();
            match action {
                "update" => self.update(to),
                _ => self.source(to),
            }
            if self.odd(60) {
                self.spoil(if action == "update" { "an update" } else { "a source" }, start, to);
            }
            self.line_end(to);
        }
    }

    fn action_line(&mut self, action: &str, query: Query, to: &mut Vec<u8>) {
        let mut parameters = self.usual_parameters(action, query);
        if self.odd(6) {
            let name = self.word(&WORDS.parameters);
            let (kind, value) = values::any(&mut self.rng);
            self.name_oddity("action line", name, kind);
            self.put(&mut parameters, name, value);
        }
        let spaces = self.rng.u8(0..10);
        let mut inner = Vec::new();
        self.object(&parameters, spaces, &mut inner);
        self.object(&[(action.to_owned(), inner)], spaces, to);
    }

    fn usual_parameters(&mut self, action: &str, query: Query) -> Fields {
        let mut parameters = Fields::new();
        let mut put = |name: &str, value: String| parameters.push((name.to_owned(), value.into_bytes()));
        let needs_id = matches!(action, "update" | "delete");
        let has_id = needs_id || self.rng.u8(0..100) < 70;
        if query.index.is_none() || self.percent(self.named) {
            put("_index", format!("\"{}\"", self.one_of(&["books", "library", "logs-2026.01.02"])));
        }
        if has_id {
            put("_id", self.one_of(&["\"1\"", "\"a-b_C\"", "\"é🙂\"", "17", "\"\\u00e9\"", "\"a/b\\\"c\""]).to_owned());
        } else if self.percent(20) {
            put("_id", "null".to_owned());
        }
        if self.percent(15) {
            put("routing", self.one_of(&["\"jane\"", "17", "\"a,b\"", "null", "\"é\""]).to_owned());
        }
        if action != "delete" && self.percent(8) {
            put("pipeline", self.one_of(&["\"archive\"", "\"_none\"", "null"]).to_owned());
        }
        if action == "update" && self.percent(30) {
            put("retry_on_conflict", self.rng.u8(0..10).to_string());
        } else if has_id && action != "create" && self.percent(8) {
            put("if_seq_no", self.rng.u8(..).to_string());
            put("if_primary_term", self.rng.u8(1..).to_string());
        } else if has_id && matches!(action, "index" | "delete") && self.percent(8) {
            put("version", self.rng.u32(..).to_string());
            put("version_type", self.one_of(&["\"external\"", "\"external_gt\"", "\"external_gte\""]).to_owned());
        }
        if self.percent(4) {
            put("require_alias", self.rng.bool().to_string());
        }
        if self.percent(2) {
            put("require_data_stream", self.rng.bool().to_string());
        }
        if matches!(action, "index" | "create") && self.percent(2) {
            put("dynamic_templates", self.one_of(&["{}", "{\"a\":\"b\"}"]).to_owned());
        }
        if self.percent(2) {
            put("_type", "\"_doc\"".to_owned());
        }
        self.rng.shuffle(&mut parameters);
        parameters
    }

    fn update(&mut self, to: &mut Vec<u8>) {
        let mut fields: Fields = Vec::new();
        let mut put = |name: &str, value: &str| fields.push((name.to_owned(), value.as_bytes().to_vec()));
        let document = self.one_of(&["{\"a\":1}", "{}", "{\"a\":{\"b\":[1,-2.5e3,null,true,\"é\"]}}"]);
        match self.rng.u8(0..6) {
            0 => {
                put("script", "{\"source\":\"ctx.op='none'\",\"lang\":\"painless\",\"params\":{\"n\":1}}");
                put("upsert", document);
            }
            1 => {
                put("script", "{\"id\":\"count\"}");
                put("scripted_upsert", "true");
                put("upsert", "{}");
            }
            2 => {
                put("doc", document);
                put("upsert", "{\"n\":0}");
            }
            3 => {
                put("doc", document);
                put("doc_as_upsert", self.one_of(&["true", "false"]));
            }
            _ => put("doc", document),
        }
        if self.percent(10) {
            fields.push(("detect_noop".to_owned(), self.rng.bool().to_string().into_bytes()));
        }
        if self.odd(6) {
            let name = self.word(&WORDS.update_fields);
            let (kind, value) = values::any(&mut self.rng);
            self.name_oddity("update body", name, kind);
            self.put(&mut fields, name, value);
        }
        if self.odd(12) {
            let (kind, value) = values::any(&mut self.rng);
            let document = [b"{\"n\":", value.as_slice(), b"}"].concat();
            let name = self.one_of(&["doc", "upsert"]);
            self.oddities.push(format!("update body, within {name}: {kind}"));
            self.put(&mut fields, name, document);
        }
        if self.odd(300) {
            let (character, bytes) = self.one_of(&[("n", 1), ("\u{e9}", 2), ("\u{20ac}", 3)]);
            let length = self.one_of(&[49_998, 50_000, 50_002, 50_004]);
            self.oddities.push("update body, a key of 50,000 bytes".to_owned());
            self.put(&mut fields, "doc", format!("{{\"{}\":1}}", character.repeat(length / bytes)).into_bytes());
        }
        if self.odd(30) {
            let (kind, value) = values::any(&mut self.rng);
            let name = self.one_of(&["source", "id", "lang", "params", "options", "colour"]);
            let script = format!("{{\"source\":\"s\",\"{name}\":").into_bytes();
            self.oddities.push(format!("update body, script, {name}: {kind}"));
            fields.retain(|(name, _)| name != "doc");
            self.put(&mut fields, "script", [script.as_slice(), &value, b"}"].concat());
        }
        let spaces = self.rng.u8(0..10);
        self.object(&fields, spaces, to);
    }

    /// A source, which the coordinating node does not parse.
    fn source(&mut self, to: &mut Vec<u8>) {
        if self.odd(20) {
            self.oddities.push("a source that is no object".to_owned());
            to.extend(self.one_of(&[
                &b""[..],
                b" ",
                b"{",
                b"[]",
                b"\xff\xfe",
                b"\xef\xbb\xbf{}",
                b"{} {}",
                b"\0",
                b"\x0c",
            ]));
        } else {
            to.extend(self.one_of(&[&b"{\"a\":1}"[..], b"{}", "{\"title\":\"é 🙂\"}".as_bytes()]));
        }
    }

    /// Replaces a field, or adds it once more.
    fn put(&mut self, fields: &mut Fields, name: &str, value: Vec<u8>) {
        let known = fields.iter().position(|(known, _)| known == name);
        match known {
            Some(at) if !self.percent(10) => fields[at].1 = value,
            _ => {
                let at = self.rng.usize(0..=fields.len());
                fields.insert(at, (name.to_owned(), value));
            }
        }
    }

    fn name_oddity(&mut self, place: &str, name: &str, kind: &str) {
        self.oddities.push(format!("{place}, {name}: {kind}"));
    }

    fn object(&mut self, fields: &[(String, Vec<u8>)], spaces: u8, to: &mut Vec<u8>) {
        to.push(b'{');
        for (at, (name, value)) in fields.iter().enumerate() {
            if at > 0 {
                to.push(b',');
            }
            self.space(spaces, to);
            self.key(name, to);
            self.space(spaces, to);
            to.push(b':');
            self.space(spaces, to);
            to.extend(value);
            self.space(spaces, to);
        }
        to.push(b'}');
    }

    /// Writes a key, rarely with an escape.
    fn key(&mut self, name: &str, to: &mut Vec<u8>) {
        match name.chars().next() {
            Some(first) if self.odd(200) => {
                self.oddities.push("a key with an escape".to_owned());
                to.extend(format!("\"\\u{:04x}{}\"", u32::from(first), &name[first.len_utf8()..]).into_bytes());
            }
            _ => to.extend(format!("\"{name}\"").into_bytes()),
        }
    }

    /// Writes space between tokens: most clients write none or one, some write more.
    fn space(&mut self, spaces: u8, to: &mut Vec<u8>) {
        if self.odd(400) {
            self.odd_space("between tokens", to);
        }
        match spaces {
            0 => to.extend(self.word(&WORDS.spaces).as_bytes()),
            1 | 2 => to.push(b' '),
            _ => {}
        }
    }

    fn odd_space(&mut self, place: &str, to: &mut Vec<u8>) {
        let space = self.word(&WORDS.odd_spaces);
        self.oddities.push(format!("{} {place}", space.as_bytes().escape_ascii()));
        to.extend(space.as_bytes());
    }

    /// Rarely writes a line between operations that has no operation.
    fn blank_line(&mut self, to: &mut Vec<u8>) {
        if self.percent(4) {
            to.extend(self.one_of(&["", " ", "\t", "\r", "  \t"]).as_bytes());
            to.push(b'\n');
        }
        if self.odd(40) {
            self.odd_space("alone on a line", to);
            to.push(b'\n');
        }
    }

    fn line_end(&mut self, to: &mut Vec<u8>) {
        if self.percent(4) {
            to.extend(self.word(&WORDS.spaces).as_bytes());
        }
        if self.odd(200) {
            self.odd_space("before a line end", to);
        }
        to.push(b'\n');
    }

    /// Makes a line something else.
    fn spoil(&mut self, what: &str, start: usize, to: &mut Vec<u8>) {
        let line = to.split_off(start);
        let (name, line) = match self.rng.u8(0..12) {
            0 => ("in an array", [b"[", line.as_slice(), b"]"].concat()),
            1 => ("twice", line.repeat(2)),
            2 => ("with text after it", [line.as_slice(), b" x"].concat()),
            3 => ("with an object after it", [line.as_slice(), b"{}"].concat()),
            4 => ("without its last brace", line[..line.len().saturating_sub(1)].to_vec()),
            5 => ("with another brace", [line.as_slice(), b"}"].concat()),
            6 => ("with another key", [&line[..line.len().saturating_sub(1)], b",\"x\":1}"].concat()),
            7 => ("empty", Vec::new()),
            8 => ("an empty object", b"{}".to_vec()),
            9 => ("missing its keys", b"{\"index\":null}".to_vec()),
            10 => ("as text", [b"\"", line.as_slice(), b"\""].concat()),
            _ => ("in UTF-16", line.iter().flat_map(|byte| [*byte, 0]).collect()),
        };
        self.oddities.push(format!("{what} {name}"));
        to.extend(line);
    }

    /// Cuts the end of a body off, or adds something.
    fn end(&mut self, to: &mut Vec<u8>) {
        if !self.odd(25) {
            return;
        }
        match self.rng.u8(0..4) {
            0 => {
                self.oddities.push("no newline at the end".to_owned());
                to.pop();
            }
            1 => {
                self.oddities.push("cut".to_owned());
                to.truncate(self.rng.usize(0..to.len()));
            }
            2 => {
                self.oddities.push("space after the last newline".to_owned());
                to.extend(self.word(&WORDS.spaces).as_bytes());
            }
            _ => self.odd_space("after the last newline", to),
        }
    }

    /// Changes, adds or removes some bytes.
    fn change(&mut self, bytes: &mut Vec<u8>) {
        const BYTES: &[u8] = b"\"\\{}[]:,0-9.eE+ \t\r\n\x0c\0\x7f\xc3\xff";
        for _ in 0..self.rng.usize(1..4) {
            let (at, byte) = (self.rng.usize(0..=bytes.len()), self.one_of(BYTES));
            match self.rng.u8(0..3) {
                0 if at < bytes.len() => bytes[at] = byte,
                1 if at < bytes.len() => drop(bytes.remove(at)),
                _ => bytes.insert(at, byte),
            }
        }
    }

    /// Decides whether an oddity comes here. The caller names it.
    fn odd(&mut self, one_in: usize) -> bool {
        let is_odd = self.left > 0 && self.rng.usize(0..one_in) == 0;
        self.left -= usize::from(is_odd);
        is_odd
    }

    fn percent(&mut self, percent: u8) -> bool {
        self.rng.u8(0..100) < percent
    }

    fn word(&mut self, from: &'static [String]) -> &'static str {
        &from[self.rng.usize(0..from.len())]
    }

    fn one_of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.usize(0..from.len())]
    }
}

/// The keys of an object, and the text of their values.
type Fields = Vec<(String, Vec<u8>)>;
