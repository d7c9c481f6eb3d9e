use std::collections::HashMap;
use std::fmt::Write;
use std::net::SocketAddr;

use bulk_reshuffle::routing::{Formula, hash};
use percent_encoding::percent_decode_str;

/// The answers of a cluster with very many indices to queries about its state, with `filter_path` applied as a cluster
/// does.
///
/// The indices come in families of ten, with names such as Beats and life-cycle policies give them. Four families in
/// ten are data streams, four have an alias that writes to the newest index, and the rest are plain. All indices have
/// the same number of primaries, each with a replica, on nodes called `es-0`, `es-1`, …
#[derive(Debug)]
pub struct LargeCluster {
    nodes: usize,
    /// The addresses that the nodes report, if they report any.
    addresses: Vec<SocketAddr>,
    /// The number of primaries of each index.
    shards: usize,
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    version: u64,
    /// The versions by index.
    versions: Vec<u64>,
}

/// The number of indices in a family.
const FAMILY: usize = 10;

/// The release that created all indices. OpenSearch and Elasticsearch number releases alike.
const CREATED: u64 = 8_521_000;

/// The `routing_num_shards` of each index, as a multiple of its primaries.
const ROUTING_SHARDS: usize = 64;

impl LargeCluster {
    /// Creates a cluster of `indices` indices, with ten primaries each, on a hundred nodes.
    pub fn new(indices: usize) -> Self {
        Self::with(100, indices, 10)
    }

    /// Creates a cluster of these numbers of nodes, indices and primaries of each index.
    pub fn with(nodes: usize, indices: usize, shards: usize) -> Self {
        let names: Vec<String> = (0..indices).map(name).collect();
        let numbers = names.iter().cloned().zip(0..).collect();
        Self { nodes, addresses: Vec::new(), shards, names, numbers, version: 1, versions: vec![1; indices] }
    }

    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Makes the nodes report these addresses.
    pub fn set_addresses(&mut self, addresses: impl IntoIterator<Item = SocketAddr>) {
        self.addresses = addresses.into_iter().collect();
    }

