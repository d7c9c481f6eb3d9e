use serde::Deserialize;
use serde::de::{Deserializer, Error};

use crate::wildcard;

/// What becomes of operations that name no document id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingId {
    /// They go to any node as they are: it makes the id, and forwards the document to the shard of that.
    Pass,
    /// The filter makes the id.
    #[default]
    Generate,
    /// All of a request's for one index get a routing value that leads to one shard, whose node makes the ids.
    Direct,
}

/// Settings for some indices.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexSettings {
    /// Which: those whose names fit.
    pub pattern: IndexPattern,
    /// What becomes of their operations that name no document id.
    pub missing_id: MissingId,
}

/// The name of an index or alias, in which `*` stands for any characters or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexPattern(String);

impl IndexPattern {
    /// Whether a name fits.
    pub fn fits(&self, name: &str) -> bool {
        wildcard::fits(&self.0, name)
    }
}

impl<'de> Deserialize<'de> for IndexPattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let pattern = String::deserialize(from)?;
        // What no index is called.
        let odd = |char: char| char.is_uppercase() || char.is_control() || " \"\\/,|<>?#:".contains(char);
        if pattern.is_empty() || pattern.contains(odd) {
            let expected = "expected the name of an index, in which `*` stands for any characters or none";
            return Err(D::Error::custom(format!("{expected}, found {pattern:?}")));
        }
        Ok(Self(pattern))
    }
}
