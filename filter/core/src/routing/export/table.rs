use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::node::Node;
use crate::routing::pipelines::{Harmless, Pipelines};
use crate::routing::table::{
    Formula, Index, IndexPipelines, NameKind, RoutingTable, Shards, Target, Unrouted, Version,
};
use crate::wildcard;

/// A routing table in the format of a cluster's state, with the answers to further queries included. A
/// [`Snapshot`](super::Snapshot) of it produces a table that routes the same way.
///
/// Properties of an index that the table does not keep are replaced by examples: a creating version with the same
/// formula, and a setting that makes the index unrouted for the same reason.
#[derive(Debug, Serialize)]
pub struct Export<'a> {
    #[serde(flatten)]
    version: Option<&'a Version>,
    nodes: BTreeMap<&'a str, NodeState<'a>>,
    metadata: Value,
    routing_table: RoutingState<'a>,
    answers: Map<String, Value>,
    /// The number of further indices that match the pattern.
    indices_left_out: usize,
}

#[derive(Debug, Serialize)]
struct NodeState<'a> {
    name: &'a str,
    ephemeral_id: &'a str,
    version: Option<&'a str>,
    roles: Option<&'a [&'static str]>,
    attributes: &'a BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct RoutingState<'a> {
    indices: BTreeMap<&'a str, ShardList<'a>>,
}

#[derive(Debug, Serialize)]
struct ShardList<'a> {
    shards: BTreeMap<usize, [ShardCopy<'a>; 1]>,
}

#[derive(Debug, Serialize)]
struct ShardCopy<'a> {
    primary: bool,
    state: &'static str,
    node: Option<&'a str>,
}

/// The name of a node that the cluster does not report.
const ELSEWHERE: &str = "elsewhere";

/// The names that are exported.
struct Names<'a> {
    indices: BTreeMap<&'a str, &'a Index>,
    targets: BTreeMap<&'a str, &'a Target>,
    left_out: usize,
}

impl RoutingTable {
    /// Exports the first `most` indices, in the order of their names, that match this pattern or that a matching name
    /// leads to, with all the names that lead to them.
    pub fn export<'a>(
        &'a self,
        pattern: &str,
        most: usize,
        version: Option<&'a Version>,
        settings: Option<&RawValue>,
    ) -> Export<'a> {
        let names = Names::of(self, pattern, most);
        let nodes = self.nodes().map(|(node, _)| node);
        let state = |node: &'a Node| {
            let Node { name, ephemeral_id, version, attributes, .. } = node;
            let roles = node.runs_pipelines.map(|runs| if runs { &["ingest"][..] } else { &[] });
            (node.id.as_str(), NodeState { name, ephemeral_id, version: version.as_deref(), roles, attributes })
        };
        Export {
            version,
            nodes: nodes.clone().map(state).collect(),
            metadata: names.metadata(self.pipelines()),
            routing_table: RoutingState {
                indices: names.indices.iter().map(|(name, index)| (*name, self.shards(index))).collect(),
            },
            answers: [
                ("/_cluster/settings".to_owned(), settings.map_or_else(|| json!({}), |settings| json!(settings))),
                ("/_alias".to_owned(), names.aliases()),
                ("/_nodes/http".to_owned(), json!({"nodes": nodes.filter_map(address).collect::<Map<_, _>>()})),
            ]
            .into_iter()
            .collect(),
            indices_left_out: names.left_out,
        }
    }

    fn shards(&self, index: &Index) -> ShardList<'_> {
        let copy = |number: Option<u16>| {
            let node = number.map(|number| self.node(number));
            match node {
                Some(Some(node)) if node.present => ("STARTED", Some(node.id.as_str())),
                Some(None) => ("STARTED", Some(ELSEWHERE)),
                _ => ("UNASSIGNED", None),
            }
        };
        let copies = index.primaries().iter().map(|primary| copy(primary.node()));
        let shards = copies.map(|(state, node)| [ShardCopy { primary: true, state, node }]).enumerate();
        ShardList { shards: shards.collect() }
    }
}

