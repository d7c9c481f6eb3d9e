use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;

use crate::json::{CursorError, JsonCursor, Text};
use crate::node::{Node, runs_pipelines};
use crate::routing::table::{Buckets, Unrouted, Version, identity};

/// The overview of the cluster: the part of its state that shows which other parts have changed.
///
/// Absent parts are empty: with `filter_path` a cluster omits all empty parts.
#[derive(Debug, Default)]
pub(crate) struct Overview {
    version: Option<u64>,
    state_uuid: String,
    cluster_uuid: String,
    /// The nodes by id.
    pub nodes: BTreeMap<String, Node>,
    /// The number of indices.
    pub indices: usize,
    /// The indices whose current version the table does not have, by bucket.
    pub changed: BTreeMap<u8, Vec<String>>,
    /// The aliases, each with its indices.
    pub aliases: BTreeMap<String, Vec<String>>,
    /// The sum of a hash over the indices with aliases. It differs if any alias may have changed.
    pub alias_signature: u64,
    /// The write index of each data stream, or why it has none.
    pub data_streams: BTreeMap<String, Result<String, Unrouted>>,
    /// The aliases of data streams, each with the data stream that it writes to.
    pub data_stream_aliases: BTreeMap<String, Option<String>>,
}

#[derive(Debug, Deserialize)]
struct IndexOverview<'a> {
    version: Option<u64>,
    #[serde(default, borrow)]
    aliases: Vec<Text<'a>>,
    #[serde(default, borrow)]
    settings: Settings<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Settings<'a> {
    #[serde(default, borrow)]
    index: IndexSettings<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct IndexSettings<'a> {
    #[serde(borrow)]
    uuid: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
struct NodeOverview {
    name: String,
    #[serde(default)]
    ephemeral_id: String,
    version: Option<String>,
    roles: Option<Vec<String>>,
    #[serde(default)]
    attributes: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct DataStream {
    #[serde(default)]
    indices: Vec<BackingIndex>,
    /// The next operation creates a new index.
    #[serde(default)]
    rollover_on_write: bool,
}

#[derive(Debug, Deserialize)]
struct BackingIndex {
    index_name: String,
}

#[derive(Debug, Deserialize)]
struct DataStreamAlias {
    #[serde(default)]
    write_data_stream: Option<String>,
}

impl Overview {
    /// The path of the query. The node that gets it answers from its own copy of the state, and leaves the elected master
    /// alone.
    pub const PATH: &str = concat!(
        "/_cluster/state/version,nodes,metadata?local=true&filter_path=",
        "version,state_uuid,cluster_uuid,nodes.*.name,nodes.*.ephemeral_id,nodes.*.version,nodes.*.roles,",
        "nodes.*.attributes,",
        "metadata.indices.*.version,metadata.indices.*.aliases,metadata.indices.*.settings.index.uuid,",
        "metadata.data_stream.data_stream.*.indices.index_name,",
        "metadata.data_stream.data_stream.*.rollover_on_write,",
        "metadata.data_stream.data_stream_aliases.*.write_data_stream",
    );

    /// Returns the version of the state once it is read completely, or `None` if the answer does not contain it.
    pub fn version(&self) -> Option<Version> {
        let (state_uuid, cluster_uuid) = (self.state_uuid.clone(), self.cluster_uuid.clone());
        self.version.filter(|_| !state_uuid.is_empty()).map(|version| Version { version, state_uuid, cluster_uuid })
    }

    /// Reads about `bytes` more bytes. Returns whether the answer is complete. Indices that `known` has in their
    /// current version are marked as seen in this `cycle`. Of the others only those that are `wanted` are recorded.
    pub fn read(
        &mut self,
        cursor: &mut JsonCursor,
        bytes: usize,
        (known, cycle): (&Buckets, u32),
        wanted: impl Fn(&str, usize) -> bool,
    ) -> Result<bool, CursorError> {
        cursor.each_key(bytes, |cursor, key| {
            if cursor.is_in(&["metadata", "indices"]) {
                self.read_index(key, cursor.value()?, (known, cycle), &wanted);
            } else if cursor.is_in(&["nodes"]) {
                let NodeOverview { name, ephemeral_id, version, roles, attributes } = cursor.value()?;
                let runs_pipelines = roles.map(|roles| runs_pipelines(&roles));
                let id = key.clone();
                let node =
                    Node { id, ephemeral_id, name, version, runs_pipelines, attributes, http: None, present: true };
                self.nodes.insert(key, node);
            } else if cursor.is_in(&["metadata", "data_stream", "data_stream"]) {
                let DataStream { indices, rollover_on_write } = cursor.value()?;
                let last = indices.into_iter().next_back().map(|index| index.index_name);
                let target = last.filter(|_| !rollover_on_write).ok_or(Unrouted::Rollover);
                self.data_streams.insert(key, target);
            } else if cursor.is_in(&["metadata", "data_stream", "data_stream_aliases"]) {
                self.data_stream_aliases.insert(key, cursor.value::<DataStreamAlias>()?.write_data_stream);
            } else {
                self.read_rest(cursor, &key)?;
            }
            Ok(())
        })
    }

