use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::field::{DurationText, count};
use super::{ConfigError, HarmlessHeaders, IdentityHeaders};

/// How batches are sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Dispatch {
    /// The scope of a batch: a node or a shard.
    pub level: Level,
    /// The maximum number of batches in flight for one node (or shard, see `level`) and one caller.
    #[serde(deserialize_with = "count")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 65_535)))]
    pub max_in_flight: usize,
    /// The maximum number of slots of a node, shared by all its callers (and shards). A node has fewer at the start and
    /// after it was overloaded. Free slots go to identities in round-robin order. A batch that has waited
    /// `hold.interval` for a slot leaves without one, unless its own identity has as many batches in flight as there are
    /// slots.
    #[serde(deserialize_with = "count")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 65_535)))]
    pub max_in_flight_per_node: usize,
    /// The headers that identify the requests which share one identity's slots.
    pub identity: IdentityHeaders,
    /// The timeout of each call.
    #[serde(with = "DurationText")]
    pub timeout: Duration,
    /// Which batches are compressed with gzip.
    pub compress: Compress,
}

impl Default for Dispatch {
    fn default() -> Self {
        Self {
            level: Level::default(),
            max_in_flight: 1,
            max_in_flight_per_node: 16,
            identity: IdentityHeaders::default(),
            timeout: Duration::from_secs(60),
            compress: Compress::default(),
        }
    }
}

impl Dispatch {
    /// Checks the constraints that involve several fields.
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

/// The scope of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A batch carries operations for all shards of one node.
    #[default]
    Node,
    /// A batch carries operations for one shard. Operations with an unknown shard travel as with `node`.
    Shard,
}

/// Which batches are compressed: `true`, `false` or `"other_zones"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compress {
    /// All.
    Always,
    /// None.
    Never,
    /// Those for nodes that are known to be in another zone than this Envoy. Clouds charge for bytes between zones.
    #[default]
    OtherZones,
}

/// The text for [`Compress::OtherZones`].
const OTHER_ZONES: &str = "other_zones";

impl Serialize for Compress {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Always => to.serialize_bool(true),
            Self::Never => to.serialize_bool(false),
            Self::OtherZones => to.serialize_str(OTHER_ZONES),
        }
    }
}

impl<'de> Deserialize<'de> for Compress {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(CompressVisitor)
    }
}

struct CompressVisitor;

impl Visitor<'_> for CompressVisitor {
    type Value = Compress;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "a boolean or {OTHER_ZONES:?}")
    }

    fn visit_bool<E: Error>(self, compress: bool) -> Result<Compress, E> {
        Ok(if compress { Compress::Always } else { Compress::Never })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Compress, E> {
        if text == OTHER_ZONES { Ok(Compress::OtherZones) } else { Err(E::invalid_value(Unexpected::Str(text), &self)) }
    }
}
