use std::rc::Rc;

use super::section::{Entry, Sections, Target};
use super::{NameKind, Node, Unrouted, UpstreamId, WriteTarget};

/// Where the primary of each shard is, for every name that a bulk operation can write to.
///
/// A snapshot: it stays as it is when the cluster's state changes, but for what is [distrusted](Self::distrust).
#[derive(Debug)]
pub struct RoutingTable {
    pub(super) sections: Sections,
    /// By the node's number.
    by_node: Rc<[Result<UpstreamId, Unrouted>]>,
    /// Likewise.
    nodes: Rc<[Node]>,
    /// Upstreams that hold a started primary.
    upstreams: Vec<UpstreamId>,
    knows_require_data_stream: bool,
}

/// Where an operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// To the node that holds the primary of its shard.
    Primary {
        /// Tells its index from others: the same for all its aliases.
        index: u64,
        /// The shard's number.
        shard: u32,
        /// The node's own upstream.
        upstream: UpstreamId,
    },
    /// To any node: its id is made by the cluster, and nobody knows its shard yet.
    AnyNode,
}

impl RoutingTable {
    /// A table of these sections, with each node and its upstream by the node's number.
    pub(super) fn new(sections: Sections, nodes: Rc<[Node]>, by_node: Rc<[Result<UpstreamId, Unrouted>]>) -> Self {
        let mut is_used = vec![false; by_node.len()];
        for node in sections.nodes() {
            is_used.get_mut(usize::from(node)).into_iter().for_each(|is_used| *is_used = true);
        }
        let used = by_node.iter().zip(is_used).filter(|(_, is_used)| *is_used);
        let mut upstreams: Vec<UpstreamId> = used.filter_map(|(upstream, _)| upstream.ok()).collect();
        upstreams.sort_unstable();
        upstreams.dedup();
        let mut present = nodes.iter().filter(|node| node.present).peekable();
        let knows_require_data_stream = present.peek().is_some() && present.all(Node::knows_require_data_stream);
        Self { sections, by_node, nodes, upstreams, knows_require_data_stream }
    }

