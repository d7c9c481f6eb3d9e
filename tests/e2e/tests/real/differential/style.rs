use fastrand::Rng;

use super::chance::Chance;
use super::operation::{Manner, Naming};
use super::target::{TARGETS, Target};
use super::template::TWIN;

/// All parts of a request except its body. Requests of the same style may share a batch.
#[derive(Debug, Clone)]
pub struct Style {
    pub method: &'static str,
    pub path: String,
    /// The target that the path names.
    pub default: Option<Target>,
    pub query: Vec<String>,
    pub headers: Vec<(&'static str, String)>,
}

/// Parameters that the filter understands.
const USUAL: &[&str] = &[
    "refresh=true",
    "refresh",
    "refresh=false",
    "refresh=wait_for",
    "timeout=1m",
    "wait_for_active_shards=1",
    "wait_for_active_shards=all",
    "routing=jane",
    "human",
    "human=true",
    "error_trace=false",
    "error_trace=true",
    "format=json",
    "pretty=false",
];

/// Timeouts that are shorter than some operations take.
const HASTY: &[&str] = &["timeout=50ms", "timeout=50ms", "timeout=150ms", "timeout=400ms"];

/// Other parameters, and values that a cluster refuses.
const SPECIAL: &[&str] = &[
    "refresh=banana",
    "timeout=banana",
    "timeout=50ms&wait_for_active_shards=3",
    "timeout=50ms&wait_for_active_shards=2",
    "wait_for_active_shards=banana",
    "wait_for_active_shards=-7",
    "routing=",
    "routing=a,b",
    "routing=j%61ne",
    "routing=john&routing=jane",
    "pipeline=twin-nothing",
    "pipeline=nowhere",
    "pipeline=_none",
    "require_alias",
    "require_alias=true",
    "require_alias=false",
    "require_alias=banana",
    "require_data_stream=true",
    "require_data_stream=false",
    "include_source_on_error=false",
    "list_executed_pipelines=true",
    "include_source_on_error=banana",
    "_source=true",
    "_source=n",
    "_source_includes=n,owner",
    "_source_excludes=n",
    "batch_size=2",
    "batch_size=banana",
    "type=_doc",
    "unknown=1",
    "op_type=create",
    "if_seq_no=1",
    "source=%7B%7D&source_content_type=application/json",
    "pretty",
    "pretty=true",
    "format=yaml",
    "format=cbor",
    "format=smile",
    "format=banana",
    "human=false",
    "filter_path=errors&filter_path=took",
    "",
    "=",
    "&&",
];

impl Style {
    /// Returns a random style, which clients of a round may share.
    pub fn random(rng: &mut Rng, manner: Manner, naming: Naming) -> Self {
        let mut style = Self::path(rng, manner, naming);
        let content_type = rng.one_of(&[
            "application/x-ndjson",
            // Single documents share batches only with bulk requests of this type.
            "application/json",
            "application/json",
            "application/json; charset=UTF-8",
            "Application/X-NDJSON;charset=utf-8",
        ]);
        style.headers.push(("content-type", content_type.into()));
        while rng.percent(30) {
            style.query.push(rng.one_of(USUAL).into());
        }
        if style.default.is_some_and(|target| target.waits) || rng.percent(8) {
            style.query.push(rng.one_of(HASTY).into());
        }
        if rng.percent(25) {
            style.query.push(format!("filter_path={}", filter_path(rng, manner)));
        }
        if rng.percent(10) {
            style.headers.push(("accept", rng.one_of(&["*/*", "application/json", "application/json, */*"]).into()));
        }
        // A cluster returns this header.
        if rng.percent(12) {
            style.headers.push(("x-opaque-id", rng.one_of(&["one", "two", "é"]).into()));
        }
        if rng.percent(5) {
            style.headers.push(("accept-encoding", "gzip".into()));
        }
        if manner != Manner::Usual {
            style.make_unusual(rng);
        }
        if style.is_hasty() {
            // The last of two values counts, and a timeout of a minute would not be hasty.
            style.query.retain(|parameter| parameter != "timeout=1m");
        }
        rng.shuffle(&mut style.query);
        style
    }

    pub fn path_and_query(&self) -> String {
        match self.query.is_empty() {
            true => self.path.clone(),
            false => format!("{}?{}", self.path, self.query.join("&")),
        }
    }

    /// Returns whether the timeout is shorter than some operations take.
    pub fn is_hasty(&self) -> bool {
        self.query.iter().any(|parameter| parameter.starts_with("timeout=") && parameter.contains("ms"))
    }

