use std::borrow::Cow;
use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::bulk::FilterPath;
use crate::routing::table::IndexMetadata;

/// A complete cluster state that answers the queries of a [`StateCache`](crate::routing::StateCache): the whole answer
/// to `GET _cluster/state`, or an [`Export`](super::Export).
///
/// A cluster's state does not contain the write index of an alias, the HTTP addresses of nodes, or the filter's
/// run-time settings. The answers to these queries may be included under `answers`, by path.
#[derive(Debug, Serialize, Deserialize)]
pub struct Snapshot {
    #[serde(default)]
    version: u64,
    #[serde(default = "unnamed")]
    state_uuid: String,
    #[serde(default)]
    cluster_uuid: String,
    nodes: Box<RawValue>,
    metadata: Metadata,
    routing_table: RoutingState,
    #[serde(default)]
    answers: BTreeMap<String, Box<RawValue>>,
}

type Indices = BTreeMap<String, Box<RawValue>>;

#[derive(Debug, Serialize, Deserialize)]
struct Metadata {
    #[serde(default)]
    indices: Indices,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_stream: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ingest: Option<Box<RawValue>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct RoutingState {
    #[serde(default)]
    indices: Indices,
}

/// The part of a state that describes some indices.
#[derive(Serialize)]
struct Details<'a> {
    version: u64,
    cluster_uuid: &'a str,
    metadata: Named<'a>,
    routing_table: Named<'a>,
}

#[derive(Serialize)]
struct Named<'a> {
    indices: BTreeMap<&'a str, &'a RawValue>,
}

/// The error for a text that is not a cluster's state.
#[derive(Debug, thiserror::Error)]
#[error("expected the answer to `GET _cluster/state`, with `nodes`, `metadata` and `routing_table`: {0}")]
pub struct SnapshotError(#[from] serde_json::Error);

fn unnamed() -> String {
    "unnamed".to_owned()
}

impl Snapshot {
    /// Parses the answer of a cluster, filtered or not. Fails if it is not a cluster's state.
    pub fn read(json: &[u8]) -> Result<Self, SnapshotError> {
        let mut snapshot: Self = serde_json::from_slice(json)?;
        let fields = IndexMetadata::FIELDS.iter().copied().chain(["aliases"]).collect::<Vec<_>>().join(",");
        let fields = FilterPath::parse(&fields).unwrap_or_default();
        for metadata in snapshot.metadata.indices.values_mut() {
            // The metadata is filtered as the cluster would filter it.
            let filtered = fields.apply(metadata.get().as_bytes()).and_then(|text| String::from_utf8(text).ok());
            if let Some(filtered) = filtered.and_then(|text| RawValue::from_string(text).ok()) {
                *metadata = filtered;
            }
        }
        Ok(snapshot)
    }

    /// Returns the answer to a `GET` with a path of a [`StateQuery`](crate::routing::StateQuery).
    pub fn answer(&self, path: &str) -> Vec<u8> {
        let path = path.split('?').next().unwrap_or_default();
        let answer = match path.strip_prefix("/_cluster/state/version,metadata,routing_table/") {
            Some(names) => serde_json::to_vec(&self.details(names)),
            None if path.starts_with("/_cluster/state") => serde_json::to_vec(self),
            None => return self.answers.get(path).map_or("{}", |answer| answer.get()).as_bytes().to_vec(),
        };
        // All of the answer can be serialised.
        answer.unwrap_or_default()
    }

    fn details(&self, names: &str) -> Details<'_> {
        let names: Vec<_> = names.split(',').map(|name| percent_decode_str(name).decode_utf8_lossy()).collect();
        Details {
            version: self.version,
            cluster_uuid: &self.cluster_uuid,
            metadata: Named::of(&self.metadata.indices, &names),
            routing_table: Named::of(&self.routing_table.indices, &names),
        }
    }
}

impl<'a> Named<'a> {
    fn of(indices: &'a Indices, names: &[Cow<'_, str>]) -> Self {
        let found = names.iter().filter_map(|name| indices.get_key_value(name.as_ref()));
        Self { indices: found.map(|(name, text)| (name.as_str(), text.as_ref())).collect() }
    }
}
