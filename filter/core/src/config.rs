//! The plug-in's configuration: read from JSON, checked, with errors that name the field and what was expected.
//!
//! ```
//! use bulk_reshuffle::config::Config;
//!
//! let config = Config::read(br#"{"coordinator": "es", "hold": {"interval": "20ms"}}"#).unwrap();
//! assert_eq!(config.hold.interval.as_millis(), 20);
//!
//! let error = Config::read(br#"{"coordinator": "es", "hold": {"interval": 20}}"#).unwrap_err();
//! assert_eq!(error.field, "hold.interval");
//! ```

mod harmless_headers;
mod index_settings;
mod missing_id;
mod switches;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::json::{Object, object};
use crate::routing::UpstreamTemplate;
pub use harmless_headers::HarmlessHeaders;
pub use index_settings::{IndexPattern, IndexSettings};
pub use missing_id::MissingId;
pub use switches::Switches;

/// The whole configuration. Every field but `coordinator` has a default.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The Envoy cluster that is asked for the cluster state, and takes what no node's own upstream can be sent.
    #[serde(deserialize_with = "name")]
    pub coordinator: String,
    /// Whether requests are taken in; else all of them pass on whole.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// How nodes map to Envoy clusters.
    #[serde(default, deserialize_with = "object")]
    pub nodes: Nodes,
    /// Headers for the calls that ask for the cluster state, and for nothing else.
    #[serde(default)]
    pub credentials: Credentials,
    /// Request headers that do not keep requests apart, and are left out of batches.
    #[serde(default)]
    pub harmless_headers: HarmlessHeaders,
    /// How the cluster state is kept fresh.
    #[serde(default, deserialize_with = "object")]
    pub cluster_state: ClusterStateConfig,
    /// When what is held leaves.
    #[serde(default, deserialize_with = "object")]
    pub hold: Hold,
    /// How batches are sent.
    #[serde(default, deserialize_with = "object")]
    pub dispatch: Dispatch,
    /// When a batch is sent again.
    #[serde(default, deserialize_with = "object")]
    pub retry: Retry,
    /// What becomes of operations that name no document id.
    #[serde(default)]
    pub missing_id: MissingId,
    /// Settings for some indices; of those whose patterns fit, the first counts that says something.
    #[serde(default)]
    pub indices: Vec<IndexSettings>,
    /// How a request's headers are held back while its body is read.
    #[serde(default)]
    pub header_pause: HeaderPause,
    /// Bounds on what the filter takes in.
    #[serde(default, deserialize_with = "object")]
    pub limits: Limits,
}

/// How a request's headers are held back while its body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeaderPause {
    /// The filter finds out by itself which of the two works.
    #[default]
    Auto,
    /// By the filter, which needs `allow_on_headers_stop_iteration`.
    Stop,
    /// By a buffer filter right behind it.
    Buffer,
}

/// How nodes map to Envoy clusters.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "NodesText")]
pub struct Nodes {
    /// Made from `upstream` (a template) and `upstreams` (exceptions, by node name or id).
    pub template: UpstreamTemplate,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodesText {
    #[serde(default = "default_template")]
    upstream: String,
    #[serde(default)]
    upstreams: BTreeMap<String, String>,
}

fn default_template() -> String {
    "{name}".to_owned()
}

impl TryFrom<NodesText> for Nodes {
    type Error = String;

    fn try_from(text: NodesText) -> Result<Self, String> {
        let template = UpstreamTemplate::new(&text.upstream, text.upstreams)
            .map_err(|error| format!("`upstream` takes {error}"))?;
        Ok(Self { template })
    }
}

impl Default for Nodes {
    fn default() -> Self {
        Self { template: UpstreamTemplate::by_name() }
    }
}

/// Header names and values. They are never shown.
#[derive(Clone, Default)]
pub struct Credentials(BTreeMap<String, String>);

impl Credentials {
    /// The headers.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_map().entries(self.0.keys().map(|name| (name, "***"))).finish()
    }
}

