use anyhow::Result;
use bulk_reshuffle_stack::Distribution;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Returns the releases that `VERSIONS` of the environment names, or all of these.
pub fn chosen_releases(all: &[Distribution]) -> Result<Vec<Distribution>> {
    match std::env::var("VERSIONS").unwrap_or_default().trim() {
        "" => Ok(all.to_vec()),
        names => names.split_whitespace().map(str::parse).collect(),
    }
}

/// Reads a list of releases from their names, for `#[serde(deserialize_with = …)]`.
pub fn named_releases<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Distribution>, D::Error> {
    let names = Vec::<String>::deserialize(from)?;
    names.iter().map(|name| name.parse()).collect::<Result<_>>().map_err(D::Error::custom)
}
