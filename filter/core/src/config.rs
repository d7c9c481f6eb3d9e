//! The plug-in's configuration, read from JSON and validated. An error names the field and what was expected.
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

mod admin_path;
mod credentials;
mod dispatch;
mod enabled;
mod field;
mod harmless_headers;
mod hold;
mod identity_headers;
mod index_settings;
mod limits;
mod nodes;
mod retry;
mod runtime_settings;
#[cfg(feature = "schema")]
mod schema;
mod template;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::json::{Object, object};
pub use admin_path::AdminPath;
pub use credentials::Credentials;
pub use dispatch::{Compress, Dispatch, Level};
pub use enabled::Enabled;
use field::{DurationText, upstream_name, upstream_names};
pub use harmless_headers::HarmlessHeaders;
pub use hold::Hold;
pub use identity_headers::IdentityHeaders;
pub use index_settings::{IndexPattern, IndexSettings};
pub use limits::Limits;
pub use nodes::{NodeUpstreams, OneCluster};
pub use retry::Retry;
pub use runtime_settings::RuntimeSettings;

/// The whole configuration. Every field except `coordinator` has a default. It serialises to the form in which it is
/// read, except for the values of `credentials`, which are never shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The Envoy cluster that takes what cannot go to a node's own upstream. It also answers queries for the cluster
    /// state, unless `cluster_state.upstream` does.
    #[serde(deserialize_with = "upstream_name")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub coordinator: String,
    /// Further Envoy clusters that lead to the same nodes. The filter takes in a request only if its route leads to one
    /// of these or to `coordinator`.
    #[serde(default, deserialize_with = "upstream_names")]
    #[cfg_attr(feature = "schema", schemars(inner(length(min = 1))))]
    pub route_clusters: Vec<String>,
    /// Whether the filter splits requests, or lets every request pass through unchanged.
    #[serde(default)]
    pub enabled: Enabled,
    /// How batches reach their nodes.
    #[serde(default, deserialize_with = "object")]
    pub nodes: NodeUpstreams,
    /// The headers of the calls that query the cluster state. No other call gets them.
    #[serde(default)]
    pub credentials: Credentials,
    /// The request headers that do not keep requests apart, and that batches leave out.
    #[serde(default)]
    pub harmless_headers: HarmlessHeaders,
    /// How often and how long the filter polls the cluster state.
    #[serde(default, deserialize_with = "object")]
    pub cluster_state: ClusterStateConfig,
    /// When held operations leave.
    #[serde(default, deserialize_with = "object")]
    pub hold: Hold,
    /// How batches are sent.
    #[serde(default, deserialize_with = "object")]
    pub dispatch: Dispatch,
    /// When a batch is retried.
    #[serde(default, deserialize_with = "object")]
    pub retry: Retry,
    /// How operations without a document id are routed.
    #[serde(default)]
    pub missing_id: MissingId,
    /// Whether requests that write a single document join batches.
    #[serde(default)]
    pub single_documents: bool,
    /// Settings for some indices. For each setting, the first matching pattern that has it applies.
    #[serde(default)]
    pub indices: Vec<IndexSettings>,
    /// How the filter holds back a request's headers while it reads the body.
    #[serde(default)]
    pub header_pause: HeaderPause,
    /// Limits on what the filter takes in.
    #[serde(default, deserialize_with = "object")]
    pub limits: Limits,
    /// The path below which the filter serves its admin endpoints. They are off if it is empty.
    #[serde(default)]
    pub admin_path: AdminPath,
    /// Whether the filter sets each request's outcome for the access log.
    #[serde(default)]
    pub access_log: bool,
}

/// How the filter holds back a request's headers while it reads the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum HeaderPause {
    /// The filter detects which of the two works.
    #[default]
    Auto,
    /// The filter stops them itself, which needs `allow_on_headers_stop_iteration`.
    Stop,
    /// A buffer filter right after this one holds them back.
    Buffer,
}

/// How operations without a document id are routed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum MissingId {
    /// The operations go unchanged to any node, which generates the id and forwards the document to its shard.
    Pass,
    /// The filter generates the id.
    #[default]
    Generate,
    /// All such operations of a request for one index get a routing value that leads to one shard, whose node generates
    /// the ids.
    Direct,
}