impl<'de> Deserialize<'de> for Credentials {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Errors of the reader would show the value.
        let headers: Option<BTreeMap<String, String>> = match serde_json::Value::deserialize(from)? {
            serde_json::Value::Object(headers) => {
                headers.into_iter().map(|(name, value)| Some((name, value.as_str()?.to_owned()))).collect()
            }
            _ => None,
        };
        let headers = headers.ok_or_else(|| D::Error::custom("expected an object of header names and strings"))?;
        for (name, value) in &headers {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            if name.is_empty() || !name.bytes().all(plain) {
                return Err(D::Error::custom(format!("{name:?} is not a header name")));
            }
            if value.chars().any(char::is_control) {
                return Err(D::Error::custom(format!("the value of {name:?} holds a control character")));
            }
        }
        Ok(Self(headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()))
    }
}

/// How the cluster state is kept fresh.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterStateConfig {
    /// From one look at the cluster's state to the next.
    #[serde(deserialize_with = "duration")]
    pub refresh: Duration,
    /// For each call.
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
}

impl Default for ClusterStateConfig {
    fn default() -> Self {
        Self { refresh: Duration::from_secs(5), timeout: Duration::from_secs(5) }
    }
}

/// When what is held for a node and a caller leaves.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hold {
    /// At the latest after this time, unless `dispatch.max_in_flight` batches are on their way.
    #[serde(deserialize_with = "duration")]
    pub interval: Duration,
    /// As soon as it has this many bytes. A batch takes no further request beyond them.
    #[serde(deserialize_with = "size")]
    pub flush_threshold_size: u64,
    /// As soon as it has this many operations; 0: no such bound.
    pub flush_threshold_docs: u64,
    /// At once when nothing of it is on its way.
    pub early_release: bool,
    /// But when a batch has just come back, not before as many requests have arrived as usually do at such a moment,
    /// or this time is over, or as long as the batch took. Zero: without waiting.
    #[serde(deserialize_with = "duration_or_zero")]
    pub gather: Duration,
}

impl Default for Hold {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(50),
            flush_threshold_size: 1 << 20,
            flush_threshold_docs: 0,
            early_release: true,
            gather: Duration::from_millis(2),
        }
    }
}

/// How batches are sent.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dispatch {
    /// What a batch carries the operations of.
    pub level: Level,
    /// Batches on their way at a time for one node (or shard, see `level`) and one caller.
    #[serde(deserialize_with = "count")]
    pub max_in_flight: usize,
    /// The same over all callers (and shards) of a node; these take turns.
    #[serde(deserialize_with = "count")]
    pub max_in_flight_per_node: usize,
    /// For each call.
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    /// Whether their bodies are compressed with gzip.
    pub compress: bool,
}

impl Default for Dispatch {
    fn default() -> Self {
        Self {
            level: Level::default(),
            max_in_flight: 1,
            max_in_flight_per_node: 16,
            timeout: Duration::from_secs(60),
            compress: false,
        }
    }
}

/// What a batch carries the operations of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// All shards of one node.
    #[default]
    Node,
    /// One shard. Operations whose shard is not known travel as with `Node`.
    Shard,
}

/// When a batch is sent again: one that was refused with 429, or one that was lost with its connection and may be
/// carried out twice. Never after `dispatch.timeout` since it was sent first.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// How often; 0: never.
    pub attempts: u32,
    /// After how long; twice as long each further time.
    #[serde(deserialize_with = "duration")]
    pub backoff: Duration,
    /// After how long at most.
    #[serde(deserialize_with = "duration")]
    pub max_backoff: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 5, backoff: Duration::from_millis(50), max_backoff: Duration::from_secs(2) }
    }
}

impl Retry {
    /// How long to wait before the next attempt, of which so many have been. Up to half of it depends on `spread`,
    /// so that batches that were refused together do not come back together.
    pub fn backoff(&self, retries: u32, spread: u32) -> Duration {
        let doubled = self.backoff.saturating_mul(1_u32.checked_shl(retries).unwrap_or(u32::MAX));
        let half = doubled.min(self.max_backoff) / 2;
        // Fibonacci hashing: neighbours end up far apart.
        let share = f64::from(spread.wrapping_mul(0x9e37_79b9)) / f64::from(u32::MAX);
        half.saturating_add(half.mul_f64(share))
    }
}