fn address(node: &Node) -> Option<(String, Value)> {
    let http = node.http.as_ref()?;
    let ip = if http.ip.contains(':') { format!("[{}]", http.ip) } else { http.ip.clone() };
    let address = format!("{}/{ip}:{}", http.host, http.port);
    Some((node.id.clone(), json!({"http": {"publish_address": address}})))
}

impl<'a> Names<'a> {
    fn of(table: &'a RoutingTable, pattern: &str, most: usize) -> Self {
        let fits = |name: &str| wildcard::fits(pattern, name);
        let behind = table.buckets.targets().filter(|(name, _)| fits(name));
        let behind: BTreeSet<&str> = behind.filter_map(|(_, target)| target.index.as_deref().ok()).collect();
        let wanted = table.buckets.indices().filter(|(name, _)| fits(name) || behind.contains(name));
        let mut indices: BTreeMap<&str, &Index> = wanted.collect();
        let left_out = indices.len().saturating_sub(most);
        if let Some(first) = indices.keys().nth(most).copied() {
            indices.split_off(first);
        }
        let is_there = |(name, target): &(&str, &Target)| match &target.index {
            Ok(index) => indices.contains_key(index.as_ref()),
            Err(_) => fits(name),
        };
        Self { targets: table.buckets.targets().filter(is_there).collect(), indices, left_out }
    }

    fn of_kind(&self, kind: NameKind) -> impl Iterator<Item = (&'a str, &'a Target)> {
        self.targets.iter().map(|(name, target)| (*name, *target)).filter(move |(_, target)| target.kind == kind)
    }

    fn metadata(&self, pipelines: Option<&Pipelines>) -> Value {
        let mut aliases: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (index, alias, _) in self.members() {
            aliases.entry(index).or_default().push(alias);
        }
        let index = |(name, index): (&&str, &&Index)| {
            let mut metadata = index.metadata(name);
            metadata.insert("aliases".to_owned(), json!(aliases.get(name).map_or(&[][..], Vec::as_slice)));
            ((*name).to_owned(), Value::Object(metadata))
        };
        let stream = |(name, target): (&str, &Target)| {
            let told = match &target.index {
                Ok(index) => json!({"indices": [{"index_name": index}]}),
                Err(_) => json!({"rollover_on_write": true}),
            };
            (name.to_owned(), told)
        };
        let stream_alias = |(name, target): (&str, &Target)| {
            let is_written = |(_, stream): &(&str, &Target)| stream.index == target.index;
            let written = self.of_kind(NameKind::DataStream).find(is_written).map(|(name, _)| name);
            (name.to_owned(), json!({"write_data_stream": written}))
        };
        json!({
            "ingest": {"pipeline": pipelines.map(|pipelines| self.pipelines(pipelines)).unwrap_or_default()},
            "indices": self.indices.iter().map(index).collect::<Map<_, _>>(),
            "data_stream": {
                "data_stream": self.of_kind(NameKind::DataStream).map(stream).collect::<Map<_, _>>(),
                "data_stream_aliases": self.of_kind(NameKind::DataStreamAlias).map(stream_alias).collect::<Map<_, _>>(),
            },
        })
    }

    /// Returns examples of the pipelines of these indices: one with the same verdict in place of each.
    fn pipelines(&self, pipelines: &Pipelines) -> Vec<Value> {
        let of_indices = self.indices.values().filter_map(|index| index.pipelines.as_deref());
        let names: BTreeSet<&str> = of_indices.flat_map(IndexPipelines::names).collect();
        let example = |name: &str| {
            let processor = match pipelines.verdict(name)? {
                Ok(Harmless { reads_id: false }) => json!({"drop": {}}),
                Ok(Harmless { reads_id: true }) => json!({"set": {"field": "example", "copy_from": "_id"}}),
                Err(_) => json!({"set": {"field": "_id", "value": "example"}}),
            };
            Some(json!({"id": name, "config": {"processors": [processor]}}))
        };
        names.into_iter().filter_map(example).collect()
    }

    /// Returns the answer to `GET /_alias`.
    fn aliases(&self) -> Value {
        let mut indices = Map::new();
        for (index, alias, target) in self.members() {
            let details = json!({"is_write_index": target.index.is_ok(), "index_routing": target.routing});
            let of_index = indices.entry(index).or_insert_with(|| json!({"aliases": {}}));
            if let Some(aliases) = of_index.get_mut("aliases").and_then(Value::as_object_mut) {
                aliases.insert(alias.to_owned(), details);
            }
        }
        Value::Object(indices)
    }