    fn path(rng: &mut Rng, manner: Manner, naming: Naming) -> Self {
        let method = if rng.percent(10) { "PUT" } else { "POST" };
        let slash = if rng.percent(5) { "/" } else { "" };
        let shared = |target: &&Target| (target.routed || manner != Manner::Usual) && target.name != "new-S";
        let targets: Vec<Target> = TARGETS.iter().filter(shared).copied().collect();
        let in_path = if naming == Naming::PathOnly { 90 } else { 40 };
        let default = rng.percent(in_path).then(|| rng.one_of(&targets));
        let path = match default {
            Some(Target { name, .. }) => format!("/{TWIN}-{name}/_bulk{slash}"),
            None => format!("/_bulk{slash}"),
        };
        Self { method, path, default, query: Vec::new(), headers: Vec::new() }
    }

    /// Changes the style to one that the filter most likely does not understand.
    fn make_unusual(&mut self, rng: &mut Rng) {
        match rng.usize(0..9) {
            0..5 => self.query.push(rng.one_of(SPECIAL).into()),
            5 => {
                let content_type = rng.one_of(&[
                    "application/vnd.elasticsearch+json; compatible-with=8",
                    "application/vnd.elasticsearch+x-ndjson;compatible-with=7",
                    "application/json; charset=utf-16",
                    "application/cbor",
                    "application/yaml",
                    "text/plain",
                    "banana",
                    "",
                ]);
                self.headers.retain(|(name, _)| *name != "content-type");
                if !content_type.is_empty() {
                    self.headers.push(("content-type", content_type.into()));
                }
            }
            6 => {
                let accept = rng.one_of(&[
                    "application/vnd.elasticsearch+json; compatible-with=8",
                    "application/vnd.elasticsearch+json;compatible-with=9",
                    "application/yaml",
                    "application/cbor",
                    "application/smile",
                    "text/html, application/json;q=0.9",
                    "text/plain",
                    "banana",
                ]);
                self.headers.retain(|(name, _)| *name != "accept");
                self.headers.push(("accept", accept.into()));
            }
            7 => {
                (self.path, self.default) = match rng.usize(0..6) {
                    0 => ("/~twin~-pl%61in/_bulk".to_owned(), Some(TARGETS[0])),
                    1 => ("/~twin~-plain/_doc/_bulk".to_owned(), None),
                    2 => ("/~twin~-plain,~twin~-single/_bulk".to_owned(), None),
                    3 => ("/~twin~-pl*/_bulk".to_owned(), None),
                    4 => ("//_bulk".to_owned(), None),
                    _ => ("/_bulk/stream".to_owned(), None),
                };
            }
            _ => self.method = rng.one_of(&["GET", "DELETE", "POST"]),
        }
    }
}

/// Returns a `filter_path` of one to four patterns.
fn filter_path(rng: &mut Rng, manner: Manner) -> String {
    const FAMILIAR: &[&str] = &[
        "errors,items.*.error,items.*.status",
        "errors,items.*.error.type,items.*.error.reason",
        "took,errors,items.*.status",
        "errors",
        "",
        "**",
    ];
    const NAMES: &[&str] = &[
        "took",
        "errors",
        "items",
        "items",
        "items",
        "*",
        "*",
        "*",
        "**",
        "index",
        "create",
        "update",
        "delete",
        "_id",
        "_index",
        "status",
        "error",
        "error",
        "type",
        "reason",
        "caused_by",
        "_shards",
        "total",
        "_version",
        "result",
        "it*",
        "*s",
        "*r*",
        "s*t*s",
        "get",
        "_source",
        "n",
        "_*",
        "0",
        "stat?s",
    ];
    if rng.percent(40) {
        return rng.one_of(FAMILIAR).into();
    }
    let pattern = |rng: &mut Rng| {
        let names: Vec<&str> = (0..rng.usize(1..5)).map(|_| rng.one_of(NAMES)).collect();
        let excluded = rng.percent(25) && (manner != Manner::Usual || names.len() <= 3 && !names.contains(&"**"));
        format!("{}{}", if excluded { "-" } else { "" }, names.join("."))
    };
    let mut patterns: Vec<String> = (0..rng.usize(1..5)).map(|_| pattern(rng)).collect();
    if manner != Manner::Usual && rng.percent(20) {
        patterns.push(
            rng.one_of(&["errors.", ".x", "items..status", "it**s", "%5Cerrors", "-", "%20took", "--took"]).into(),
        );
    }
    patterns.join(rng.one_of(&[",", ",", "%2C", ",,"]))
}
