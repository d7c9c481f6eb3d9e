use hashbrown::HashMap;
use serde::Deserialize;

use crate::json::{CursorError, JsonCursor};

/// The part of aliases that the cluster state leaves out: the answer to `GET /_alias`, limited to the fields that
/// matter for writing. Aliases without any of them are left out.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    /// The details by index, then by alias.
    indices: HashMap<String, HashMap<String, AliasDetails>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct AliasDetails {
    pub is_write_index: Option<bool>,
    pub index_routing: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct IndexAliases {
    #[serde(default)]
    aliases: HashMap<String, AliasDetails>,
}

impl Aliases {
    /// The path of the query.
    pub const PATH: &str = "/_alias?filter_path=*.aliases.*.is_write_index,*.aliases.*.index_routing";

    /// Reads about `bytes` more bytes of a cluster's answer. Returns whether the answer is complete.
    pub fn read(&mut self, cursor: &mut JsonCursor, bytes: usize) -> Result<bool, CursorError> {
        cursor.each_key(bytes, |cursor, index| {
            let IndexAliases { aliases } = cursor.value()?;
            self.indices.insert(index, aliases);
            Ok(())
        })
    }

    /// Returns the index that an alias of these writes to, and the routing value that it adds: the index marked
    /// `is_write_index`, or else the only one. Returns `None` if there is no such index. The cluster then refuses to
    /// write.
    pub fn write_target<'a>(&self, alias: &str, members: &'a [String]) -> Option<(&'a str, AliasDetails)> {
        let details = |index: &String| self.indices.get(index).and_then(|aliases| aliases.get(alias)).cloned();
        let members: Vec<_> = members.iter().map(|index| (index, details(index).unwrap_or_default())).collect();
        let mut marked = members.iter().filter(|(_, details)| details.is_write_index == Some(true));
        let (index, details) = match (marked.next(), marked.next(), members.as_slice()) {
            (Some(write), None, _) => write,
            (None, None, [only]) if only.1.is_write_index.is_none() => only,
            _ => return None,
        };
        Some((index, details.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_write_index_or_the_only_index() {
        let text = br#"{
            "a": {"aliases": {"not": {"is_write_index": false}}},
            "b": {"aliases": {"twice": {"is_write_index": true}}},
            "c": {"aliases": {"chosen": {"is_write_index": true, "index_routing": "r", "search_routing": "s"},
                              "twice": {"is_write_index": true}}}
        }"#;
        let mut aliases = Aliases::default();
        assert!(aliases.read(&mut JsonCursor::new(text.to_vec()).unwrap(), usize::MAX).unwrap());
        let target = |alias, members: &[&str]| {
            let members: Vec<String> = members.iter().map(|index| (*index).to_owned()).collect();
            let found = aliases.write_target(alias, &members);
            found.map(|(index, details)| (index.to_owned(), details.index_routing))
        };
        assert_eq!(target("only", &["a"]), Some(("a".to_owned(), None)));
        assert_eq!(target("chosen", &["b", "c"]), Some(("c".to_owned(), Some("r".to_owned()))));
        assert_eq!(
            (target("many", &["a", "b"]), target("not", &["a"]), target("twice", &["b", "c"])),
            (None, None, None)
        );
    }

    #[test]
    fn reads_a_long_answer_in_steps() {
        let text = br#"{"a":{"aliases":{"x":{"is_write_index":true}}},"b":{"aliases":{"x":{"is_write_index":false}}}}"#;
        let (mut aliases, mut cursor) = (Aliases::default(), JsonCursor::new(text.to_vec()).unwrap());
        assert!(!aliases.read(&mut cursor, 1).unwrap());
        assert_eq!(aliases.indices.len(), 1);
        assert!(aliases.read(&mut cursor, usize::MAX).unwrap());
        assert_eq!(aliases.indices.len(), 2);
    }
}
