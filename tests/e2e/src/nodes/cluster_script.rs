use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::Index;

/// The cluster state that the fake cluster reports.
#[derive(Debug, Clone)]
pub struct ClusterScript {
    uuid: String,
    pub(crate) nodes: usize,
    names: Vec<String>,
    zones: Vec<String>,
    version: u64,
    indices: BTreeMap<String, Index>,
}

impl ClusterScript {
    /// Creates a cluster without indices. Its nodes are called `es-0`, `es-1`, … unless they are [`named`](Self::named).
    pub fn new(nodes: usize) -> Self {
        Self {
            uuid: "fake".to_owned(),
            nodes,
            names: Vec::new(),
            zones: Vec::new(),
            version: 1,
            indices: BTreeMap::new(),
        }
    }

    /// Creates three nodes and an index `books` with one shard on each node.
    pub fn three_nodes() -> Self {
        Self::new(3).index(Index::new("books", [0, 1, 2]))
    }

    /// Sets the id of the cluster.
    pub fn uuid(self, uuid: &str) -> Self {
        Self { uuid: uuid.to_owned(), ..self }
    }

    /// Sets the names of the first nodes, including those that are added later.
    pub fn named(self, names: &[&str]) -> Self {
        Self { names: names.iter().map(ToString::to_string).collect(), ..self }
    }

    /// Sets the zones of the first nodes, their attribute `zone`.
    pub fn zones(self, zones: &[&str]) -> Self {
        Self { zones: zones.iter().map(ToString::to_string).collect(), ..self }
    }

    /// Adds an index, or replaces the index with the same name.
    pub fn index(mut self, index: Index) -> Self {
        self.indices.insert(index.name.clone(), index);
        self
    }

    pub fn index_mut(&mut self, name: &str) -> Option<&mut Index> {
        self.indices.get_mut(name)
    }

    /// Returns those of the ids `id-0`, `id-1`, … whose primary is on this node.
    pub fn ids(&self, index: &str, node: usize) -> Result<impl Iterator<Item = String>> {
        let index = self.indices.get(index).with_context(|| format!("no index {index}"))?;
        anyhow::ensure!(index.node("id-0").is_ok(), "{} has no formula", index.name);
        let ids = (0_u64..).map(|number| format!("id-{number}"));
        Ok(ids.filter(move |id| matches!(index.node(id), Ok(Some(found)) if found == node)))
    }

    /// Returns the node that holds an index's primary for a routing value or an id.
    pub fn node(&self, index: &str, routing: &str) -> Result<usize> {
        let found = self.indices.get(index).with_context(|| format!("no index {index}"))?;
        found.node(routing)?.with_context(|| format!("no primary for {routing} in {index}"))
    }

    /// Adds a node without shards.
    pub fn add_node(&mut self) {
        self.nodes += 1;
    }

    /// Returns the nodes with a primary of an index.
    pub(crate) fn owners(&self, index: &str) -> BTreeSet<usize> {
        self.indices.get(index).into_iter().flat_map(|index| index.primaries.iter().flatten()).copied().collect()
    }

    pub(crate) fn next_version(&mut self) {
        self.version = self.version.saturating_add(1);
    }

    /// Returns the answer to `GET /_cluster/state/version`.
    pub(crate) fn version(&self) -> Value {
        json!({"cluster_uuid": self.uuid, "version": self.version, "state_uuid": format!("state-{}", self.version)})
    }

    /// Returns the answer to `GET /_cluster/state/…`: always the whole state, whatever part is requested.
    pub(crate) fn state(&self) -> Result<Value> {
        let attributes = |node| self.zones.get(node).map_or_else(|| json!({}), |zone| json!({"zone": zone}));
        let node = |node| (id(node), json!({"name": self.name(node), "attributes": attributes(node)}));
        let metadata = |(name, index): (&String, &Index)| Ok((name.clone(), index.metadata(self.version)?));
        let routing_table = |(name, index): (&String, &Index)| (name.clone(), index.routing_table());
        let mut state = self.version();
        state["nodes"] = (0..self.nodes).map(node).collect::<Map<_, _>>().into();
        state["metadata"] = json!({"indices": self.indices.iter().map(metadata).collect::<Result<Map<_, _>>>()?});
        state["routing_table"] = json!({"indices": self.indices.iter().map(routing_table).collect::<Map<_, _>>()});
        Ok(state)
    }

    /// Returns the answer to `GET /_nodes/http` of nodes at these addresses.
    pub(crate) fn addresses<'a>(nodes: impl Iterator<Item = &'a SocketAddr>) -> Value {
        let node = |(node, address): (usize, &SocketAddr)| (id(node), json!({"http": {"publish_address": address}}));
        json!({"nodes": nodes.enumerate().map(node).collect::<Map<_, _>>()})
    }

    /// Returns a node's answer to `GET /_nodes/_local`.
    pub(crate) fn local(&self, node: usize) -> Value {
        json!({"nodes": {id(node): {"name": self.name(node)}}})
    }

    fn name(&self, node: usize) -> String {
        self.names.get(node).cloned().unwrap_or_else(|| format!("es-{node}"))
    }

    /// Returns the answer to `GET /_alias`.
    pub(crate) fn aliases(&self) -> Value {
        let of_index = |index: &Index| json!({"aliases": index.aliases});
        Value::Object(self.indices.iter().map(|(name, index)| (name.clone(), of_index(index))).collect())
    }
}

/// Returns the id of a node.
fn id(node: usize) -> String {
    format!("id-of-es-{node}")
}
