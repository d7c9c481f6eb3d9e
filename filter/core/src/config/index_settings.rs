use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};

use super::{Enabled, MissingId};
use crate::json::present;
use crate::wildcard;

/// Settings for some indices. An absent setting leaves the default in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(!try_from, deny_unknown_fields, extend("minProperties" = 2)))]
#[serde(try_from = "Text")]
pub struct IndexSettings {
    /// The pattern that the names of the indices match.
    pub pattern: IndexPattern,
    /// Whether requests with operations for these indices are split.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(default, with = "Enabled"))]
    pub enabled: Option<Enabled>,
    /// How operations on these indices without a document id are routed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(default, with = "MissingId"))]
    pub missing_id: Option<MissingId>,
    /// Whether requests that write a single document of these indices join batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(default, with = "bool"))]
    pub single_documents: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    pattern: IndexPattern,
    #[serde(default, deserialize_with = "present")]
    enabled: Option<Enabled>,
    #[serde(default, deserialize_with = "present")]
    missing_id: Option<MissingId>,
    #[serde(default, deserialize_with = "present")]
    single_documents: Option<bool>,
}

impl TryFrom<Text> for IndexSettings {
    type Error = &'static str;

    fn try_from(Text { pattern, enabled, missing_id, single_documents }: Text) -> Result<Self, Self::Error> {
        match (enabled, missing_id, single_documents) {
            (None, None, None) => Err("expected `enabled`, `missing_id` or `single_documents` beside `pattern`"),
            _ => Ok(Self { pattern, enabled, missing_id, single_documents }),
        }
    }
}

/// The name of an index or alias, in which `*` matches any characters, or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IndexPattern(String);

impl IndexPattern {
    /// Returns whether a name matches.
    pub fn fits(&self, name: &str) -> bool {
        wildcard::fits(&self.0, name)
    }
}

impl<'de> Deserialize<'de> for IndexPattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let pattern = String::deserialize(from)?;
        // Characters that an index name cannot contain.
        let odd = |char: char| char.is_uppercase() || char.is_control() || " \"\\/,|<>?#:".contains(char);
        if pattern.is_empty() || pattern.contains(odd) {
            let expected = "expected the name of an index, in which `*` stands for any characters or none";
            return Err(D::Error::custom(format!("{expected}, found {pattern:?}")));
        }
        Ok(Self(pattern))
    }
}
