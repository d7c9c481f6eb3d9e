use hashbrown::HashMap;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

use crate::json::{CursorError, JsonCursor};
use crate::node::Nodes;
use crate::routing::table::{Index, IndexMetadata, Primaries, ShardTable, Version};

/// The part of the cluster state that routing to some indices needs.
#[derive(Debug, Default)]
pub(crate) struct Details {
    /// The metadata by name, or `None` if it is not as expected.
    metadata: HashMap<String, Option<IndexMetadata>>,
    primaries: HashMap<String, Primaries>,
    /// The number of the state's version.
    version: u64,
    cluster_uuid: String,
}

/// The longest path of a query, in bytes. By default a cluster accepts 4 kB in the first line of a request.
pub(crate) const LONGEST_PATH: usize = 3900;

/// The characters to encode: all that are not literal everywhere in a URL. Names contain many hyphens and dots, and
/// shorter names need fewer queries.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a name for use in a path.
pub(crate) fn encoded(name: &str) -> PercentEncode<'_> {
    utf8_percent_encode(name, ENCODED)
}

impl Details {
    /// Returns the path of the query for details of these indices. A node answers it as an
    /// [`Overview`](super::overview::Overview).
    pub fn path<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
        let mut path = "/_cluster/state/version,metadata,routing_table/".to_owned();
        for name in names {
            path.extend(encoded(name));
            path.push(',');
        }
        path.pop();
        path.push_str("?local=true&filter_path=version,cluster_uuid,");
        for field in IndexMetadata::FIELDS {
            path.push_str("metadata.indices.*.");
            path.push_str(field);
            path.push(',');
        }
        for field in ["primary", "node", "state"] {
            path.push_str("routing_table.indices.*.shards.*.");
            path.push_str(field);
            path.push(',');
        }
        path.pop();
        path
    }

    /// Reads about `bytes` more bytes of a cluster's answer. Returns whether the answer is complete.
    pub fn read(&mut self, cursor: &mut JsonCursor, bytes: usize, nodes: &Nodes) -> Result<bool, CursorError> {
        cursor.each_key(bytes, |cursor, key| {
            if cursor.is_in(&["metadata", "indices"]) {
                let metadata = cursor.value_if_fits()?;
                self.metadata.insert(key, metadata);
            } else if cursor.is_in(&["routing_table", "indices"]) {
                let primaries = cursor.value::<ShardTable<'_>>()?.primaries(nodes);
                self.primaries.insert(key, primaries);
            } else {
                match key.as_str() {
                    "version" if cursor.is_in(&[]) => self.version = cursor.value()?,
                    "cluster_uuid" if cursor.is_in(&[]) => self.cluster_uuid = cursor.value()?,
                    "metadata" | "routing_table" if cursor.is_in(&[]) => cursor.enter()?,
                    "indices" => cursor.enter()?,
                    _ => cursor.skip()?,
                }
            }
            Ok(())
        })
    }

    /// Returns whether these are details of a state, or of a later one of the same cluster.
    pub fn are_of(&self, state: &Version) -> bool {
        self.version >= state.version && self.cluster_uuid == state.cluster_uuid
    }

    /// Returns the index of this name, or `None` if the cluster does not have it.
    pub fn index(&self, name: &str) -> Option<Index> {
        let metadata = self.metadata.get(name)?;
        Some(Index::new(name, metadata.as_ref(), self.primaries.get(name)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::node::Node;
    use crate::routing::table::Unrouted;

    #[test]
    fn encodes_names() {
        let path = Details::path([".a-b_1", "ü+1,x"]);
        assert!(
            path.starts_with(
                "/_cluster/state/version,metadata,routing_table/.a-b_1,%C3%BC%2B1%2Cx?local=true&filter_path=version,"
            ),
            "{path}"
        );
        assert!(path.ends_with(".state") && path.len() < LONGEST_PATH / 2, "{path}");
    }

    #[test]
    fn reads_the_queried_details_in_steps() {
        let metadata = json!({
            "version": 1, "state": "open", "routing_num_shards": 8,
            "settings": {"index": {"uuid": "u", "number_of_shards": "1", "version": {"created": "136408127"}}},
        });
        let started = json!({"shards": {"0": [{"primary": true, "state": "STARTED", "node": "n"}]}});
        let text = json!({
            "cluster_name": "c",
            "metadata": {"indices": {"a": metadata, "odd": {"state": 7}, "lost": metadata}},
            "routing_table": {"indices": {"a": started, "odd": started}},
        });
        let mut nodes = Nodes::default();
        nodes.update(BTreeMap::from([("n".to_owned(), Node { id: "n".into(), ..Node::default() })])).unwrap();
        let (mut details, mut cursor) = (Details::default(), JsonCursor::new(text.to_string().into_bytes()).unwrap());
        let mut steps = 1;
        while !details.read(&mut cursor, 1, &nodes).unwrap() {
            steps += 1;
        }
        assert!(steps > 5);
        assert_eq!(details.index("a").unwrap().nodes().collect::<Vec<_>>(), [0]);
        assert_eq!(details.index("odd").unwrap().unrouted(), Some(Unrouted::UnknownSettings));
        assert_eq!(details.index("lost").unwrap().unrouted(), Some(Unrouted::Primary));
        assert!(details.index("none").is_none());
    }
}
