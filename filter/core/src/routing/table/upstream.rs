use std::rc::Rc;

use hashbrown::HashMap;

use crate::config::{Config, OneCluster};
use crate::invariant::found;
use crate::node::Node;

/// A destination of batches, by its number in [`Upstreams`]: one of Envoy's clusters, or a node in the cluster that has
/// all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UpstreamId(u16);

impl UpstreamId {
    /// The coordinator, which takes all unrouted operations.
    pub const COORDINATOR: Self = Self(0);

    /// Returns the upstream of the queries for the cluster state.
    pub(crate) fn polled(config: &Config) -> Self {
        if config.polled().0 == config.coordinator { Self::COORDINATOR } else { Self(1) }
    }

    /// Returns its number.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// All upstreams ever seen, so that everything else can use numbers.
#[derive(Debug)]
pub struct Upstreams {
    list: Vec<Upstream>,
    numbers: HashMap<Rc<str>, UpstreamId>,
    /// The Envoy cluster that has all nodes, and the header that names the node.
    one_cluster: Option<(Rc<str>, Rc<str>)>,
    /// The upstream of the queries for the cluster state.
    polled: UpstreamId,
}

#[derive(Debug)]
struct Upstream {
    /// The name of the Envoy cluster, or of the node in the cluster that has all nodes.
    name: Rc<str>,
    /// The node's latest address in the cluster that has all nodes.
    address: Option<Rc<str>>,
}

/// How Envoy finds an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTarget {
    /// The Envoy cluster.
    pub cluster: Rc<str>,
    /// The header that names the node in it, and its value: the node's address.
    pub node: Option<(Rc<str>, Rc<str>)>,
}

impl Upstreams {
    /// Creates a list with only the coordinator. Every node has an Envoy cluster of its own.
    pub fn new(coordinator: &str) -> Self {
        let name: Rc<str> = coordinator.into();
        let coordinator = Upstream { name: Rc::clone(&name), address: None };
        Self {
            list: vec![coordinator],
            numbers: [(name, UpstreamId::COORDINATOR)].into(),
            one_cluster: None,
            polled: UpstreamId::COORDINATOR,
        }
    }

    /// Creates a list with the coordinator and the upstream of the queries for the cluster state, for nodes that are
    /// reached as configured.
    pub fn of(config: &Config) -> Self {
        let one_cluster = config.nodes.one_cluster().map(|OneCluster { name, header }| {
            (name.as_ref().unwrap_or(&config.coordinator).as_str().into(), header.as_str().into())
        });
        let mut upstreams = Self { one_cluster, polled: UpstreamId::polled(config), ..Self::new(&config.coordinator) };
        let polled = upstreams.intern(config.polled().0);
        debug_assert_eq!(polled, Some(upstreams.polled), "it is the second one, or the coordinator");
        upstreams
    }

    /// Returns the number of the Envoy cluster with this name, and adds it if it is new. Returns `None` if there would be
    /// more than 65,536 upstreams.
    pub fn intern(&mut self, name: &str) -> Option<UpstreamId> {
        if let Some(known) = self.numbers.get(name) {
            return Some(*known);
        }
        let upstream = UpstreamId(u16::try_from(self.list.len()).ok()?);
        let name: Rc<str> = name.into();
        self.list.push(Upstream { name: Rc::clone(&name), address: None });
        self.numbers.insert(name, upstream);
        Some(upstream)
    }

    /// Returns the number of a node in the cluster that has all nodes, and notes the node's address. Its name is the
    /// node's, as long as no other upstream is called so: then it is the node's id.
    pub fn intern_node(
        &mut self,
        node: &Node,
        address: &str,
        is_taken: impl Fn(UpstreamId) -> bool,
    ) -> Option<UpstreamId> {
        let polled = self.polled;
        let is_other = |id: UpstreamId| id == UpstreamId::COORDINATOR || id == polled || is_taken(id);
        let by_name = self.numbers.get(node.name.as_str()).copied();
        let upstream = self.intern(if by_name.is_some_and(is_other) { &node.id } else { &node.name })?;
        let known = self.list.get_mut(upstream.index()).filter(|_| !is_other(upstream))?;
        if known.address.as_deref() != Some(address) {
            known.address = Some(address.into());
        }
        Some(upstream)
    }

    /// Returns all of them.
    pub fn ids(&self) -> impl Iterator<Item = UpstreamId> {
        (0..=u16::MAX).take(self.list.len()).map(UpstreamId)
    }

    /// Returns the name of an upstream, for metrics and pages.
    pub fn name(&self, upstream: UpstreamId) -> Rc<str> {
        self.get(upstream).map(|known| Rc::clone(&known.name)).unwrap_or_default()
    }

    /// Returns the address of a node in the cluster that has all nodes.
    pub fn address(&self, upstream: UpstreamId) -> Option<&Rc<str>> {
        self.get(upstream)?.address.as_ref()
    }