    /// Returns the indices with their aliases. An alias that leads nowhere is assigned to any index.
    fn members(&self) -> impl Iterator<Item = (&'a str, &'a str, &'a Target)> {
        let any = self.indices.keys().next().copied();
        let aliases = self.of_kind(NameKind::Alias);
        aliases.filter_map(move |(alias, target)| Some((target.index.as_deref().ok().or(any)?, alias, target)))
    }
}

impl Index {
    /// Returns the index's metadata in a cluster's state, without its aliases.
    fn metadata(&self, name: &str) -> Map<String, Value> {
        // The two halves of the number that shows whether the index has changed.
        let identity = self.identity.unwrap_or_default();
        let mut settings = json!({"uuid": format!("{name}.{:08x}", identity >> 32)});
        let mut metadata = json!({"version": identity as u32, "state": "open"});
        match self.shards() {
            Ok(Shards { formula, partition_size, routing_required, .. }) => {
                // A version that creates such indices.
                let created = if let Formula::Factor { .. } = formula { "8000099" } else { "9064000" };
                merge(&mut metadata, json!({"routing_num_shards": formula.modulus()}));
                merge(
                    &mut settings,
                    json!({
                        "number_of_shards": formula.shards().to_string(),
                        "routing_partition_size": partition_size.to_string(),
                        "version": {"created": created},
                    }),
                );
                let mapping = json!({"_routing": {"required": routing_required}, "_meta": self.meta()});
                merge(&mut metadata, json!({"mappings": {"_doc": mapping}}));
            }
            Err(why) => example(why, &mut metadata, &mut settings),
        }
        if let Some(IndexPipelines { default, last }) = self.pipelines.as_deref() {
            merge(&mut settings, json!({"default_pipeline": default, "final_pipeline": last}));
        }
        merge(&mut metadata, json!({"settings": {"index": settings}}));
        match metadata {
            Value::Object(metadata) => metadata,
            _ => Map::new(),
        }
    }

    /// Returns the filter's part of the mapping.
    fn meta(&self) -> Value {
        let mut meta = Map::new();
        meta.extend(self.overrides.enabled.map(|enabled| ("enabled".to_owned(), json!(enabled))));
        meta.extend(self.overrides.missing_id.map(|missing_id| ("missing_id".to_owned(), json!(missing_id))));
        json!({ "bulk_reshuffle": meta })
    }
}

/// Adds an example of a setting that makes an index unrouted for this reason.
fn example(why: Unrouted, metadata: &mut Value, settings: &mut Value) {
    let known = json!({"number_of_shards": "1", "version": {"created": "8000099"}});
    let (of_index, in_settings) = match why {
        Unrouted::Closed => (json!({"state": "close"}), json!({})),
        Unrouted::WriteBlock => (json!({}), json!({"blocks": {"write": "true"}})),
        Unrouted::RoutingPath => (json!({}), json!({"mode": "time_series"})),
        Unrouted::IndexMode => (json!({}), json!({"mode": "example"})),
        Unrouted::VirtualShards => (json!({}), json!({"number_of_virtual_shards": "1"})),
        Unrouted::Resharding => (json!({"resharding": {}}), json!({})),
        Unrouted::Version => (json!({}), json!({"version": {"created": "99999999"}})),
        Unrouted::Split => {
            let split = json!({"num_of_root_shards": 1, "max_shard_id": 1, "active_shard_ids": [0, 1]});
            (json!({"split_shards_metadata": split}), json!({}))
        }
        // None of the shards is listed.
        Unrouted::Primary => (json!({}), json!({})),
        // The settings are incomplete.
        _ => (json!({}), json!({"number_of_shards": null})),
    };
    merge(metadata, json!({"routing_num_shards": 1}));
    merge(metadata, of_index);
    merge(settings, known);
    merge(settings, in_settings);
}

/// Adds fields to an object.
fn merge(to: &mut Value, fields: Value) {
    if let (Value::Object(to), Value::Object(fields)) = (to, fields) {
        to.extend(fields);
    }
}