/// How often and how long the filter polls the cluster state.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ClusterStateConfig {
    /// The Envoy cluster that the queries go to. If it is empty, they go to the coordinator.
    pub upstream: String,
    /// The interval between polls.
    #[serde(with = "DurationText")]
    pub refresh: Duration,
    /// The timeout of each call.
    #[serde(with = "DurationText")]
    pub timeout: Duration,
    /// How long polls may fail, from the time when one was due. After that, requests pass through until one succeeds.
    #[serde(with = "DurationText")]
    pub stale_after: Duration,
}

impl Default for ClusterStateConfig {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { upstream: String::new(), refresh: seconds(5), timeout: seconds(5), stale_after: seconds(60) }
    }
}

/// An error in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("configuration: {}{problem}", place(field))]
pub struct ConfigError {
    /// The path of the field, such as `hold.interval`, or `.` for the whole configuration. It is empty if the text is not
    /// JSON.
    pub field: String,
    /// What was expected, and what was found.
    pub problem: String,
}

impl ConfigError {
    fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }

    /// Creates the error of a text that is not JSON.
    fn syntax(json: &[u8], error: &serde_json::Error) -> Self {
        match json.trim_ascii() {
            b"" => {
                Self::new("", "empty, expected at least `coordinator`, such as {\"coordinator\": \"elasticsearch\"}")
            }
            _ => Self::new("", format!("not valid JSON: {error}")),
        }
    }
}

/// Returns the beginning of a message that names a field, if there is one.
fn place(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("`{field}`: ") }
}

impl Config {
    /// Parses and validates a configuration. The error names the first invalid field, or the line and the column at which
    /// the text is not JSON.
    pub fn read(json: &[u8]) -> Result<Self, ConfigError> {
        let mut from = serde_json::Deserializer::from_slice(json);
        let problem = |error: serde_path_to_error::Error<serde_json::Error>| match error.inner() {
            found if found.is_data() => ConfigError::new(&error.path().to_string(), found.to_string()),
            found => ConfigError::syntax(json, found),
        };
        let Object(config): Object<Self> = serde_path_to_error::deserialize(&mut from).map_err(problem)?;
        from.end().map_err(|error| ConfigError::syntax(json, &error))?;
        config.limits.check()?;
        config.dispatch.check(&config.harmless_headers)?;
        Ok(config)
    }

    /// Returns whether a route to this Envoy cluster leads to the nodes that the filter sends batches to.
    pub fn is_route_here(&self, cluster: &[u8]) -> bool {
        let of_nodes = self.nodes.one_cluster().and_then(|one| one.name.as_ref());
        let here = std::iter::once(&self.coordinator).chain(&self.route_clusters).chain(of_nodes);
        here.into_iter().any(|name| name.as_bytes() == cluster)
    }

    /// Returns the Envoy cluster that answers queries for the cluster state, and the field that names it.
    pub fn polled(&self) -> (&str, &'static str) {
        match self.cluster_state.upstream.as_str() {
            "" => (&self.coordinator, "coordinator"),
            upstream => (upstream, "cluster_state.upstream"),
        }
    }

    /// Returns how operations on `index` without a document id are routed.
    pub fn missing_id(&self, index: &str) -> MissingId {
        self.settings_of(index).find_map(|settings| settings.missing_id).unwrap_or(self.missing_id)
    }

    /// Returns whether requests that write a single document of `index` join batches.
    pub fn single_documents(&self, index: &str) -> bool {
        self.settings_of(index).find_map(|settings| settings.single_documents).unwrap_or(self.single_documents)
    }

    /// Returns whether requests with operations on `index` are split.
    pub fn enabled(&self, index: &str) -> Enabled {
        self.settings_of(index).find_map(|settings| settings.enabled).unwrap_or_default()
    }

    fn settings_of(&self, index: &str) -> impl Iterator<Item = &IndexSettings> {
        self.indices.iter().filter(move |settings| settings.pattern.fits(index))
    }
}
