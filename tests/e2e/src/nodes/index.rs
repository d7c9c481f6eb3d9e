use std::collections::BTreeMap;

use anyhow::{Context, Result};
use bulk_reshuffle::routing::{Formula, hash};
use serde_json::{Map, Value, json};

#[derive(Debug, Clone)]
pub struct Index {
    pub(crate) name: String,
    pub(crate) aliases: BTreeMap<String, Value>,
    /// The node of each shard's primary, or `None` if it is not started.
    pub(super) primaries: Vec<Option<usize>>,
    created: u64,
    open: bool,
    settings: Map<String, Value>,
}

impl Index {
    /// Creates an index, as of OpenSearch 2, with one shard for each of these nodes; the node holds its primary.
    pub fn new(name: &str, nodes: impl IntoIterator<Item = usize>) -> Self {
        Self {
            name: name.into(),
            aliases: BTreeMap::new(),
            primaries: nodes.into_iter().map(Some).collect(),
            created: 136_408_127,
            open: true,
            settings: Map::new(),
        }
    }

    /// Adds an alias with the details that `GET /_alias` reports.
    pub fn alias(mut self, name: &str, details: Value) -> Self {
        self.aliases.insert(name.into(), details);
        self
    }

    /// Sets a setting under `index.`. Numbers are strings, as a cluster reports them.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    pub fn closed(self) -> Self {
        Self { open: false, ..self }
    }

    pub fn unassigned(mut self, shard: usize) -> Self {
        self.move_primary(shard, None);
        self
    }

    pub fn move_primary(&mut self, shard: usize, node: Option<usize>) {
        if let Some(primary) = self.primaries.get_mut(shard) {
            *primary = node;
        }
    }

    pub fn shard(&self, routing: &str) -> Result<usize> {
        let formula = Formula::of_index(self.created, self.shards()?, self.routing_shards()?);
        let formula = formula.map_err(|why| anyhow::anyhow!("the index has no formula: {}", why.name()))?;
        Ok(formula.shard(hash(routing)) as usize)
    }

    /// Returns the node that holds the primary for a routing value or an id.
    pub fn node(&self, routing: &str) -> Result<Option<usize>> {
        let shard = self.shard(routing)?;
        self.primaries.get(shard).copied().with_context(|| format!("{} has no shard {shard}", self.name))
    }

    fn shards(&self) -> Result<u32> {
        Ok(u32::try_from(self.primaries.len())?)
    }

    fn routing_shards(&self) -> Result<u32> {
        Ok(self.shards()?.saturating_mul(128))
    }

    pub(crate) fn metadata(&self, version: u64) -> Result<Value> {
        let mut settings = self.settings.clone();
        settings.insert("uuid".into(), self.name.as_str().into());
        settings.insert("number_of_shards".into(), self.shards()?.to_string().into());
        settings.insert("version".into(), json!({"created": self.created.to_string()}));
        Ok(json!({
            "version": version,
            "state": if self.open { "open" } else { "close" },
            "routing_num_shards": self.routing_shards()?,
            "aliases": self.aliases.keys().collect::<Vec<_>>(),
            "settings": {"index": settings},
        }))
    }

    pub(crate) fn routing_table(&self) -> Value {
        let copy = |node: &Option<usize>| match node {
            Some(node) => json!([{"primary": true, "state": "STARTED", "node": format!("id-of-es-{node}")}]),
            None => json!([{"primary": true, "state": "UNASSIGNED", "node": null}]),
        };
        let shards = (0..).zip(&self.primaries).map(|(shard, node): (usize, _)| (shard.to_string(), copy(node)));
        json!({"shards": shards.collect::<Map<_, _>>()})
    }
}