    /// Returns the name of an upstream, with the node's address if it has one, for people.
    pub fn name_and_address(&self, upstream: UpstreamId) -> String {
        let name = self.name(upstream);
        self.address(upstream).map_or_else(|| name.to_string(), |address| format!("{name} at {address}"))
    }

    /// Returns how Envoy finds an upstream.
    pub fn target(&self, upstream: UpstreamId) -> CallTarget {
        match self.one_cluster.as_ref().zip(self.address(upstream)) {
            Some(((cluster, header), address)) => {
                CallTarget { cluster: Rc::clone(cluster), node: Some((Rc::clone(header), Rc::clone(address))) }
            }
            None => CallTarget { cluster: self.name(upstream), node: None },
        }
    }

    /// Returns the upstream of the queries for the cluster state.
    pub fn polled(&self) -> UpstreamId {
        self.polled
    }

    /// Returns the header that names the node in calls to the cluster that has all nodes.
    pub fn node_header(&self) -> Option<&str> {
        self.one_cluster.as_ref().map(|(_, header)| header.as_ref())
    }

    fn get(&self, upstream: UpstreamId) -> Option<&Upstream> {
        found(self.list.get(upstream.index()), "each number has its upstream")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstreams(nodes: &str) -> Upstreams {
        Upstreams::of(&Config::read(format!(r#"{{"coordinator":"es","nodes":{nodes}}}"#).as_bytes()).unwrap())
    }

    fn node(id: &str, name: &str) -> Node {
        Node { id: id.to_owned(), name: name.to_owned(), ..Node::default() }
    }

    #[test]
    fn a_name_keeps_its_number() {
        let mut upstreams = upstreams("{}");
        let first = upstreams.intern("es-0").unwrap();
        assert_eq!(upstreams.intern("es-1").unwrap().index(), 2);
        assert_eq!(upstreams.intern("es-0"), Some(first));
        assert_eq!(upstreams.intern("es"), Some(UpstreamId::COORDINATOR));
        assert_eq!(upstreams.target(first), CallTarget { cluster: "es-0".into(), node: None });
        let names: Vec<_> = upstreams.ids().map(|id| upstreams.name(id)).collect();
        assert_eq!(names.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), ["es", "es-0", "es-1"]);
    }

    #[test]
    fn the_upstream_of_the_polls_is_not_a_nodes() {
        let config = br#"{"coordinator":"es","nodes":{"header":"x-node"},"cluster_state":{"upstream":"es-0"}}"#;
        let mut upstreams = Upstreams::of(&Config::read(config).unwrap());
        let of_node = upstreams.intern_node(&node("a", "es-0"), "10.0.0.1:9200", |_| false).unwrap();
        assert_eq!(upstreams.name(of_node).as_ref(), "a");
        assert_eq!(upstreams.target(upstreams.polled()), CallTarget { cluster: "es-0".into(), node: None });
    }

    #[test]
    fn a_node_keeps_its_number_when_its_address_changes() {
        let mut upstreams = upstreams(r#"{"header":"x-node"}"#);
        let node = node("a", "es-0");
        let first = upstreams.intern_node(&node, "10.0.0.1:9200", |_| false).unwrap();
        let header = |address: &str| Some(("x-node".into(), address.into()));
        assert_eq!(upstreams.target(first), CallTarget { cluster: "es".into(), node: header("10.0.0.1:9200") });
        assert_eq!(upstreams.intern_node(&node, "10.0.0.9:9200", |_| false), Some(first));
        assert_eq!(upstreams.target(first).node, header("10.0.0.9:9200"));
        assert_eq!((upstreams.name(first).as_ref(), upstreams.address(first)), ("es-0", Some(&"10.0.0.9:9200".into())));
        assert_eq!(upstreams.target(UpstreamId::COORDINATOR), CallTarget { cluster: "es".into(), node: None });
        let names = [first, UpstreamId::COORDINATOR].map(|id| upstreams.name_and_address(id));
        assert_eq!(names, ["es-0 at 10.0.0.9:9200", "es"]);
    }

    /// Otherwise the operations of one node would go to another one, or all to the coordinator.
    #[test]
    fn nodes_with_the_name_of_another_upstream_are_called_by_their_ids() {
        let mut upstreams = upstreams(r#"{"header":"x-node","upstream":"nodes"}"#);
        let first = upstreams.intern_node(&node("a", "es-0"), "1:1", |_| false).unwrap();
        let second = upstreams.intern_node(&node("b", "es-0"), "2:1", |id| id == first).unwrap();
        let third = upstreams.intern_node(&node("c", "es"), "3:1", |id| id <= second).unwrap();
        assert_eq!([first, second, third].map(|id| upstreams.name(id).to_string()), ["es-0", "b", "c"]);
        let addresses = [first, second, third].map(|id| upstreams.address(id).unwrap().to_string());
        assert_eq!(addresses, ["1:1", "2:1", "3:1"]);
        assert_eq!(upstreams.target(third).cluster.as_ref(), "nodes");
        // Even the id may be the name of another node.
        assert_eq!(upstreams.intern_node(&node("b", "es-0"), "4:1", |id| id <= third), None);
    }
}
