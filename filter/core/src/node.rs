use std::collections::BTreeMap;
use std::fmt;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

/// A node of the cluster, with the properties that the name of its upstream may depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The node's id. It changes whenever the node loses its data.
    pub id: String,
    /// The id of the node's process. It changes whenever the node starts.
    pub ephemeral_id: String,
    /// The name, `node.name`.
    pub name: String,
    /// The release, such as `8.19.2`, if it is known: see [`NodeInfo`].
    pub version: Option<String>,
    /// Whether the node runs ingest pipelines, if it is known. Any other node forwards operations under a pipeline to
    /// a node that does.
    pub runs_pipelines: Option<bool>,
    /// The custom attributes, `node.attr.*`.
    pub attributes: BTreeMap<String, String>,
    /// The address where the node takes HTTP requests, if it is known.
    pub http: Option<HttpAddress>,
    /// Whether the cluster still has the node.
    pub present: bool,
}

impl Node {
    /// Returns the three numbers of the node's release, if they are known.
    pub fn release(&self) -> Option<[u32; 3]> {
        let release = self.version.as_deref()?.split('-').next()?;
        let mut numbers = release.splitn(3, '.').map(str::parse::<u32>);
        Some([numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?])
    }
}

/// What a node reports in the answer to `GET _nodes/http`. The cluster's state has the release of each node on
/// Elasticsearch 8 and later, and the roles on Elasticsearch 7.17 and later; OpenSearch's has neither.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct NodeInfo {
    version: Option<String>,
    roles: Option<Vec<String>>,
    #[serde(default)]
    http: HttpInfo,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct HttpInfo {
    publish_address: Option<String>,
}

/// Returns whether a node with these roles runs ingest pipelines.
pub(crate) fn runs_pipelines(roles: &[String]) -> bool {
    roles.iter().any(|role| role == "ingest")
}

/// The address where a node takes HTTP requests: its `http.publish_address`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpAddress {
    /// The host name, or the IP address if the node publishes no name.
    pub host: String,
    /// The IP address.
    pub ip: String,
    /// The port.
    pub port: String,
}

impl fmt::Display for HttpAddress {
    /// Writes the IP address and the port: `10.0.0.7:9200` or `[::1]:9200`, as Envoy does.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ip, port, .. } = self;
        if ip.contains(':') { write!(to, "[{ip}]:{port}") } else { write!(to, "{ip}:{port}") }
    }
}

impl HttpAddress {
    /// Returns whether this is the address that Envoy writes like this.
    pub fn is(&self, written: &str) -> bool {
        let Some((ip, port)) = written.rsplit_once(':') else { return false };
        let ip = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
        self.port == port && self.ip == ip
    }

    /// Parses `127.0.0.1:9200`, `[::1]:9200` or `es-0.example/10.0.0.7:9200`. Returns `None` if there is no port.
    pub fn read(text: &str) -> Option<Self> {
        let (address, port) = text.rsplit_once(':')?;
        let (host, ip) = match address.split_once('/') {
            Some((host, ip)) => (Some(host), ip),
            None => (None, address),
        };
        let ip = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
        Some(Self { host: host.unwrap_or(ip).to_owned(), ip: ip.to_owned(), port: port.to_owned() })
    }
}

/// All nodes ever seen, so that a primary's node is a number. A number is never reused for another node.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Node>", into = "Vec<Node>")]
pub(crate) struct Nodes {
    list: Vec<Node>,
    numbers: HashMap<String, u16>,
}

impl Nodes {
    /// Replaces the nodes that the cluster has now, and returns whether anything changed. A node keeps what it has
    /// reported until it restarts. Returns `None` if more nodes were seen than there are numbers.
    pub fn update(&mut self, mut found: BTreeMap<String, Node>) -> Option<bool> {
        let mut changed = false;
        for known in &mut self.list {
            let node = match found.remove(&known.id) {
                Some(node) if known.ephemeral_id == node.ephemeral_id => Node {
                    version: node.version.or_else(|| known.version.clone()),
                    runs_pipelines: node.runs_pipelines.or(known.runs_pipelines),
                    http: known.http.clone(),
                    ..node
                },
                Some(node) => node,
                None => Node { present: false, ..known.clone() },
            };
            changed |= *known != node;
            *known = node;
        }
        for (id, node) in found {
            let number = u16::try_from(self.list.len()).ok().filter(|number| *number < u16::MAX - 1)?;
            self.numbers.insert(id, number);
            self.list.push(node);
            changed = true;
        }
        Some(changed)
    }

    /// Returns whether the release or the roles of a node are unknown, or its HTTP address if that is needed.
    pub fn lack_info(&self, needs_http: bool) -> bool {
        let lacks =
            |node: &Node| node.version.is_none() || node.runs_pipelines.is_none() || needs_http && node.http.is_none();
        self.list.iter().any(|node| node.present && lacks(node))
    }

    /// Returns whether the HTTP address of a node is unknown.
    pub fn lack_addresses(&self) -> bool {
        self.list.iter().any(|node| node.present && node.http.is_none())
    }

