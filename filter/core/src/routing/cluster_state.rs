use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// The part of `GET /_cluster/state/version,nodes,routing_table,metadata` that routing needs.
///
/// Absent parts are empty: with `filter_path` a cluster leaves out whatever is empty.
#[derive(Debug, Deserialize)]
pub struct ClusterState {
    /// Which state it is.
    #[serde(flatten)]
    pub version: Version,
    /// By node id.
    #[serde(default)]
    pub nodes: BTreeMap<String, Node>,
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) routing_table: RoutingTableState,
}

/// Tells one cluster state from another. The number alone does not: it falls when an older state is restored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Version {
    /// Grows with each change.
    pub version: u64,
    /// Another for each state.
    pub state_uuid: String,
    /// Another for each cluster.
    #[serde(default)]
    pub cluster_uuid: String,
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Node {
    /// `node.name`.
    pub name: String,
    /// `node.attr.*`.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Metadata {
    #[serde(default)]
    pub indices: BTreeMap<String, IndexMetadata>,
}

#[derive(Debug, Deserialize)]
pub(super) struct IndexMetadata {
    /// `open` or `close`.
    #[serde(default)]
    pub state: String,
    #[serde(default)]
    pub routing_num_shards: u32,
    #[serde(default)]
    pub aliases: Vec<String>,
    #[serde(default)]
    pub settings: Settings,
    /// By type; there is one, `_doc`, but in indices that Elasticsearch 6 has made.
    #[serde(default)]
    pub mappings: BTreeMap<String, Mapping>,
    /// Elasticsearch: a resharding is under way.
    pub resharding: Option<Value>,
    /// OpenSearch: shards are or were split in place.
    pub split_shards_metadata: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Mapping {
    #[serde(default, rename = "_routing")]
    pub routing: RoutingField,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct RoutingField {
    #[serde(default)]
    pub required: bool,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Settings {
    #[serde(default)]
    pub index: IndexSettings,
}

/// Settings come as strings, whatever they mean.
#[derive(Debug, Default, Deserialize)]
pub(super) struct IndexSettings {
    pub number_of_shards: Option<String>,
    pub version: Option<CreatedVersion>,
    pub routing_partition_size: Option<String>,
    pub default_pipeline: Option<String>,
    pub final_pipeline: Option<String>,
    pub mode: Option<String>,
    pub routing_path: Option<Value>,
    pub dimensions: Option<Value>,
    pub number_of_virtual_shards: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CreatedVersion {
    pub created: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct RoutingTableState {
    #[serde(default)]
    pub indices: BTreeMap<String, ShardTable>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ShardTable {
    /// The copies of each shard, by its number.
    #[serde(default)]
    pub shards: BTreeMap<String, Vec<ShardCopy>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ShardCopy {
    pub primary: bool,
    /// `STARTED`, `RELOCATING`, `INITIALIZING` or `UNASSIGNED`.
    pub state: String,
    pub node: Option<String>,
}

impl ClusterState {
    /// Where to ask for a full state; of the mappings only what routing needs travels.
    pub const PATH: &str = concat!(
        "/_cluster/state/version,nodes,routing_table,metadata?filter_path=",
        "version,state_uuid,cluster_uuid,nodes.*.name,nodes.*.attributes,",
        "metadata.indices.*.state,metadata.indices.*.routing_num_shards,metadata.indices.*.aliases,",
        "metadata.indices.*.resharding,metadata.indices.*.split_shards_metadata,",
        "metadata.indices.*.settings.index.number_of_shards,",
        "metadata.indices.*.settings.index.version.created,",
        "metadata.indices.*.settings.index.routing_partition_size,",
        "metadata.indices.*.settings.index.default_pipeline,",
        "metadata.indices.*.settings.index.final_pipeline,",
        "metadata.indices.*.settings.index.mode,",
        "metadata.indices.*.settings.index.routing_path,",
        "metadata.indices.*.settings.index.dimensions,",
        "metadata.indices.*.settings.index.number_of_virtual_shards,",
        "metadata.indices.*.mappings.*._routing.required,",
        "routing_table.indices.*.shards.*.primary,routing_table.indices.*.shards.*.node,",
        "routing_table.indices.*.shards.*.state",
    );

    /// Reads a cluster's answer.
    pub fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }

    /// Whether any index has an alias, whose details have to be asked for.
    pub fn has_aliases(&self) -> bool {
        self.metadata.indices.values().any(|index| !index.aliases.is_empty())
    }
}

impl Version {
    /// Where to ask for the version alone: about 100 bytes.
    pub const PATH: &str = "/_cluster/state/version?filter_path=version,state_uuid,cluster_uuid";

    /// Reads a cluster's answer.
    pub fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }
}