    /// What writing to a name goes to.
    pub fn write_target(&self, name: &str) -> Result<WriteTarget<'_>, Unrouted> {
        let unknown = if name.starts_with('<') { Unrouted::DateMath } else { Unrouted::UnknownIndex };
        let (name, entry) = self.sections.named(name).ok_or(unknown)?;
        let (index_name, index, kind, added_routing) = match entry {
            Entry::Index(index) => (name, index, NameKind::Index, None),
            Entry::Target(Target { index: index_name, kind, routing, .. }) => {
                let index_name = index_name.as_deref().map_err(|why| *why)?;
                let index = self.sections.index(index_name).ok_or(Unrouted::UnknownIndex)?;
                (index_name, index, *kind, routing.as_deref())
            }
        };
        Ok(WriteTarget { table: self, name, index_name, index, kind, added_routing })
    }

    /// Where an operation on a name goes, given the hash of its id and its routing value.
    pub fn route(&self, name: &str, id_hash: Option<u32>, routing: Option<&str>) -> Result<Route, Unrouted> {
        self.write_target(name)?.route(id_hash, routing)
    }

    /// Whether a name stands for this index.
    pub fn writes_to(&self, name: &str, index: &str) -> bool {
        let written = match self.sections.get(name) {
            Some(Entry::Index(_)) => Some(name),
            Some(Entry::Target(Target { index, .. })) => index.as_deref().ok(),
            None => None,
        };
        written == Some(index) && self.sections.index(index).is_some()
    }

    /// Routes nothing to the index of this name until it is [trusted](Self::trust) again.
    pub fn distrust(&self, name: &str) {
        if let Ok(target) = self.write_target(name) {
            target.index.distrusted.set(true);
        }
    }

    /// Routes to all indices again.
    pub fn trust(&self) {
        self.sections.entries().filter_map(Entry::index).for_each(|index| index.distrusted.set(false));
    }

    /// Whether [all nodes do](Node::knows_require_data_stream).
    pub fn knows_require_data_stream(&self) -> bool {
        self.knows_require_data_stream
    }

    /// All upstreams that hold a started primary, in a fixed order.
    pub fn upstreams(&self) -> &[UpstreamId] {
        &self.upstreams
    }

    /// The nodes that the cluster has, each with its upstream or why it gets nothing.
    pub fn nodes(&self) -> impl Iterator<Item = (&Node, Result<UpstreamId, Unrouted>)> + Clone {
        self.nodes.iter().zip(self.by_node.iter().copied()).filter(|(node, _)| node.present)
    }

    /// The upstream of the node with this id, if it has one.
    pub fn upstream_of(&self, id: &str) -> Option<UpstreamId> {
        self.nodes().find(|(node, _)| node.id == id)?.1.ok()
    }

    /// The node with this number.
    pub(super) fn node(&self, number: u16) -> Option<&Node> {
        self.nodes.get(usize::from(number))
    }

    /// Whether it is the upstream of a node.
    pub fn has_node(&self, upstream: UpstreamId) -> bool {
        self.by_node.contains(&Ok(upstream))
    }

    /// The upstream of the node with this number.
    pub(super) fn upstream(&self, node: u16) -> Result<UpstreamId, Unrouted> {
        *self.by_node.get(usize::from(node)).unwrap_or(&Err(Unrouted::Upstream))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::index::Index;
    use super::super::index_metadata::IndexMetadata;
    use super::super::primaries::{Primaries, Primary};
    use super::super::{Upstreams, hash};
    use super::*;

    /// An index of two shards, the first on node 0.
    fn index(name: &str, second: Primary) -> Index {
        let metadata: IndexMetadata = serde_json::from_value(json!({
            "version": 1, "state": "open", "routing_num_shards": 1024,
            "settings": {"index": {"uuid": name, "number_of_shards": "2", "version": {"created": "136408127"}}},
            "mappings": {"_doc": {"_meta": {"bulk_reshuffle": {"enabled": name != "off"}}}},
        }))
        .unwrap();
        let primaries = Primaries { list: [Primary::on(0), second].into(), settled: true };
        Index::new(name, Some(&metadata), Some(&primaries))
    }

    fn target(index: Result<&str, Unrouted>, routing: Option<&str>) -> Entry {
        Entry::Target(Target::new(index, routing))
    }

    /// Of the three nodes the last has no upstream.
    fn table() -> (RoutingTable, Upstreams) {
        let mut upstreams = Upstreams::new("es");
        let by_node =
            [Ok(upstreams.intern("es-0").unwrap()), Ok(upstreams.intern("es-1").unwrap()), Err(Unrouted::Upstream)];
        let mut sections = Sections::default();
        for (name, entry) in [
            ("i", Entry::Index(index("i", Primary::on(1)))),
            ("far", Entry::Index(index("far", Primary::on(2)))),
            ("off", Entry::Index(index("off", Primary::NOT_STARTED))),
            ("plain", target(Ok("i"), None)),
            ("fixed", target(Ok("i"), Some("1"))),
            ("lost", target(Ok("gone"), None)),
            ("read", target(Err(Unrouted::Alias), None)),
        ] {
            sections.change(Sections::number(name), |names| {
                names.insert(name.into(), entry);
            });
        }
        (RoutingTable::new(sections, [].into(), by_node.into()), upstreams)
    }

    /// An id of this shard.
    fn id(shard: u32) -> String {
        let index = index("i", Primary::on(1));
        let leads = |id: &String| index.route(Some(hash(id)), None).unwrap().unwrap().shard == shard;
        (0..).map(|number: u32| number.to_string()).find(leads).unwrap()
    }

    #[test]
    fn a_shard_leads_to_the_upstream_of_its_node() {
        let (table, upstreams) = table();
        let route = |index, shard: u32| match table.route(index, Some(hash(&id(shard))), None) {
            Ok(Route::Primary { shard, upstream, .. }) => Ok((shard, upstreams.name(upstream).to_string())),
            Ok(Route::AnyNode) => panic!("any node"),
            Err(why) => Err(why),
        };
        assert_eq!(route("i", 0), Ok((0, "es-0".into())));
        assert_eq!(route("i", 1), Ok((1, "es-1".into())));
        assert_eq!((route("far", 0).is_ok(), route("far", 1)), (true, Err(Unrouted::Upstream)));
        assert_eq!(route("off", 1), Err(Unrouted::Primary));
        assert_eq!(table.route("i", None, None), Ok(Route::AnyNode));
        assert_eq!(table.upstreams().len(), 2);
    }

    #[test]
    fn an_alias_leads_to_its_write_index_and_may_add_a_routing_value() {
        let (table, _) = table();
        let route = |index, routing| table.route(index, Some(hash(&id(1))), routing);
        assert_eq!(route("plain", None), route("i", None));
        assert_eq!(route("fixed", None), route("i", Some("1")));
        assert_eq!(route("fixed", Some("1")), route("i", Some("1")));
        assert_ne!(route("fixed", None), route("i", None));
        assert_eq!(route("fixed", Some("2")), Err(Unrouted::AliasRouting));
        assert_eq!(route("read", None), Err(Unrouted::Alias));
        assert_eq!(route("lost", None), Err(Unrouted::UnknownIndex));
        assert_eq!(route("nothing", None), Err(Unrouted::UnknownIndex));
        assert_eq!(route("<logs-{now/d}>", None), Err(Unrouted::DateMath));
        assert!(table.writes_to("plain", "i") && table.writes_to("i", "i"));
        assert!(!table.writes_to("lost", "gone") && !table.writes_to("far", "i") && !table.writes_to("read", "i"));
        let enabled = |name| table.write_target(name).unwrap().overrides().enabled;
        assert_eq!((enabled("plain"), enabled("off")), (Some(true), Some(false)));
    }

    #[test]
    fn distrust_holds_for_the_index_by_any_name() {
        let (table, _) = table();
        table.distrust("plain");
        assert_eq!(table.route("i", Some(1), None), Err(Unrouted::Distrusted));
        assert!(table.route("far", Some(hash(&id(0))), None).is_ok());
        table.trust();
        assert!(table.route("i", Some(1), None).is_ok());
    }

    #[test]
    fn a_direct_value_leads_to_a_node_with_an_upstream() {
        let (table, _) = table();
        for turn in 0..4 {
            for index in ["i", "far", "plain"] {
                let (value, route) = table.write_target(index).unwrap().direct(turn).unwrap();
                assert_eq!(table.route(index, None, Some(&value.to_string())), Ok(route));
            }
        }
        assert_eq!(table.write_target("fixed").unwrap().direct(0), None);
    }
}