    /// Records what nodes have reported, by node id. A node that did not report keeps what is known.
    pub fn set_info(&mut self, found: &mut BTreeMap<String, NodeInfo>) {
        for node in &mut self.list {
            let Some(info) = found.remove(&node.id) else { continue };
            node.version = info.version.or(node.version.take());
            node.runs_pipelines = info.roles.map(|roles| runs_pipelines(&roles)).or(node.runs_pipelines);
            let http = info.http.publish_address.and_then(|address| HttpAddress::read(&address));
            node.http = http.or(node.http.take());
        }
    }

    /// Returns the number of the node with this id.
    pub fn number(&self, id: &str) -> Option<u16> {
        self.numbers.get(id).copied()
    }

    /// Returns all nodes, indexed by number.
    pub fn list(&self) -> &[Node] {
        &self.list
    }
}

impl From<Vec<Node>> for Nodes {
    fn from(list: Vec<Node>) -> Self {
        let numbers = (0..).zip(&list).map(|(number, node)| (node.id.clone(), number)).collect();
        Self { list, numbers }
    }
}

impl From<Nodes> for Vec<Node> {
    fn from(nodes: Nodes) -> Self {
        nodes.list
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(id: &str, name: &str) -> (String, Node) {
        (id.to_owned(), Node { id: id.to_owned(), name: name.to_owned(), present: true, ..Node::default() })
    }

    #[test]
    fn a_cluster_may_have_as_many_nodes_as_there_are_numbers() {
        let most = usize::from(u16::MAX) - 1;
        let found = |count: usize| (0..count).map(|number| node(&format!("{number:05}"), "es")).collect();
        let mut nodes = Nodes::default();
        assert_eq!(nodes.update(found(most)), Some(true));
        assert_eq!(nodes.number(&format!("{:05}", most - 1)).map(usize::from), Some(most - 1));
        assert_eq!(nodes.update(found(most + 1)), None);
    }

    #[test]
    fn a_node_keeps_its_number_and_its_address() {
        let mut nodes = Nodes::default();
        assert_eq!(nodes.update(BTreeMap::from([node("a", "es-0"), node("b", "es-1")])), Some(true));
        assert!(nodes.lack_info(false));
        let answer = |fields| serde_json::from_value::<BTreeMap<String, NodeInfo>>(fields).unwrap();
        nodes.set_info(&mut answer(json!({
            "a": {"version": "2.19.6", "roles": ["data"]},
            "b": {"version": "2.19.6", "roles": ["data", "ingest"], "http": {"publish_address": "127.0.0.1:9200"}},
            "z": {"version": "2.19.6"},
        })));
        assert_eq!((nodes.lack_info(false), nodes.lack_info(true)), (false, true));
        let address = HttpAddress::read("127.0.0.1:9200").unwrap();
        assert_eq!(nodes.update(BTreeMap::from([node("a", "es-0"), node("b", "es-1")])), Some(false));
        assert_eq!(nodes.update(BTreeMap::from([node("b", "es-1"), node("c", "es-0")])), Some(true));
        assert_eq!(["a", "b", "c", "d"].map(|id| nodes.number(id)), [Some(0), Some(1), Some(2), None]);
        let present: Vec<bool> = nodes.list().iter().map(|node| node.present).collect();
        assert_eq!((present, nodes.list()[1].http.as_ref()), (vec![false, true, true], Some(&address)));
        let known: Vec<_> = nodes.list().iter().map(|node| (node.version.as_deref(), node.runs_pipelines)).collect();
        assert_eq!(known, [(Some("2.19.6"), Some(false)), (Some("2.19.6"), Some(true)), (None, None)]);
        let (id, restarted) = node("b", "es-1");
        nodes.update(BTreeMap::from([(id, Node { ephemeral_id: "2".to_owned(), ..restarted })])).unwrap();
        assert_eq!((&nodes.list()[1].version, &nodes.list()[1].http), (&None, &None));
        let again = Nodes::from(Vec::from(nodes.clone()));
        assert_eq!((again.number("c"), again.list()), (Some(2), nodes.list()));
    }

    #[test]
    fn reads_the_numbers_of_releases() {
        let release = |version: &str| Node { version: Some(version.to_owned()), ..Node::default() }.release();
        assert_eq!(release("8.13.0"), Some([8, 13, 0]));
        assert_eq!(release("9.0.12-SNAPSHOT"), Some([9, 0, 12]));
        assert!(["8", "10.1", "f2c9a1", "8.x.1", "8.1.2.3", ""].map(release).iter().all(Option::is_none));
        assert_eq!(Node::default().release(), None);
    }

    #[test]
    fn reads_publish_addresses() {
        let read = |text| HttpAddress::read(text).map(|http| (http.host, http.ip, http.port));
        let some = |host: &str, ip: &str| Some((host.to_owned(), ip.to_owned(), "9200".to_owned()));
        assert_eq!(read("127.0.0.1:9200"), some("127.0.0.1", "127.0.0.1"));
        assert_eq!(read("[::1]:9200"), some("::1", "::1"));
        assert_eq!(read("es-0.example/10.0.0.7:9200"), some("es-0.example", "10.0.0.7"));
        assert_eq!(read("nowhere"), None);
        for written in ["127.0.0.1:9200", "[::1]:9200"] {
            let http = HttpAddress::read(written).unwrap();
            assert!(http.is(written) && http.to_string() == written && !http.is("127.0.0.1:9201") && !http.is("x"));
        }
    }
}