/// Bounds on what the filter takes in; what is beyond them passes through, streamed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes of all requests held or in flight, per VM (Envoy has one per worker).
    #[serde(deserialize_with = "size")]
    pub memory: u64,
    /// Bytes of one request's body.
    #[serde(deserialize_with = "size")]
    pub max_request: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 256 << 20, max_request: 100 << 20 }
    }
}

/// The most that one VM can be given: Envoy bounds its memory at 1 GiB, of which small requests take 1.4 times what is
/// counted of them, and batches on their way out need room too.
const MAX_MEMORY: u64 = 640 << 20;

/// What is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("configuration: `{field}`: {problem}")]
pub struct ConfigError {
    /// Path of the field, such as `hold.interval`; `.` for the whole.
    pub field: String,
    /// What was expected there, and what was found.
    pub problem: String,
}

impl Config {
    /// Reads and checks a configuration.
    pub fn read(json: &[u8]) -> Result<Self, ConfigError> {
        let mut from = serde_json::Deserializer::from_slice(json);
        let Object(config): Object<Self> = serde_path_to_error::deserialize(&mut from)
            .map_err(|error| ConfigError { field: error.path().to_string(), problem: error.inner().to_string() })?;
        from.end().map_err(|error| ConfigError { field: ".".to_owned(), problem: error.to_string() })?;
        config.check()?;
        Ok(config)
    }

    /// What becomes of an operation on `index` that names no document id.
    pub fn missing_id(&self, index: &str) -> MissingId {
        self.settings_of(index).find_map(|settings| settings.missing_id).unwrap_or(self.missing_id)
    }

    /// Whether operations on `index` keep their request from being taken in.
    pub fn is_index_disabled(&self, index: &str) -> bool {
        self.settings_of(index).find_map(|settings| settings.enabled) == Some(false)
    }

    fn settings_of(&self, index: &str) -> impl Iterator<Item = &IndexSettings> {
        self.indices.iter().filter(move |settings| settings.pattern.fits(index))
    }

    /// What no single field can tell.
    fn check(&self) -> Result<(), ConfigError> {
        let Limits { memory, max_request } = self.limits;
        let error = |field: &str, problem: String| Err(ConfigError { field: field.to_owned(), problem });
        if memory > MAX_MEMORY {
            return error(
                "limits.memory",
                format!("expected at most 640mb, because Envoy bounds a VM at 1 GiB, found {memory} bytes"),
            );
        }
        if max_request > memory {
            return error(
                "limits.max_request",
                format!("expected at most `limits.memory`, {memory} bytes, found {max_request}"),
            );
        }
        if self.dispatch.max_in_flight > self.dispatch.max_in_flight_per_node {
            return error(
                "dispatch.max_in_flight",
                format!("expected at most `dispatch.max_in_flight_per_node`, {}", self.dispatch.max_in_flight_per_node),
            );
        }
        Ok(())
    }
}

fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    match String::deserialize(from)? {
        name if name.is_empty() => {
            Err(D::Error::custom("expected the name of an Envoy cluster, found an empty string"))
        }
        name => Ok(name),
    }
}

fn yes() -> bool {
    true
}

fn count<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    match u16::deserialize(from)? {
        0 => Err(D::Error::custom("expected a number from 1 to 65535, found 0")),
        count => Ok(usize::from(count)),
    }
}

/// A duration as users write it: "50ms", "5s", "1m 30s".
fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    duration_from(1, "a duration of 1ms to 1h such as \"50ms\" or \"5s\"", from)
}

/// The same, or "0ms".
fn duration_or_zero<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    duration_from(0, "a duration of 0ms to 1h such as \"2ms\" or \"0ms\"", from)
}

