use std::collections::{BTreeMap, BTreeSet};

use bulk_reshuffle::routing::{Formula, hash};
use serde_json::{Value, json};

use crate::operation::Operation;
use crate::rng::Rng;

/// The upstream with all nodes.
pub const COORDINATOR: &str = "es";

/// The cluster at one moment: its nodes, indices and aliases, and the location of each primary.
#[derive(Debug, Clone)]
pub struct Layout {
    version: u64,
    nodes: BTreeSet<u64>,
    indices: BTreeMap<&'static str, Index>,
    /// The aliases, each with its indices and the routing value that it adds.
    aliases: BTreeMap<&'static str, Vec<(&'static str, Option<&'static str>)>>,
}

#[derive(Debug, Clone)]
struct Index {
    uuid: String,
    /// A counter that increases with each change of the index.
    version: u64,
    kind: Kind,
    /// The node of each shard's primary, or `None` if it is not started.
    primaries: Vec<Option<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Closed,
    /// It has a pipeline that does not exist.
    Piped,
    /// It has the pipeline [`HARMLESS`].
    Harmless,
    TimeSeries,
    Partitioned,
}

const ROUTING_SHARDS: u32 = 768;

/// The names that operations are for. Some cannot be written to or routed.
pub const NAMES: &[&str] = &["i", "i", "i", "j", "j", "k", "a", "r", "p", "h", "piped", "series"];

/// The pipeline that drops and fails some documents, and changes nothing.
pub const HARMLESS: &str = "harmless";

/// The pipeline that does the same, and stores documents in another index.
pub const UNPROVEN: &str = "unproven";

/// The names that make a request pass through unchanged.
pub const ODD_NAMES: &[&str] = &["shut", "many", "ghost"];

/// Returns whether only the cluster knows where an operation goes, in any layout.
pub fn is_unrouted(operation: &Operation) -> bool {
    match operation.name.as_str() {
        "series" => true,
        "p" => operation.id.is_none() || operation.routing.is_none(),
        _ => false,
    }
}

/// The prefix of the query for the overview.
const OVERVIEW: &str = "/_cluster/state/version,nodes,metadata";

pub fn is_overview(path: &str) -> bool {
    path.starts_with(OVERVIEW)
}

impl Layout {
    /// Creates three nodes and some indices.
    pub fn new() -> Self {
        let index = |kind, shards: u64| Index {
            uuid: format!("{kind:?}{shards}"),
            version: 1,
            kind,
            primaries: (0..shards).map(|shard| Some(shard % 3)).collect(),
        };
        Self {
            version: 1,
            nodes: (0..3).collect(),
            indices: BTreeMap::from([
                ("i", index(Kind::Plain, 6)),
                ("j", index(Kind::Plain, 3)),
                ("k", index(Kind::Plain, 1)),
                ("p", index(Kind::Partitioned, 6)),
                ("shut", index(Kind::Closed, 1)),
                ("piped", index(Kind::Piped, 1)),
                ("h", index(Kind::Harmless, 3)),
                ("series", index(Kind::TimeSeries, 1)),
            ]),
            aliases: BTreeMap::from([
                ("a", vec![("i", None)]),
                ("r", vec![("j", Some("x"))]),
                ("many", vec![("i", None), ("j", None)]),
            ]),
        }
    }

    pub fn has_node(&self, upstream: &str) -> bool {
        self.nodes.iter().any(|node| Self::node_name(*node) == upstream)
    }

    /// Returns whether a node has the ingest role.
    fn runs_pipelines(node: u64) -> bool {
        node % 4 != 2
    }

    /// Returns the name of a node, which is also its upstream's.
    fn node_name(node: u64) -> String {
        format!("es-{node}")
    }

