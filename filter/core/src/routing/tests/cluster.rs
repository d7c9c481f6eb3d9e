use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::super::{Formula, Silence, hash};

/// A cluster that answers each query exactly as it was sent. Every changed object gets a new version, and no other.
pub struct Cluster {
    pub version: u64,
    pub uuid: String,
    /// The names by id.
    pub nodes: BTreeMap<String, String>,
    /// The ports by id.
    pub ports: BTreeMap<String, u16>,
    /// The number of starts of each node, by id.
    pub starts: BTreeMap<String, u32>,
    pub indices: BTreeMap<String, Index>,
    /// The backing indices of each data stream.
    pub data_streams: BTreeMap<String, Vec<String>>,
    /// The processors of each pipeline.
    pub pipelines: BTreeMap<String, Value>,
    pub settings: Value,
    /// The id of another cluster that answers the query for the version.
    pub stranger: Option<String>,
    /// The upstreams that do not lead to their nodes, each with the id of the node that answers, or why none does.
    pub misled: BTreeMap<String, Result<String, Silence>>,
    /// The release of all nodes, if the state has it.
    pub release: Option<&'static str>,
}

#[derive(Clone)]
pub struct Index {
    pub uuid: String,
    pub version: u64,
    /// The aliases, each with its details in `GET /_alias`.
    pub aliases: BTreeMap<String, Value>,
    pub shards: Vec<Shard>,
    pub default_pipeline: Option<String>,
    /// The filter's settings in its mapping, or null.
    pub meta: Value,
}

#[derive(Clone, Copy)]
pub enum Shard {
    On(&'static str),
    Moving(&'static str, &'static str),
    Nowhere,
}

const ROUTING_SHARDS: u32 = 768;

impl Cluster {
    /// Creates three nodes, n0 to n2, named es-0 to es-2, and no index.
    pub fn new() -> Self {
        let nodes = ["n0", "n1", "n2"].map(|id| (id.to_owned(), id.replace('n', "es-")));
        Self {
            version: 1,
            uuid: "c".to_owned(),
            ports: nodes.iter().zip(9200..).map(|((id, _), port)| (id.clone(), port)).collect(),
            starts: BTreeMap::new(),
            nodes: BTreeMap::from(nodes),
            indices: BTreeMap::new(),
            data_streams: BTreeMap::new(),
            pipelines: BTreeMap::new(),
            settings: json!({}),
            stranger: None,
            misled: BTreeMap::new(),
            release: None,
        }
    }

    /// Returns the answer of the node to which the upstream `up-{name}` leads, which names itself.
    pub fn local(&self, upstream: &str) -> Result<Value, Silence> {
        let right = || {
            let node = self.nodes.iter().find(|(_, name)| format!("up-{name}") == upstream);
            node.map(|(id, _)| id.clone()).ok_or(Silence::NoUpstream)
        };
        let id = self.misled.get(upstream).cloned().unwrap_or_else(right)?;
        let name = self.nodes.get(&id).cloned().unwrap_or_default();
        Ok(json!({"nodes": {id: {"name": name}}}))
    }

