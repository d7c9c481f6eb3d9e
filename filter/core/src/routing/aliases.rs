use std::collections::BTreeMap;

use serde::Deserialize;

/// The answer to `GET /_alias`: what the cluster state leaves out of aliases.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Aliases {
    /// By index.
    indices: BTreeMap<String, IndexAliases>,
}

#[derive(Debug, Deserialize)]
struct IndexAliases {
    #[serde(default)]
    aliases: BTreeMap<String, AliasDetails>,
}

#[derive(Debug, Deserialize)]
struct AliasDetails {
    is_write_index: Option<bool>,
    index_routing: Option<String>,
}

/// Where writing to an alias goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WriteTarget<'a> {
    pub index: &'a str,
    /// The routing value that the alias adds.
    pub routing: Option<&'a str>,
}

impl Aliases {
    /// Where to ask.
    pub const PATH: &str = "/_alias";

    /// Reads a cluster's answer.
    pub fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }

    /// Each alias with the index that it writes to: the one marked `is_write_index`, or else its only one. `None`
    /// where there is no such index; the cluster refuses to write then.
    pub(super) fn write_targets(&self) -> BTreeMap<&str, Option<WriteTarget<'_>>> {
        let mut by_alias: BTreeMap<&str, Vec<(&str, &AliasDetails)>> = BTreeMap::new();
        for (index, aliases) in &self.indices {
            for (alias, details) in &aliases.aliases {
                by_alias.entry(alias).or_default().push((index, details));
            }
        }
        by_alias.into_iter().map(|(alias, members)| (alias, write_target(&members))).collect()
    }
}

fn write_target<'a>(members: &[(&'a str, &'a AliasDetails)]) -> Option<WriteTarget<'a>> {
    let mut marked = members.iter().filter(|(_, details)| details.is_write_index == Some(true));
    let (index, details) = match (marked.next(), marked.next(), members) {
        (Some(write), None, _) => write,
        (None, None, [only]) if only.1.is_write_index.is_none() => only,
        _ => return None,
    };
    Some(WriteTarget { index, routing: details.index_routing.as_deref() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_write_index_or_the_only_one() {
        let aliases = Aliases::read(
            br#"{
                "a": {"aliases": {"only": {"filter": {"term": {"x": 1}}}, "many": {}, "not": {"is_write_index": false}}},
                "b": {"aliases": {"many": {}, "chosen": {}, "twice": {"is_write_index": true}}},
                "c": {"aliases": {"chosen": {"is_write_index": true, "index_routing": "r", "search_routing": "s"},
                                  "twice": {"is_write_index": true}}},
                "d": {"aliases": {}}
            }"#,
        )
        .unwrap();
        let targets = aliases.write_targets();
        assert_eq!(targets["only"], Some(WriteTarget { index: "a", routing: None }));
        assert_eq!(targets["chosen"], Some(WriteTarget { index: "c", routing: Some("r") }));
        assert_eq!((&targets["many"], &targets["not"], &targets["twice"]), (&None, &None, &None));
    }
}