    pub fn shards(&self) -> usize {
        self.names.len() * self.shards
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns an alias. Each number gives a different one.
    pub fn alias(number: usize) -> String {
        format!("filebeat-8.19.2-{:04}", number / 4 * 10 + 4 + number % 4)
    }

    /// Returns a data stream. Each number gives a different one.
    pub fn data_stream(number: usize) -> String {
        format!("logs-app.{:04}-prod", number / 4 * 10 + number % 4)
    }

    /// Changes the cluster's version and the version of some evenly spread indices, whose primaries move.
    pub fn change(&mut self, indices: usize) {
        self.version += 1;
        let step = self.versions.len().checked_div(indices).unwrap_or(1).max(1);
        self.versions.iter_mut().step_by(step).take(indices).for_each(|version| *version += 1);
    }

    /// Returns a node's answer to `GET target`, or `None` if it is not a query about the state.
    pub fn answer(&self, node: usize, target: &str) -> Option<String> {
        let path = target.split('?').next().unwrap_or_default();
        match path {
            "/_cluster/state/version" => Some(format!("{{{}}}", self.version())),
            "/_cluster/state/version,nodes,metadata" => Some(self.overview()),
            "/_cluster/settings" => Some("{}".to_owned()),
            "/_nodes/_local" => Some(format!(r#"{{"nodes":{{"{}":{{"name":"es-{node}"}}}}}}"#, id('n', node))),
            "/_nodes/http" => Some(self.http()),
            "/_alias" => Some(self.aliases()),
            _ => path.strip_prefix("/_cluster/state/version,metadata,routing_table/").map(|names| self.details(names)),
        }
    }

    fn version(&self) -> String {
        let version = self.version;
        format!(r#""cluster_uuid":"{}","version":{version},"state_uuid":"{}""#, id('c', 0), id('s', version as usize))
    }

    fn overview(&self) -> String {
        let node = |node: usize| {
            let zone = ['a', 'b', 'c'].get(node % 3).copied().unwrap_or_default();
            format!(r#""{}":{{"name":"es-{node}","attributes":{{"zone":"{zone}"}}}}"#, id('n', node))
        };
        let index = |(number, name): (usize, &String)| {
            let aliases = match kind(number) {
                Kind::Alias(alias) => format!(r#","aliases":["{alias}"]"#),
                _ => String::new(),
            };
            let uuid = id('i', number);
            format!(r#""{name}":{{"version":{},"settings":{{"index":{{"uuid":"{uuid}"}}}}{aliases}}}"#, self.of(number))
        };
        let backing = |name: &String| format!(r#"{{"index_name":"{name}"}}"#);
        let data_stream = |(number, family): (usize, &[String])| match kind(number * FAMILY) {
            Kind::DataStream(name) => {
                let indices = joined(family.iter().map(backing));
                Some(format!(r#""{name}":{{"indices":[{indices}],"rollover_on_write":false}}"#))
            }
            _ => None,
        };
        let indices = joined(self.names.iter().enumerate().map(|(number, name)| index((number, name))));
        let data_streams = joined(self.names.chunks(FAMILY).enumerate().filter_map(data_stream));
        format!(
            r#"{{{},"nodes":{{{}}},"metadata":{{"indices":{{{indices}}},"data_stream":{{"data_stream":{{{data_streams}}}}}}}}}"#,
            self.version(),
            joined((0..self.nodes).map(node)),
        )
    }

    fn http(&self) -> String {
        let node = |(node, address): (usize, &SocketAddr)| {
            format!(r#""{}":{{"http":{{"publish_address":"{address}"}}}}"#, id('n', node))
        };
        format!(r#"{{"nodes":{{{}}}}}"#, joined(self.addresses.iter().enumerate().map(node)))
    }

    fn aliases(&self) -> String {
        let with_alias = |(number, name): (usize, &String)| match kind(number) {
            Kind::Alias(alias) => {
                let is_write_index = number % FAMILY == FAMILY - 1;
                Some(format!(r#""{name}":{{"aliases":{{"{alias}":{{"is_write_index":{is_write_index}}}}}}}"#))
            }
            _ => None,
        };
        format!("{{{}}}", joined(self.names.iter().enumerate().filter_map(|(number, name)| with_alias((number, name)))))
    }

    /// Returns the details of these names, separated by commas. Their order differs from that of the query, like that
    /// of a cluster's hash map.
    fn details(&self, names: &str) -> String {
        let decoded = names.split(',').map(|name| percent_decode_str(name).decode_utf8_lossy());
        let mut found: Vec<usize> = decoded.filter_map(|name| self.numbers.get(name.as_ref()).copied()).collect();
        found.sort_by_key(|number| number.wrapping_mul(0x9e37_79b9) & 0xffff);
        let named = |number: &usize, what: String| format!(r#""{}":{{{what}}}"#, name(*number));
        let metadata = joined(found.iter().map(|number| named(number, self.metadata(*number))));
        let routing = joined(found.iter().map(|number| named(number, self.routing_table(*number))));
        let version = self.version();
        format!(r#"{{{version},"metadata":{{"indices":{{{metadata}}}}},"routing_table":{{"indices":{{{routing}}}}}}}"#)
    }

    fn metadata(&self, number: usize) -> String {
        let tier = r#""routing":{"allocation":{"include":{"_tier_preference":"data_hot,data_content"}}}"#;
        format!(
            r#""version":{},"routing_num_shards":{},"state":"open","settings":{{"index":{{{tier},"number_of_shards":"{}","uuid":"{}","version":{{"created":"{CREATED}"}}}}}}"#,
            self.of(number),
            self.shards * ROUTING_SHARDS,
            self.shards,
            id('i', number),
        )
    }

    fn routing_table(&self, number: usize) -> String {
        let copy = |primary: bool, node: usize| {
            format!(r#"{{"state":"STARTED","primary":{primary},"node":"{}"}}"#, id('n', node % self.nodes))
        };
        let shard = |shard: usize| {
            let node = self.node(number, shard);
            let (primary, replica) = (copy(true, node), copy(false, node + self.nodes / 2));
            let copies = if shard.is_multiple_of(2) { [primary, replica] } else { [replica, primary] };
            format!(r#""{shard}":[{}]"#, copies.join(","))
        };
        format!(r#""shards":{{{}}}"#, joined((0..self.shards).map(shard)))
    }

    /// Returns the number of the node that holds a document's primary, by the document's index and id.
    pub fn owner(&self, index: &str, id: &str) -> Option<usize> {
        let number = *self.numbers.get(index)?;
        let (shards, routing) = (u32::try_from(self.shards).ok()?, u32::try_from(self.shards * ROUTING_SHARDS).ok()?);
        let formula = Formula::of_index(CREATED, shards, routing).ok()?;
        Some(self.node(number, formula.shard(hash(id)) as usize))
    }

    /// Returns the node of a primary.
    fn node(&self, index: usize, shard: usize) -> usize {
        (index * 7 + shard * 11 + self.of(index) as usize) % self.nodes
    }

    /// Returns an index's own version.
    fn of(&self, number: usize) -> u64 {
        self.versions.get(number).copied().unwrap_or_default()
    }
}

enum Kind {
    DataStream(String),
    Alias(String),
    Plain,
}

fn kind(number: usize) -> Kind {
    let family = number / FAMILY;
    match family % 10 {
        0..4 => Kind::DataStream(format!("logs-app.{family:04}-prod")),
        4..8 => Kind::Alias(format!("filebeat-8.19.2-{family:04}")),
        _ => Kind::Plain,
    }
}

/// Returns the name of an index: 34 to 40 characters for up to 100,000 indices.
fn name(number: usize) -> String {
    let (day, generation) = (number % 28 + 1, number % FAMILY + 1);
    match kind(number) {
        Kind::DataStream(stream) => format!(".ds-{stream}-2026.11.{day:02}-{generation:06}"),
        Kind::Alias(alias) => format!("{alias}-2026.11.{day:02}-{generation:06}"),
        Kind::Plain => format!("logstash-orders-2026.11.{day:02}-{number:07}"),
    }
}

/// Returns an id of 22 characters, like those that a cluster generates.
fn id(kind: char, number: usize) -> String {
    format!("{kind}{number:09}xYz_0-AbCdEf")
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    let mut all = String::new();
    for part in parts {
        let comma = if all.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(all, "{comma}{part}");
    }
    all
}
