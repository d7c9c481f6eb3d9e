use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::field::{count, duration, show_duration};
use super::{ConfigError, HarmlessHeaders, IdentityHeaders};

/// How batches are sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dispatch {
    /// What a batch carries the operations of.
    pub level: Level,
    /// Batches on their way at a time for one node (or shard, see `level`) and one caller.
    #[serde(deserialize_with = "count")]
    pub max_in_flight: usize,
    /// The slots of a node: the same over all callers (and shards) of it. Identities take turns for a free slot. A
    /// batch that has waited for one for `hold.interval` leaves without, unless its own identity has as many in flight.
    #[serde(deserialize_with = "count")]
    pub max_in_flight_per_node: usize,
    /// Headers that tell which requests share the slots of one identity.
    pub identity: IdentityHeaders,
    /// For each call.
    #[serde(deserialize_with = "duration", serialize_with = "show_duration")]
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
            identity: IdentityHeaders::default(),
            timeout: Duration::from_secs(60),
            compress: false,
        }
    }
}

impl Dispatch {
    /// What no single field can tell.
    pub(super) fn check(&self, harmless: &HarmlessHeaders) -> Result<(), ConfigError> {
        let most = self.max_in_flight_per_node;
        if self.max_in_flight > most {
            let problem = format!("expected at most `dispatch.max_in_flight_per_node`, {most}");
            return Err(ConfigError::new("dispatch.max_in_flight", problem));
        }
        if let Some(name) = self.identity.find_harmless(harmless) {
            let problem = format!("expected headers that are not in `harmless_headers`, found {name:?}");
            return Err(ConfigError::new("dispatch.identity", problem));
        }
        Ok(())
    }
}

/// What a batch carries the operations of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// All shards of one node.
    #[default]
    Node,
    /// One shard. Operations whose shard is not known travel as with `Node`.
    Shard,
}
