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

mod admin_path;
mod cluster_state;
mod credentials;
mod dispatch;
mod error;
mod field;
mod harmless_headers;
mod header_pause;
mod hold;
mod identity_headers;
mod index_settings;
mod limits;
mod missing_id;
mod nodes;
mod retry;
mod switches;
#[cfg(test)]
mod tests;
mod upstream_template;

use serde::{Deserialize, Serialize};

use crate::json::{Object, object};
pub use admin_path::AdminPath;
pub use cluster_state::ClusterStateConfig;
pub use credentials::Credentials;
pub use dispatch::{Dispatch, Level};
pub use error::ConfigError;
use field::{upstream_name, upstream_names};
pub use harmless_headers::HarmlessHeaders;
pub use header_pause::HeaderPause;
pub use hold::Hold;
pub use identity_headers::IdentityHeaders;
pub use index_settings::{IndexPattern, IndexSettings};
pub use limits::Limits;
pub use missing_id::MissingId;
pub use nodes::Nodes;
pub use retry::Retry;
pub use switches::Switches;
pub use upstream_template::{TemplateError, UpstreamTemplate};

/// The whole configuration. Every field but `coordinator` has a default. It is written as it is read, but for the values
/// of `credentials`, which are never shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The Envoy cluster that is asked for the cluster state, and takes what no node's own upstream can be sent.
    #[serde(deserialize_with = "upstream_name")]
    pub coordinator: String,
    /// Further Envoy clusters that lead to the same nodes: a request is taken in only if its route leads to one of
    /// these or to `coordinator`.
    #[serde(default, deserialize_with = "upstream_names")]
    pub route_clusters: Vec<String>,
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
    /// How operations without a document id are routed.
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
    /// Below which path the filter tells about itself; empty: nowhere.
    #[serde(default)]
    pub admin_path: AdminPath,
    /// Whether the outcome of each request is set for the access log.
    #[serde(default)]
    pub access_log: bool,
}

impl Config {
    /// Reads and checks a configuration.
    pub fn read(json: &[u8]) -> Result<Self, ConfigError> {
        let mut from = serde_json::Deserializer::from_slice(json);
        let Object(config): Object<Self> = serde_path_to_error::deserialize(&mut from)
            .map_err(|error| ConfigError::new(&error.path().to_string(), error.inner().to_string()))?;
        from.end().map_err(|error| ConfigError::new(".", error.to_string()))?;
        config.limits.check()?;
        config.dispatch.check(&config.harmless_headers)?;
        Ok(config)
    }

    /// Whether a route to this Envoy cluster leads to the nodes that the filter sends batches to.
    pub fn is_route_here(&self, cluster: &[u8]) -> bool {
        let here = std::iter::once(&self.coordinator).chain(&self.route_clusters);
        here.into_iter().any(|name| name.as_bytes() == cluster)
    }

    /// How operations on `index` without a document id are routed.
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
}

fn yes() -> bool {
    true
}