    pub fn change(&mut self, rng: &mut Rng) -> &'static str {
        self.version = self.version.saturating_add(1);
        match rng.up_to(5) {
            0 => self.leave(rng),
            1 => self.join(),
            2 => self.flip(rng),
            3 => self.delete_or_create(rng),
            _ => self.move_shard(rng),
        }
    }

    fn leave(&mut self, rng: &mut Rng) -> &'static str {
        let nodes: Vec<u64> = self.nodes.iter().copied().collect();
        let gone = rng.one_of(&nodes);
        if nodes.len() < 2 {
            return self.move_shard(rng);
        }
        self.nodes.remove(&gone);
        let rest: Vec<u64> = self.nodes.iter().copied().collect();
        for index in self.indices.values_mut() {
            for primary in index.primaries.iter_mut().filter(|primary| **primary == Some(gone)) {
                // Another copy becomes primary, or there is none, or the state names a node that it does not list.
                *primary = match rng.up_to(9) {
                    0 => None,
                    1 => Some(gone),
                    _ => Some(rng.one_of(&rest)),
                };
                index.version = self.version;
            }
        }
        "node left"
    }

    fn join(&mut self) -> &'static str {
        let next = self.nodes.last().map_or(0, |last| last.saturating_add(1));
        self.nodes.insert(next);
        "node joined"
    }

    fn flip(&mut self, rng: &mut Rng) -> &'static str {
        let target = rng.one_of(&["i", "j", "k"]);
        let before = self.aliases.insert("a", vec![(target, None)]).unwrap_or_default();
        for (index, _) in before.into_iter().chain([(target, None)]) {
            self.indices.entry(index).and_modify(|index| index.version = self.version);
        }
        "alias flipped"
    }

    fn delete_or_create(&mut self, rng: &mut Rng) -> &'static str {
        if self.indices.remove("k").is_some() {
            for members in self.aliases.values_mut() {
                members.retain(|(index, _)| *index != "k");
            }
            return "index deleted";
        }
        let nodes: Vec<u64> = self.nodes.iter().copied().collect();
        let primaries = (0..rng.between(1, 4)).map(|_| Some(rng.one_of(&nodes))).collect();
        // The new index has the same version as the previous one, but is another index.
        self.indices
            .insert("k", Index { uuid: format!("k{}", self.version), version: 1, kind: Kind::Plain, primaries });
        "index created"
    }

    fn move_shard(&mut self, rng: &mut Rng) -> &'static str {
        let nodes: Vec<u64> = self.nodes.iter().copied().collect();
        let index = rng.one_of(&["i", "j", "p", "h"]);
        let Some(index) = self.indices.get_mut(index) else { return "shards moved" };
        for primary in &mut index.primaries {
            if rng.percent(40) {
                *primary = Some(rng.one_of(&nodes));
                index.version = self.version;
            }
        }
        "shards moved"
    }

    /// Returns the index that a name writes to, with the routing value that the name adds.
    pub fn target(&self, name: &str) -> Option<(&'static str, Option<&'static str>)> {
        if let Some((index, _)) = self.indices.get_key_value(name) {
            return Some((index, None));
        }
        match self.aliases.get(name)?.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Returns the number of the shard that an operation is for. `Some(None)` stands for no particular shard.
    pub fn shard(&self, index: &str, operation: &Operation, added: Option<&str>) -> Option<Option<u32>> {
        Some(self.indices.get(index)?.shard(operation, added))
    }

    /// Returns the upstream of the node that owns a document, or the coordinator if only the cluster knows.
    /// `Some(None)` stands for any node.
    pub fn owner(&self, index: &str, operation: &Operation, added: Option<&str>) -> Option<Option<String>> {
        let index = self.indices.get(index)?;
        if operation.unproven || is_unrouted(operation) {
            return Some(Some(COORDINATOR.to_owned()));
        }
        let Some(shard) = index.shard(operation, added) else { return Some(None) };
        let node = index.primaries.get(shard as usize).copied().flatten()?;
        let is_served = self.nodes.contains(&node) && (!operation.piped || Self::runs_pipelines(node));
        Some(Some(if is_served { Self::node_name(node) } else { COORDINATOR.to_owned() }))
    }

    /// Returns the answer of the cluster or, to a question about it, of one node. Returns `None` if it is not a query.
    pub fn answer(&self, path: &str, upstream: &str) -> Option<Value> {
        let (path, _) = path.split_once('?')?;
        match path {
            "/_nodes/_local" => {
                let node = self.nodes.iter().find(|node| Self::node_name(**node) == upstream);
                let node = node.map(|node| (format!("n{node}"), json!({"name": upstream})));
                Some(json!({"nodes": Value::Object(node.into_iter().collect())}))
            }
            "/_alias" => Some(self.alias_details()),
            "/_cluster/settings" => Some(json!({})),
            "/_cluster/state/version" => Some(self.version()),
            OVERVIEW => Some(self.overview()),
            "/_cluster/state/version,metadata" => {
                let drop = json!({"drop": {"if": "ctx.m == 1"}});
                let harmless = json!({"id": HARMLESS, "config": {"processors": [drop]}});
                let unproven = json!({"id": UNPROVEN, "config": {"processors": [drop, {"reroute": {}}]}});
                let mut state = self.version();
                state["metadata"] = json!({"ingest": {"pipeline": [harmless, unproven]}});
                Some(state)
            }
            path => Some(self.details(path.strip_prefix("/_cluster/state/version,metadata,routing_table/")?)),
        }
    }

    fn version(&self) -> Value {
        json!({"version": self.version, "state_uuid": format!("u{}", self.version), "cluster_uuid": "c"})
    }

    fn overview(&self) -> Value {
        let node = |node: &u64| {
            let roles = if Self::runs_pipelines(*node) { ["data", "ingest"] } else { ["data", "ml"] };
            (format!("n{node}"), json!({"name": Self::node_name(*node), "version": "9.5.3", "roles": roles}))
        };
        let nodes = self.nodes.iter().map(node);
        let indices = self.indices.iter().map(|(name, index)| ((*name).to_owned(), self.of_overview(name, index)));
        let mut overview = self.version();
        if let Value::Object(fields) = &mut overview {
            fields.insert("nodes".to_owned(), Value::Object(nodes.collect()));
            fields.insert("metadata".to_owned(), json!({"indices": Value::Object(indices.collect())}));
        }
        overview
    }

    fn of_overview(&self, name: &str, index: &Index) -> Value {
        let members = |(_, members): &(&&str, &Vec<(&str, Option<&str>)>)| members.iter().any(|(to, _)| *to == name);
        let aliases: Vec<_> = self.aliases.iter().filter(members).map(|(alias, _)| *alias).collect();
        json!({"version": index.version, "aliases": aliases, "settings": {"index": {"uuid": index.uuid}}})
    }

    fn details(&self, names: &str) -> Value {
        let asked = |(name, index): (&&str, &Index)| {
            names.split(',').any(|asked| asked == *name).then(|| ((*name).to_owned(), index.metadata(), index.shards()))
        };
        let (mut metadata, mut tables) = (serde_json::Map::new(), serde_json::Map::new());
        for (name, index, shards) in self.indices.iter().filter_map(asked) {
            metadata.insert(name.clone(), index);
            tables.insert(name, json!({ "shards": shards }));
        }
        let mut details = self.version();
        details["metadata"] = json!({ "indices": metadata });
        details["routing_table"] = json!({ "indices": tables });
        details
    }

    fn alias_details(&self) -> Value {
        let mut by_index: BTreeMap<&str, serde_json::Map<String, Value>> = BTreeMap::new();
        for (alias, members) in &self.aliases {
            for (index, routing) in members {
                let details = routing.map_or(json!({}), |routing| json!({"index_routing": routing}));
                by_index.entry(index).or_default().insert((*alias).to_owned(), details);
            }
        }
        by_index.into_iter().map(|(index, aliases)| (index.to_owned(), json!({"aliases": aliases}))).collect()
    }
}

