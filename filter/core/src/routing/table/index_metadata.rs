use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::hash::hash;

/// The properties of an index in the cluster state that routing may depend on, except where its shards are.
///
/// An unlisted field or setting about routing, shards or pipelines makes the index unreadable, so that no unknown
/// setting goes unnoticed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IndexMetadata {
    /// A counter that increases with each change of the metadata, and whenever a shard fails, starts or is promoted.
    pub version: Option<u64>,
    /// The state: `open` or `close`.
    #[serde(default)]
    pub state: String,
    #[serde(default)]
    pub routing_num_shards: u32,
    #[serde(default)]
    pub settings: Settings,
    /// The mappings by type. There is one, `_doc`, except in indices that Elasticsearch 6 created.
    #[serde(default)]
    pub mappings: BTreeMap<String, Mapping>,
    /// Elasticsearch: the resharding in progress.
    #[serde(alias = "reshard")]
    pub resharding: Option<Value>,
    /// OpenSearch 3: the shards that were split in place.
    pub split_shards_metadata: Option<SplitShards>,
    /// Elasticsearch: the fields that models fill in.
    pub field_inference: Option<IgnoredAny>,
    #[serde(rename = "aliases")]
    _aliases: Option<IgnoredAny>,
    #[serde(rename = "shard_size_forecast", alias = "shard_size_in_bytes_forecast")]
    _forecast: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SplitShards {
    num_of_root_shards: u32,
    max_shard_id: u32,
    active_shard_ids: Vec<u32>,
    #[serde(default)]
    root_shards_to_all_children: BTreeMap<String, IgnoredAny>,
    #[serde(default)]
    parent_to_child_shards: BTreeMap<String, IgnoredAny>,
}

impl SplitShards {
    /// Returns whether none of the `shards` shards was split or is being split.
    pub fn is_none_split(&self, shards: u32) -> bool {
        let numbers = self.num_of_root_shards == shards && self.max_shard_id.checked_add(1) == Some(shards);
        let children = !self.root_shards_to_all_children.is_empty() || !self.parent_to_child_shards.is_empty();
        numbers && !children && self.active_shard_ids.iter().copied().eq(0..shards)
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Mapping {
    #[serde(default, rename = "_routing")]
    pub routing: RoutingField,
    #[serde(default, rename = "_meta")]
    pub meta: Meta,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct RoutingField {
    #[serde(default)]
    pub required: bool,
}

/// The custom metadata in the mapping of an index.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Meta {
    pub bulk_reshuffle: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Settings {
    #[serde(default)]
    pub index: IndexSettings,
}

/// The settings of an index. All values are strings.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IndexSettings {
    pub uuid: Option<String>,
    pub version: Option<CreatedVersion>,
    pub number_of_shards: Option<String>,
    pub number_of_virtual_shards: Option<String>,
    pub routing_partition_size: Option<String>,
    pub routing_path: Option<Value>,
    pub dimensions: Option<Value>,
    pub mode: Option<String>,
    pub default_pipeline: Option<String>,
    pub final_pipeline: Option<String>,
    #[serde(default)]
    pub blocks: BTreeMap<String, Option<String>>,
    #[serde(default)]
    pub append_only: AppendOnly,
    /// OpenSearch: another format than Lucene's. Such an index is append-only, unless its settings say otherwise.
    pub pluggable: Option<IgnoredAny>,
    /// Elasticsearch 9: documents have no sequence numbers.
    pub disable_sequence_numbers: Option<String>,
    #[serde(default)]
    pub write: Write,
    #[serde(rename = "number_of_routing_shards")]
    _routing_shards: Option<IgnoredAny>,
    /// The allocation of shards, which the routing table shows.
    #[serde(rename = "routing")]
    _allocation: Option<IgnoredAny>,
    /// The checks at start.
    #[serde(rename = "shard")]
    _shard: Option<IgnoredAny>,
    #[serde(rename = "shard_limit_group")]
    _limit: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CreatedVersion {
    pub created: Option<String>,
}

/// The settings of writing to an index.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Write {
    /// The number of copies of a shard that must be active before a write, or `all`.
    pub wait_for_active_shards: Option<String>,
}

/// OpenSearch: an append-only index accepts only documents whose id the cluster generates.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct AppendOnly {
    pub enabled: Option<String>,
}

impl IndexMetadata {
    /// The patterns for `filter_path`, under `metadata.indices.*`, that select these fields. They also match fields
    /// that later versions may add.
    pub const FIELDS: &[&str] = &[
        "version",
        "state",
        "*rout*",
        "*shard*",
        "field_inference",
        "settings.index.uuid",
        "settings.index.version.created",
        "settings.index.*rout*",
        "settings.index.*shard*",
        "settings.index.*pipeline*",
        "settings.index.mode",
        "settings.index.dimensions",
        "settings.index.blocks",
        "settings.index.append_only",
        "settings.index.pluggable",
        "settings.index.disable_sequence_numbers",
        "settings.index.write.wait_for_active_shards",
        "mappings.*._routing.required",
        "mappings.*._meta.bulk_reshuffle",
    ];

    /// Returns whether the index may accept only documents whose id the cluster generates.
    pub fn may_be_append_only(&self) -> bool {
        let IndexSettings { append_only, pluggable, .. } = &self.settings.index;
        append_only.enabled.as_deref().map_or(pluggable.is_some(), |enabled| enabled != "false")
    }

    /// Returns whether the cluster carries out the update of a single document in another way than one in a bulk request.
    pub fn has_other_updates(&self) -> bool {
        let disabled = self.settings.index.disable_sequence_numbers.as_deref();
        self.field_inference.is_some() || disabled.is_some_and(|disabled| disabled != "false")
    }

    /// Returns whether the cluster waits for more copies of a shard than the primary before it writes.
    pub fn waits(&self) -> bool {
        let copies = self.settings.index.write.wait_for_active_shards.as_deref();
        copies.is_some_and(|copies| copies != "0" && copies != "1")
    }

    /// Returns the identity of the index: see [`identity`].
    pub fn identity(&self) -> Option<u64> {
        identity(self.settings.index.uuid.as_deref()?, self.version?)
    }
}

/// Returns a number that changes whenever an index is replaced or changed.
pub(crate) fn identity(uuid: &str, version: u64) -> Option<u64> {
    let version = u32::try_from(version).ok()?;
    Some(u64::from(hash(uuid)) << 32 | u64::from(version))
}