fn duration_from<'de, D: Deserializer<'de>>(
    least: u128,
    expected: &'static str,
    from: D,
) -> Result<Duration, D::Error> {
    let text = from.deserialize_str(TextVisitor(expected))?;
    match humantime::parse_duration(&text) {
        Ok(duration) if (least..=3_600_000).contains(&duration.as_millis()) => Ok(duration),
        _ => Err(D::Error::custom(format!("expected {expected}, found {text:?}"))),
    }
}

/// A size as users write it: "1mb", "512kb", "100b". As in Elasticsearch, 1kb is 1,024 bytes.
fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    const EXPECTED: &str = "a size of at least 1b such as \"1mb\" or \"512kb\"";
    let text = from.deserialize_str(TextVisitor(EXPECTED))?;
    match parse_size::Config::new().with_binary().parse_size(&text) {
        Ok(size) if size > 0 => Ok(size),
        _ => Err(D::Error::custom(format!("expected {EXPECTED}, found {text:?}"))),
    }
}

struct TextVisitor(&'static str);

impl Visitor<'_> for TextVisitor {
    type Value = String;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(json: &str) -> (String, String) {
        let error = Config::read(json.as_bytes()).unwrap_err();
        (error.field, error.problem)
    }

    #[test]
    fn only_the_coordinator_must_be_said() {
        let config = Config::read(br#"{"coordinator":"es"}"#).unwrap();
        assert_eq!(config.coordinator, "es");
        assert_eq!(config.hold.interval, Duration::from_millis(50));
        assert_eq!((config.hold.flush_threshold_size, config.limits.memory), (1024 * 1024, 256 * 1024 * 1024));
        assert_eq!((config.dispatch.max_in_flight, config.dispatch.max_in_flight_per_node), (1, 16));
    }

    #[test]
    fn sizes_and_durations_as_users_write_them() {
        let config = Config::read(
            br#"{"coordinator":"es","hold":{"interval":"1m 30s","flush_threshold_size":"1.5kb"},
                "limits":{"memory":"64MB","max_request":"100b"},"cluster_state":{"refresh":"500ms"}}"#,
        )
        .unwrap();
        assert_eq!(config.hold.interval, Duration::from_secs(90));
        assert_eq!(config.hold.flush_threshold_size, 1536);
        assert_eq!((config.limits.memory, config.limits.max_request), (64 * 1024 * 1024, 100));
        assert_eq!(config.cluster_state.refresh, Duration::from_millis(500));
    }

    #[test]
    fn errors_name_the_field_and_what_was_expected() {
        for (json, field, problem) in [
            ("", ".", "EOF while parsing a value"),
            ("[\"es\"]", ".", "expected an object"),
            (r#"{"coordinator":"es","hold":["50ms"]}"#, "hold", "expected an object"),
            ("{}", ".", "missing field `coordinator`"),
            (r#"{"coordinator":""}"#, "coordinator", "the name of an Envoy cluster"),
            (r#"{"coordinator":7}"#, "coordinator", "expected a string"),
            (r#"{"coordinator":"es","holds":{}}"#, "holds", "unknown field `holds`, expected one of"),
            (r#"{"coordinator":"es"} x"#, ".", "trailing characters"),
            (r#"{"coordinator":"es","hold":{"interval":50}}"#, "hold.interval", "expected a duration"),
            (r#"{"coordinator":"es","hold":{"interval":"fast"}}"#, "hold.interval", "found \"fast\""),
            (r#"{"coordinator":"es","hold":{"interval":"0s"}}"#, "hold.interval", "found \"0s\""),
            (r#"{"coordinator":"es","hold":{"interval":"2h"}}"#, "hold.interval", "found \"2h\""),
            (r#"{"coordinator":"es","hold":{"flush_threshold_size":"1xb"}}"#, "hold.flush_threshold_size", "a size"),
            (r#"{"coordinator":"es","hold":{"flush_threshold_size":"0"}}"#, "hold.flush_threshold_size", "a size"),
            (r#"{"coordinator":"es","hold":{"early_release":"yes"}}"#, "hold.early_release", "a boolean"),
            (r#"{"coordinator":"es","dispatch":{"max_in_flight":0}}"#, "dispatch.max_in_flight", "from 1 to 65535"),
            (r#"{"coordinator":"es","dispatch":{"compress":"gzip"}}"#, "dispatch.compress", "a boolean"),
            (r#"{"coordinator":"es","dispatch":{"level":"index"}}"#, "dispatch.level", "expected `node` or `shard`"),
            (
                r#"{"coordinator":"es","header_pause":"maybe"}"#,
                "header_pause",
                "expected one of `auto`, `stop`, `buffer`",
            ),
            (
                r#"{"coordinator":"es","missing_id":"make"}"#,
                "missing_id",
                "expected one of `pass`, `generate`, `direct`",
            ),
            (r#"{"coordinator":"es","indices":{}}"#, "indices", "expected a sequence"),
            (r#"{"coordinator":"es","enabled":"false"}"#, "enabled", "expected a boolean"),
            (r#"{"coordinator":"es","indices":[{"enabled":true}]}"#, "indices[0]", "missing field `pattern`"),
            (r#"{"coordinator":"es","indices":[{"pattern":"a"}]}"#, "indices[0]", "expected `enabled` or `missing_id`"),
            (
                r#"{"coordinator":"es","indices":[{"pattern":"a","enabled":null}]}"#,
                "indices[0].enabled",
                "expected a boolean",
            ),
            (
                r#"{"coordinator":"es","indices":[{"pattern":"a","missing_id":"make"}]}"#,
                "indices[0].missing_id",
                "expected one of `pass`",
            ),
            (
                r#"{"coordinator":"es","indices":[{"pattern":"a","missing_id":"pass"},{"pattern":"B*","missing_id":"pass"}]}"#,
                "indices[1].pattern",
                "expected the name of an index",
            ),
            (
                r#"{"coordinator":"es","indices":[{"pattern":"a,b","missing_id":"pass"}]}"#,
                "indices[0].pattern",
                "found \"a,b\"",
            ),
            (
                r#"{"coordinator":"es","indices":[{"pattern":"a","missing_id":"pass","shards":1}]}"#,
                "indices[0].shards",
                "unknown field",
            ),
            (r#"{"coordinator":"es","retry":{"attempts":-1}}"#, "retry.attempts", "expected u32"),
            (r#"{"coordinator":"es","dispatch":{"max_in_flight":17}}"#, "dispatch.max_in_flight", "at most"),
            (r#"{"coordinator":"es","limits":{"memory":"2gb"}}"#, "limits.memory", "640mb"),
            (r#"{"coordinator":"es","limits":{"memory":"1mb"}}"#, "limits.max_request", "at most `limits.memory`"),
            (r#"{"coordinator":"es","nodes":{"upstream":"es"}}"#, "nodes", "`upstream` takes a name with placeholders"),
            (r#"{"coordinator":"es","nodes":{"upstreams":{"a":1}}}"#, "nodes.upstreams.a", "expected a string"),
            (r#"{"coordinator":"es","credentials":{"a b":"x"}}"#, "credentials", "not a header name"),
            (r#"{"coordinator":"es","credentials":{"a":"x\n"}}"#, "credentials", "control character"),
            (r#"{"coordinator":"es","harmless_headers":"b3"}"#, "harmless_headers", "expected a sequence"),
            (r#"{"coordinator":"es","harmless_headers":[1]}"#, "harmless_headers[0]", "expected a string"),
            (r#"{"coordinator":"es","harmless_headers":["b3",":path"]}"#, "harmless_headers[1]", "pseudo-header"),
            (r#"{"coordinator":"es","harmless_headers":["a b"]}"#, "harmless_headers[0]", "not a header name"),
            (r#"{"coordinator":"es","harmless_headers":[""]}"#, "harmless_headers[0]", "not a header name"),
            (r#"{"coordinator":"es","harmless_headers":["B3"]}"#, "harmless_headers[0]", "not in lower case"),
            (
                r#"{"coordinator":"es","harmless_headers":["host"]}"#,
                "harmless_headers[0]",
                "\"host\" is never harmless",
            ),
        ] {
            let (found_field, found_problem) = error(json);
            assert_eq!(found_field, field, "{json}: {found_problem}");
            assert!(found_problem.contains(problem), "{json}: {found_problem}");
        }
    }

    #[test]
    fn harmless_headers_replace_the_default_ones() {
        let config = |more: &str| Config::read(format!(r#"{{"coordinator":"es"{more}}}"#).as_bytes()).unwrap();
        let default = config("").harmless_headers;
        assert!(default.contains("user-agent") && default.contains("traceparent") && !default.contains("x-opaque-id"));
        let chosen = config(r#","harmless_headers":["x-opaque-id","x_y.z"]"#).harmless_headers;
        assert!(chosen.contains("x-opaque-id") && chosen.contains("x_y.z") && !chosen.contains("user-agent"));
        assert!(!config(r#","harmless_headers":[]"#).harmless_headers.contains("b3"));
    }

    #[test]
    fn the_first_pattern_that_fits_says_what_becomes_of_missing_ids() {
        let config = Config::read(
            br#"{"coordinator":"es","missing_id":"generate","indices":[{"pattern":"logs-a","missing_id":"pass"},
                {"pattern":"logs-*","missing_id":"direct"},{"pattern":"*","missing_id":"pass"}]}"#,
        )
        .unwrap();
        let found = ["logs-a", "logs-b", "books"].map(|index| config.missing_id(index));
        assert_eq!(found, [MissingId::Pass, MissingId::Direct, MissingId::Pass]);
        let global = Config::read(br#"{"coordinator":"es","missing_id":"generate"}"#).unwrap();
        assert_eq!(global.missing_id("books"), MissingId::Generate);
    }

    #[test]
    fn of_each_setting_the_first_pattern_counts_that_fits_and_says_something() {
        let config = Config::read(
            br#"{"coordinator":"es","missing_id":"pass","indices":[{"pattern":"logs-*","enabled":false},
                {"pattern":"logs-a*","enabled":true,"missing_id":"direct"},{"pattern":"*a","missing_id":"generate"},
                {"pattern":"book*","enabled":true},{"pattern":"*","enabled":false}]}"#,
        )
        .unwrap();
        let found =
            ["logs-a", "logs-b", "a", "books"].map(|index| (config.is_index_disabled(index), config.missing_id(index)));
        let expected =
            [(true, MissingId::Direct), (true, MissingId::Pass), (true, MissingId::Generate), (false, MissingId::Pass)];
        assert_eq!(found, expected);
    }

    #[test]
    fn backoff_doubles_up_to_its_bound_and_spreads() {
        let retry = Retry::default();
        for (retries, longest) in [(0, 50), (1, 100), (5, 1600), (6, 2000), (40, 2000)] {
            for spread in 0..100 {
                let backoff = retry.backoff(retries, spread).as_millis();
                assert!((longest / 2..=longest).contains(&backoff), "{retries}: {backoff}");
            }
        }
        let (first, second) = (retry.backoff(3, 1), retry.backoff(3, 2));
        assert!(first.abs_diff(second) > Duration::from_millis(50));
    }

    #[test]
    fn credentials_are_never_shown() {
        let config = Config::read(br#"{"coordinator":"es","credentials":{"Authorization":"ApiKey s3cret"}}"#).unwrap();
        assert_eq!(config.credentials.headers().collect::<Vec<_>>(), [("authorization", "ApiKey s3cret")]);
        let shown = format!("{config:?}");
        assert!(shown.contains("authorization") && !shown.contains("s3cret"), "{shown}");
        for wrong in [r#"{"a":"s3cret\n"}"#, r#"{"a":["s3cret"]}"#, r#""s3cret""#] {
            let (field, problem) = error(&format!(r#"{{"coordinator":"es","credentials":{wrong}}}"#));
            assert_eq!(field, "credentials", "{problem}");
            assert!(!problem.contains("s3cret"), "{problem}");
        }
    }
}