    /// Creates an index with a shard on each of these nodes.
    pub fn create(&mut self, name: &str, nodes: &[&'static str]) {
        self.version += 1;
        let shards = nodes.iter().map(|node| Shard::On(node)).collect();
        let uuid = format!("{name} of {}", self.version);
        self.indices.insert(
            name.to_owned(),
            Index { uuid, version: 1, aliases: BTreeMap::new(), shards, default_pipeline: None, meta: Value::Null },
        );
    }

    pub fn delete(&mut self, name: &str) {
        self.version += 1;
        self.indices.remove(name).unwrap();
    }

    /// Changes an index and increments its version.
    pub fn change(&mut self, name: &str, change: impl FnOnce(&mut Index)) {
        self.change_table(name, change);
        self.indices.get_mut(name).unwrap().version += 1;
    }

    /// Changes the location of an index without a new version.
    pub fn change_table(&mut self, name: &str, change: impl FnOnce(&mut Index)) {
        self.version += 1;
        change(self.indices.get_mut(name).unwrap());
    }

    /// Moves an index of one shard to a node.
    pub fn place(&mut self, name: &str, node: &'static str) {
        self.change(name, |index| index.shards = vec![Shard::On(node)]);
    }

    /// Moves an index of one shard to a node that joins the cluster.
    pub fn place_on_new(&mut self, name: &str, node: &'static str, node_name: &str) {
        self.nodes.insert(node.to_owned(), node_name.to_owned());
        self.place(name, node);
    }

    /// Gives an index an alias.
    pub fn alias(&mut self, name: &str, alias: &str, details: Value) {
        self.change(name, |index| {
            index.aliases.insert(alias.to_owned(), details);
        });
    }

    pub fn unalias(&mut self, name: &str, alias: &str) {
        self.change(name, |index| {
            index.aliases.remove(alias).unwrap();
        });
    }

    /// Creates or changes a pipeline.
    pub fn set_pipeline(&mut self, name: &str, processors: Value) {
        self.version += 1;
        self.pipelines.insert(name.to_owned(), processors);
    }

    /// Returns the answer to a `GET`.
    pub fn answer(&self, path: &str) -> Value {
        let (path, _) = path.split_once('?').unwrap();
        let version =
            json!({"version": self.version, "state_uuid": format!("s{}", self.version), "cluster_uuid": self.uuid});
        match path {
            "/_cluster/state/version" => match &self.stranger {
                Some(uuid) => json!({"version": 1, "state_uuid": "s", "cluster_uuid": uuid}),
                None => version,
            },
            "/_cluster/state/version,nodes,metadata" => self.overview(version),
            "/_cluster/settings" => self.settings.clone(),
            "/_alias" => self.aliases(),
            "/_nodes/http" => {
                let node = |(id, port): (&String, &u16)| {
                    let http = json!({"publish_address": format!("10.0.0.1:{port}")});
                    (
                        id.clone(),
                        json!({"version": self.release.unwrap_or("2.19.6"), "roles": ["data", "ingest"], "http": http}),
                    )
                };
                json!({"nodes": self.ports.iter().map(node).collect::<Map<_, _>>()})
            }
            "/_cluster/state/version,metadata" => {
                let definition =
                    |(name, processors): (&String, &Value)| json!({"id": name, "config": {"processors": processors}});
                let mut state = version;
                state["metadata"]["ingest"]["pipeline"] = self.pipelines.iter().map(definition).collect();
                state
            }
            path => {
                self.details(version, path.strip_prefix("/_cluster/state/version,metadata,routing_table/").unwrap())
            }
        }
    }

    fn overview(&self, mut answer: Value) -> Value {
        let node = |(id, name): (&String, &String)| {
            (
                id.clone(),
                json!({"name": name, "ephemeral_id": format!("{:?}", self.starts.get(id)), "version": self.release}),
            )
        };
        let index = |(name, index): (&String, &Index)| {
            let aliases: Vec<_> = index.aliases.keys().collect();
            (
                name.clone(),
                json!({"version": index.version, "aliases": aliases, "settings": {"index": {"uuid": index.uuid}}}),
            )
        };
        let stream = |(name, indices): (&String, &Vec<String>)| {
            let indices: Vec<_> = indices.iter().map(|index| json!({"index_name": index})).collect();
            (name.clone(), json!({"indices": indices}))
        };
        answer["nodes"] = Value::Object(self.nodes.iter().map(node).collect());
        answer["metadata"]["indices"] = Value::Object(self.indices.iter().map(index).collect());
        answer["metadata"]["data_stream"]["data_stream"] =
            Value::Object(self.data_streams.iter().map(stream).collect());
        answer
    }

    fn aliases(&self) -> Value {
        self.indices.iter().map(|(name, index)| (name.clone(), json!({"aliases": index.aliases}))).collect()
    }

    fn details(&self, mut answer: Value, names: &str) -> Value {
        let names = names.split(',').map(|name| percent_decode_str(name).decode_utf8().unwrap());
        let (mut metadata, mut table) = (Map::new(), Map::new());
        for name in names {
            let Some(index) = self.indices.get(name.as_ref()) else { continue };
            let settings = json!({"uuid": index.uuid, "number_of_shards": index.shards.len().to_string(), "version": {"created": "136408127"}, "default_pipeline": index.default_pipeline});
            metadata.insert(name.to_string(), json!({
                "version": index.version, "state": "open", "routing_num_shards": ROUTING_SHARDS, "settings": {"index": settings},
                "mappings": {"_doc": {"_meta": {"bulk_reshuffle": index.meta}}},
            }));
            let shards: Map<_, _> =
                index.shards.iter().enumerate().map(|(shard, copy)| (shard.to_string(), copy.state())).collect();
            table.insert(name.to_string(), json!({ "shards": shards }));
        }
        answer["metadata"] = json!({ "indices": metadata });
        answer["routing_table"] = json!({ "indices": table });
        answer
    }

    /// Returns the names that can be written to, each with its index and routing value.
    pub fn names(&self) -> BTreeMap<String, (String, Option<String>)> {
        let mut names: BTreeMap<String, (String, Option<String>)> =
            self.indices.keys().map(|name| (name.clone(), (name.clone(), None))).collect();
        let mut members: BTreeMap<&str, Vec<(&str, &Value)>> = BTreeMap::new();
        for (name, index) in &self.indices {
            for (alias, details) in &index.aliases {
                members.entry(alias).or_default().push((name, details));
            }
        }
        for (alias, members) in members {
            let write = members.iter().find(|(_, details)| details["is_write_index"] == true);
            let only = members.first().filter(|_| members.len() == 1);
            if let Some((index, details)) = write.or(only) {
                let routing = details["index_routing"].as_str().map(str::to_owned);
                names.insert(alias.to_owned(), ((*index).to_owned(), routing));
            }
        }
        for (stream, indices) in &self.data_streams {
            names.insert(stream.clone(), (indices.last().unwrap().clone(), None));
        }
        names
    }

    /// Returns the name of the node that serves a document's primary.
    pub fn owner(&self, index: &str, id: &str, routing: Option<&str>) -> Option<String> {
        let shards = &self.indices.get(index)?.shards;
        let formula = Formula::Factor { shards: shards.len() as u32, routing_shards: ROUTING_SHARDS };
        match shards[formula.shard(hash(routing.unwrap_or(id))) as usize] {
            Shard::On(node) | Shard::Moving(node, _) => self.nodes.get(node).cloned(),
            Shard::Nowhere => None,
        }
    }
}

impl Shard {
    fn state(self) -> Value {
        let copy = |state, node: &str| json!({"primary": true, "state": state, "node": node});
        match self {
            Self::On(node) => json!([copy("STARTED", node)]),
            Self::Moving(from, to) => json!([copy("INITIALIZING", to), copy("RELOCATING", from)]),
            Self::Nowhere => json!([{"primary": true, "state": "UNASSIGNED", "node": null}]),
        }
    }
}