impl Index {
    /// Returns the number of the shard that an operation is for.
    fn shard(&self, operation: &Operation, added: Option<&str>) -> Option<u32> {
        let id = operation.id.as_deref().map(hash);
        let hash = match (added.or(operation.routing.as_deref()).map(hash), id) {
            (Some(routing), Some(id)) if self.kind == Kind::Partitioned => {
                routing.wrapping_add((id as i32).rem_euclid(2) as u32)
            }
            (Some(hash), _) | (None, Some(hash)) => hash,
            (None, None) => return None,
        };
        let formula = Formula::Factor { shards: self.primaries.len() as u32, routing_shards: ROUTING_SHARDS };
        Some(formula.shard(hash))
    }

    fn metadata(&self) -> Value {
        let mut settings = json!({"uuid": self.uuid, "number_of_shards": self.primaries.len().to_string(), "version": {"created": "136408127"}});
        let special = match self.kind {
            Kind::Piped => Some(("default_pipeline", UNPROVEN)),
            Kind::Harmless => Some(("final_pipeline", HARMLESS)),
            Kind::TimeSeries => Some(("mode", "time_series")),
            Kind::Partitioned => Some(("routing_partition_size", "2")),
            Kind::Plain | Kind::Closed => None,
        };
        if let (Value::Object(settings), Some((name, value))) = (&mut settings, special) {
            settings.insert(name.to_owned(), json!(value));
        }
        let state = if self.kind == Kind::Closed { "close" } else { "open" };
        json!({
            "version": self.version, "state": state, "routing_num_shards": ROUTING_SHARDS,
            "settings": {"index": settings},
        })
    }

    fn shards(&self) -> Value {
        let copies = self.primaries.iter().enumerate().map(|(shard, node)| {
            let copy = match node {
                Some(node) => json!([{"primary": true, "state": "STARTED", "node": format!("n{node}")}]),
                None => json!([{"primary": true, "state": "UNASSIGNED", "node": null}]),
            };
            (shard.to_string(), copy)
        });
        copies.collect()
    }
}
