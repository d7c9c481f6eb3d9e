use bulk_reshuffle::engine::Call;
use serde_json::{Map, Value, json};

use super::documents::{index, index_number};

/// The size of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cluster {
    /// The number of nodes, called `es-0`, `es-1`, …
    pub nodes: usize,
    /// The number of indices. Their primaries are on the nodes round robin.
    pub indices: usize,
    pub shards: usize,
}

impl Cluster {
    /// A cluster of three nodes and one index of six shards.
    pub const SMALL: Self = Self { nodes: 3, indices: 1, shards: 6 };

    /// Returns the answer to a query of the filter.
    pub(crate) fn answer(self, call: &Call) -> Vec<u8> {
        let path = call.headers.get(1).and_then(|(_, target)| target.split('?').next()).unwrap_or_default();
        let answer = match path.strip_prefix("/_cluster/state/") {
            Some("version") => self.version(),
            Some(parts) => match parts.strip_prefix("version,metadata,routing_table/") {
                Some(names) => self.details(names),
                None => self.overview(),
            },
            None if path == "/_nodes/http" => self.addresses(),
            None if path == "/_nodes/_local" => self.local(call),
            None => json!({}),
        };
        answer.to_string().into_bytes()
    }

    fn version(self) -> Value {
        json!({"version": 1, "state_uuid": "s", "cluster_uuid": "c"})
    }

    fn overview(self) -> Value {
        let mut overview = self.version();
        let nodes = (0..self.nodes).map(|node| (format!("n{node}"), json!({"name": format!("es-{node}")})));
        let brief = json!({"version": 1, "settings": {"index": {"uuid": "u"}}});
        let indices = (0..self.indices).map(|number| (index(number), brief.clone()));
        overview["nodes"] = nodes.collect::<Map<_, _>>().into();
        overview["metadata"] = json!({"indices": indices.collect::<Map<_, _>>()});
        overview
    }

    /// Returns the answer of the node to which a call leads.
    fn local(self, call: &Call) -> Value {
        let is_there = |node: &usize| match &call.node {
            Some((_, found)) => address(*node) == found.as_ref(),
            None => format!("es-{node}") == call.upstream.as_ref(),
        };
        let node = (0..self.nodes).find(is_there).unwrap_or_default();
        json!({"nodes": {format!("n{node}"): {"name": format!("es-{node}")}}})
    }

    fn addresses(self) -> Value {
        let node = |node| (format!("n{node}"), json!({"http": {"publish_address": address(node)}}));
        json!({"nodes": (0..self.nodes).map(node).collect::<Map<_, _>>()})
    }

    /// Returns the details of these indices, separated by commas.
    fn details(self, names: &str) -> Value {
        let settings = json!({
            "uuid": "u", "number_of_shards": self.shards.to_string(), "version": {"created": "136408127"},
        });
        let metadata = json!({
            "version": 1, "state": "open", "routing_num_shards": self.shards * 128, "settings": {"index": settings},
        });
        let named = || names.split(',').filter(|name| !name.is_empty());
        let metadata = named().map(|name| (name.to_owned(), metadata.clone()));
        let routing_table = named().map(|name| (name.to_owned(), self.routing_table(name)));
        let mut details = self.version();
        details["metadata"] = json!({"indices": metadata.collect::<Map<_, _>>()});
        details["routing_table"] = json!({"indices": routing_table.collect::<Map<_, _>>()});
        details
    }

    fn routing_table(self, name: &str) -> Value {
        let first = index_number(name) * self.shards;
        let node = |shard: usize| format!("n{}", (first + shard) % self.nodes);
        let primary = |shard: usize| json!([{"primary": true, "state": "STARTED", "node": node(shard)}]);
        let shards = (0..self.shards).map(|shard| (shard.to_string(), primary(shard)));
        json!({"shards": shards.collect::<Map<_, _>>()})
    }
}

fn address(node: usize) -> String {
    format!("10.0.{}.{}:9200", node / 256, node % 256)
}