    fn read_rest(&mut self, cursor: &mut JsonCursor, key: &str) -> Result<(), CursorError> {
        let outermost = cursor.is_in(&[]);
        let below = cursor.is_in(&["metadata"]) || cursor.is_in(&["metadata", "data_stream"]);
        match key {
            "version" if outermost => self.version = Some(cursor.value()?),
            "state_uuid" if outermost => self.state_uuid = cursor.value()?,
            "cluster_uuid" if outermost => self.cluster_uuid = cursor.value()?,
            "nodes" | "metadata" if outermost => cursor.enter()?,
            "indices" | "data_stream" | "data_stream_aliases" if below => cursor.enter()?,
            _ => cursor.skip()?,
        }
        Ok(())
    }

    fn read_index(
        &mut self,
        name: String,
        index: IndexOverview<'_>,
        (known, cycle): (&Buckets, u32),
        wanted: impl Fn(&str, usize) -> bool,
    ) {
        self.indices = self.indices.saturating_add(1);
        let now = index.settings.index.uuid.and_then(|Text(uuid)| identity(&uuid, index.version?));
        for Text(alias) in index.aliases {
            let mut member = DefaultHasher::new();
            (&name, &alias, now).hash(&mut member);
            // The sum does not depend on the order of the indices.
            self.alias_signature = self.alias_signature.wrapping_add(member.finish());
            match self.aliases.get_mut(alias.as_ref()) {
                Some(members) => members.push(name.clone()),
                None => _ = self.aliases.insert(alias.into_owned(), vec![name.clone()]),
            }
        }
        let entry = known.index(&name);
        if let Some(entry) = entry {
            entry.seen.set(cycle);
        }
        let is_known = now.is_some() && entry.is_some_and(|entry| entry.identity == now);
        if !is_known && (entry.is_some() || wanted(&name, self.indices)) {
            self.changed.entry(Buckets::number(&name)).or_default().push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::routing::table::{Entry, Index};

    fn read(text: &Value, known: &Buckets, step: usize) -> Overview {
        let (mut overview, mut cursor) = (Overview::default(), JsonCursor::new(text.to_string().into_bytes()).unwrap());
        while !overview.read(&mut cursor, step, (known, 7), |name, _| name != "unwanted").unwrap() {}
        overview
    }

    fn index(uuid: &str, version: u64, aliases: &[&str]) -> Value {
        json!({"version": version, "aliases": aliases, "settings": {"index": {"uuid": uuid}}})
    }

    fn state(indices: Value) -> Value {
        json!({
            "cluster_uuid": "c", "version": 9, "state_uuid": "s",
            "nodes": {"n": {"name": "es-0", "attributes": {"zone": "a"}}},
            "metadata": {"indices": indices, "data_stream": {
                "data_stream": {
                    "logs": {"indices": [{"index_name": ".ds-logs-1"}, {"index_name": ".ds-logs-2"}]},
                    "lazy": {"indices": [{"index_name": ".ds-lazy-1"}], "rollover_on_write": true},
                    "none": {},
                },
                "data_stream_aliases": {"all": {"write_data_stream": "logs"}, "read": {}},
            }},
        })
    }

    fn known(name: &str, uuid: &str, version: u64) -> Buckets {
        let mut buckets = Buckets::default();
        let mut index = Index::new(name, None, None);
        index.identity = identity(uuid, version);
        buckets.change(Buckets::number(name), |names| {
            names.insert(name.into(), Entry::Index(index));
        });
        buckets
    }

    #[test]
    fn reports_the_content_of_a_cluster() {
        let overview =
            read(&state(json!({"a": index("u", 1, &["x", "y"]), "b": index("v", 2, &["x"])})), &Buckets::default(), 40);
        let version = overview.version().unwrap();
        assert_eq!((version.version, version.state_uuid.as_str(), version.cluster_uuid.as_str()), (9, "s", "c"));
        assert_eq!((overview.nodes["n"].name.as_str(), overview.indices), ("es-0", 2));
        assert_eq!(overview.aliases["x"], ["a", "b"]);
        assert_eq!(overview.aliases["y"], ["a"]);
        assert_eq!(overview.data_streams["logs"], Ok(".ds-logs-2".to_owned()));
        assert_eq!(overview.data_streams["lazy"], Err(Unrouted::Rollover));
        assert_eq!(overview.data_streams["none"], Err(Unrouted::Rollover));
        assert_eq!(overview.data_stream_aliases["all"].as_deref(), Some("logs"));
        assert_eq!(overview.data_stream_aliases["read"], None);
    }

    /// A field has its meaning only at its own place.
    #[test]
    fn fields_with_the_same_names_at_other_places_are_skipped() {
        let mut state = state(json!({"a": index("u", 1, &[])}));
        for name in ["indices", "data_stream", "data_stream_aliases"] {
            state[name] = json!(7);
        }
        for name in ["version", "state_uuid", "cluster_uuid", "nodes", "metadata"] {
            state["metadata"][name] = json!([name]);
        }
        let overview = read(&state, &Buckets::default(), 1000);
        let version = overview.version().unwrap();
        assert_eq!((version.version, version.state_uuid.as_str(), version.cluster_uuid.as_str()), (9, "s", "c"));
        assert_eq!((overview.nodes.len(), overview.indices, overview.data_streams.len()), (1, 1, 3));
    }

    #[test]
    fn records_indices_that_differ_from_the_table() {
        let known = known("a", "u", 1);
        let changed = |indices: Value| -> Vec<String> {
            read(&state(indices), &known, 1000).changed.into_values().flatten().collect()
        };
        assert_eq!(changed(json!({"a": index("u", 1, &[])})), [""; 0]);
        assert_eq!(known.index("a").unwrap().seen.get(), 7);
        assert_eq!(changed(json!({"a": index("u", 2, &[])})), ["a"]);
        assert_eq!(changed(json!({"a": index("w", 1, &[])})), ["a"]);
        assert_eq!(changed(json!({"a": {}})), ["a"]);
        assert_eq!(changed(json!({"b": index("u", 1, &[]), "unwanted": index("u", 1, &[])})), ["b"]);
    }

    #[test]
    fn the_alias_signature_changes_with_any_alias() {
        let signature = |indices: Value| read(&state(indices), &Buckets::default(), 1000).alias_signature;
        let one = signature(json!({"a": index("u", 1, &["x"]), "b": index("v", 1, &["x"]), "c": index("w", 1, &[])}));
        let same = signature(json!({"a": index("u", 1, &["x"]), "b": index("v", 1, &["x"]), "c": index("w", 2, &[])}));
        assert_eq!(one, same);
        for other in [
            json!({"a": index("u", 2, &["x"]), "b": index("v", 1, &["x"])}),
            json!({"a": index("u", 1, &["x"]), "b": index("v", 1, &["y"])}),
            json!({"a": index("u", 1, &["x"])}),
        ] {
            assert_ne!(signature(other), one);
        }
        // Versions often differ by one. Such changes must not cancel out.
        for version in 1..100 {
            let before = signature(json!({"a": index("u", version, &["x"]), "b": index("v", 1, &["y"])}));
            let swapped = signature(json!({"a": index("u", version + 1, &["y"]), "b": index("v", 2, &["x"])}));
            assert_ne!(before, swapped, "{version}");
        }
    }

    #[test]
    fn rejects_an_answer_that_is_not_a_state() {
        for text in
            [r#"{"metadata":7}"#, r#"{"metadata":{"indices":{"a":7}}}"#, r#"{"nodes":{"n":{}}}"#, "{\"version\":"]
        {
            let (mut overview, mut cursor) = (Overview::default(), JsonCursor::new(text.as_bytes().to_vec()).unwrap());
            let read = overview.read(&mut cursor, usize::MAX, (&Buckets::default(), 1), |_, _| true);
            assert!(read.is_err(), "{text}");
        }
        assert_eq!(Overview::default().version(), None);
    }
}
