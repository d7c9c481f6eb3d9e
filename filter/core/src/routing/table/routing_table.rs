use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::bucket::{Buckets, Entry, Target};
use super::formula::{Choice, Formula};
use super::index::{Index, IndexPipelines, NO_PIPELINE, ShardRoute};
use super::name_kind::NameKind;
use super::overrides::Overrides;
use super::primaries::Primary;
use super::unrouted::Unrouted;
use super::upstream::UpstreamId;
use crate::hash::hash;
use crate::node::Node;
use crate::routing::pipelines::{Harmless, Pipelines};

/// The location of each shard's primary, for every name that a bulk operation can write to.
///
/// A table is a snapshot: it stays the same when the cluster's state changes, except for [distrusted](Self::distrust)
/// indices.
#[derive(Debug)]
pub struct RoutingTable {
    pub(crate) buckets: Buckets,
    /// The upstream of each node, by the node's number.
    by_node: Rc<[Result<UpstreamId, Unrouted>]>,
    /// The same, even of nodes whose upstream Envoy does not have or that leads elsewhere.
    meant: Rc<[Option<UpstreamId>]>,
    /// The nodes, by number.
    nodes: Rc<[Node]>,
    /// Whether each node holds a started primary, by number.
    is_used: Box<[bool]>,
    /// The upstreams whose nodes hold a started primary.
    upstreams: Vec<UpstreamId>,
    /// The upstreams among them whose nodes run ingest pipelines.
    pub(crate) ingest_upstreams: Vec<UpstreamId>,
    /// The oldest release of a node, if all are known.
    oldest_release: Option<[u32; 3]>,
    /// Whether all nodes return the items of operations under a pipeline in the order of the request, even if the
    /// pipeline drops or fails some.
    pub(crate) orders_items: bool,
    /// Whether all nodes accept the parameter `_type` of operations: Elasticsearch 7 and OpenSearch 1 do. Other nodes
    /// refuse a whole request that has it.
    pub(crate) knows_types: bool,
    pipelines: Option<Rc<Pipelines>>,
}

/// The destination of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The node that holds the primary of the shard.
    Primary {
        /// The shard's number.
        shard: u32,
        /// The node's own upstream.
        upstream: UpstreamId,
    },
    /// Any node. The cluster generates the id, so the shard is not known yet.
    AnyNode,
}

impl RoutingTable {
    /// Creates a table from buckets, with each node, its upstream as configured and its upstream if it can be used, by the
    /// node's number.
    pub(crate) fn new(
        buckets: Buckets,
        nodes: Rc<[Node]>,
        meant: Rc<[Option<UpstreamId>]>,
        by_node: Rc<[Result<UpstreamId, Unrouted>]>,
        pipelines: Option<Rc<Pipelines>>,
    ) -> Self {
        let mut is_used = vec![false; by_node.len()];
        for node in buckets.nodes() {
            is_used.get_mut(usize::from(node)).into_iter().for_each(|is_used| *is_used = true);
        }
        let used = by_node.iter().enumerate().zip(&is_used).filter(|(_, is_used)| **is_used);
        let used = used.filter_map(|((node, upstream), _)| Some((nodes.get(node), upstream.ok()?)));
        let runs_pipelines = |node: Option<&Node>| node.is_some_and(|node| node.runs_pipelines == Some(true));
        let ingest = used.clone().filter(|(node, _)| runs_pipelines(*node)).map(|(_, upstream)| upstream);
        let ingest_upstreams = ingest.collect::<BTreeSet<_>>().into_iter().collect();
        let upstreams = used.map(|(_, upstream)| upstream).collect::<BTreeSet<_>>().into_iter().collect();
        let releases = nodes.iter().filter(|node| node.present).map(Node::release);
        Self {
            // An unknown release is less than any other.
            oldest_release: releases.clone().min().flatten(),
            orders_items: releases.clone().all(|release| release.is_some_and(orders_items)),
            knows_types: releases.clone().all(|release| matches!(release, Some([1 | 7, _, _]))),
            buckets,
            by_node,
            meant,
            nodes,
            upstreams,
            ingest_upstreams,
            pipelines,
            is_used: is_used.into(),
        }
    }

    /// Returns the index that writing to a name goes to. Fails if operations on the name are not routed.
    pub fn write_target(&self, name: &str) -> Result<WriteTarget<'_>, Unrouted> {
        let unknown = if name.starts_with('<') { Unrouted::DateMath } else { Unrouted::UnknownIndex };
        let (name, entry) = self.buckets.named(name).ok_or(unknown)?;
        Ok(match entry {
            Entry::Index(entry) => {
                WriteTarget { table: self, entry, name, kind: NameKind::Index, index: name, added_routing: None }
            }
            Entry::Target(Target { index, kind, routing, .. }) => {
                let index = index.as_deref().map_err(|why| *why)?;
                let entry = self.buckets.index(index).ok_or(Unrouted::UnknownIndex)?;
                WriteTarget { table: self, entry, name, kind: *kind, index, added_routing: routing.as_deref() }
            }
        })
    }

    /// Returns the destination of an operation on a name, given the hash of its id and its routing value. Fails if it
    /// is not routed.
    pub fn route(&self, name: &str, id_hash: Option<u32>, routing: Option<&str>) -> Result<Route, Unrouted> {
        self.write_target(name)?.route(id_hash, routing)
    }

    /// Returns whether writing to a name goes to this index.
    pub fn writes_to(&self, name: &str, index: &str) -> bool {
        let written = match self.buckets.get(name) {
            Some(Entry::Index(_)) => Some(name),
            Some(Entry::Target(Target { index, .. })) => index.as_deref().ok(),
            None => None,
        };
        written == Some(index) && self.buckets.index(index).is_some()
    }

    /// Stops routing to the index of this name until [`trust`](Self::trust) is called.
    pub fn distrust(&self, name: &str) {
        if let Ok(target) = self.write_target(name) {
            target.entry.distrusted.set(true);
        }
    }

    /// Routes to all indices again.
    pub fn trust(&self) {
        self.buckets.indices().for_each(|(_, index)| index.distrusted.set(false));
    }

    /// Returns whether all nodes know the parameter `require_data_stream` of bulk requests and their operations:
    /// Elasticsearch does from 8.13 on. Other nodes refuse a whole request that has it.
    pub fn knows_require_data_stream(&self) -> bool {
        self.oldest_release >= Some([8, 13, 0])
    }

    /// Returns whether all nodes know the parameter `dynamic_templates` of operations: Elasticsearch does from 7.13 on.
    /// Other nodes refuse a whole request that has it.
    pub fn knows_dynamic_templates(&self) -> bool {
        self.oldest_release >= Some([7, 13, 0])
    }

    /// Returns messages about settings in mappings that are ignored: of the first `most` indices that have such, in the
    /// order of their names. Also returns the number of further indices.
    pub fn mapping_warnings(&self, most: usize) -> (Vec<String>, usize) {
        let (mut first, mut all) = (BTreeMap::new(), 0_usize);
        for (name, index) in self.buckets.indices().filter(|(_, index)| index.has_problems()) {
            all = all.saturating_add(1);
            first.insert(name, index);
            if first.len() > most {
                first.pop_last();
            }
        }
        let left_out = all.saturating_sub(first.len());
        (first.into_iter().filter_map(|(name, index)| index.warning(name)).collect(), left_out)
    }

    /// Returns all upstreams whose nodes hold a started primary, in a fixed order.
    pub fn upstreams(&self) -> &[UpstreamId] {
        &self.upstreams
    }

    /// Returns whether a node may apply a document's own field `_routing`, or other metadata in it, to an operation under
    /// a pipeline. Elasticsearch does so before 8.4, and so does OpenSearch.
    pub fn applies_metadata_in_documents(&self) -> bool {
        self.oldest_release < Some([8, 4, 0])
    }

    /// Returns the verdicts on the cluster's pipelines, if they are known.
    pub fn pipelines(&self) -> Option<&Pipelines> {
        self.pipelines.as_deref()
    }

    /// Returns the cluster's nodes, each with its upstream or the reason why it has none.
    pub fn nodes(&self) -> impl Iterator<Item = (&Node, Result<UpstreamId, Unrouted>)> + Clone {
        self.nodes.iter().zip(self.by_node.iter().copied()).filter(|(node, _)| node.present)
    }

    /// Returns the same, each with the upstream that is configured for it, even if that cannot be used.
    pub fn nodes_as_meant(&self) -> impl Iterator<Item = (&Node, Option<UpstreamId>, Option<Unrouted>)> + Clone {
        let meant = self.nodes.iter().zip(self.meant.iter()).filter(|(node, _)| node.present);
        meant.zip(self.nodes()).map(|((node, meant), (_, usable))| (node, *meant, usable.err()))
    }

    /// Returns the node with this number.
    pub(crate) fn node(&self, number: u16) -> Option<&Node> {
        self.nodes.get(usize::from(number))
    }

    /// Returns the nodes that hold a started primary, each with its number.
    pub(crate) fn nodes_with_primaries(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes.iter().enumerate().zip(&self.is_used).filter(|(_, is_used)| **is_used).map(|(node, _)| node)
    }

    /// Returns whether this is the upstream of a node.
    pub fn has_node(&self, upstream: UpstreamId) -> bool {
        self.by_node.contains(&Ok(upstream))
    }

    /// Returns the upstream of the node with this number.
    pub(crate) fn upstream(&self, node: u16) -> Result<UpstreamId, Unrouted> {
        *self.by_node.get(usize::from(node)).unwrap_or(&Err(Unrouted::Upstream))
    }
}

/// Returns whether this release returns the items of operations under a pipeline in order: Elasticsearch does from
/// 7.17.18 and 8.13 on. OpenSearch's releases have lower numbers, and none of them does. There, order is not all that is
/// missing: since 2.16, a malformed document fails all documents of the request with its index and pipelines.
fn orders_items(release: [u32; 3]) -> bool {
    release >= [8, 13, 0] || ([7, 17, 18]..[8, 0, 0]).contains(&release)
}

/// The pipelines that the cluster runs for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingest {
    /// None.
    None,
    /// Pipelines that leave the index, the id and the routing value of the document alone.
    Harmless(Harmless),
    /// Pipelines that may change where the document goes.
    Unproven,
}

/// The shards of an index, among which the id of an operation decides.
#[derive(Debug, Clone, Copy)]
pub struct ShardsById<'a> {
    table: &'a RoutingTable,
    /// The rule.
    pub formula: Formula,
    primaries: &'a [Primary],
}

impl ShardsById<'_> {
    /// Returns the upstream of each shard's primary, by shard; `None` if the shard has no usable one.
    pub fn upstreams(&self) -> impl ExactSizeIterator<Item = Option<UpstreamId>> + Clone {
        self.primaries.iter().map(|primary| self.table.upstream(primary.node()?).ok())
    }
}

/// The index that writing to a name goes to. The name is the index's own, an alias or a data stream.
#[derive(Debug, Clone, Copy)]
pub struct WriteTarget<'a> {
    table: &'a RoutingTable,
    entry: &'a Index,
    /// The name.
    pub name: &'a str,
    /// The kind of the name.
    pub kind: NameKind,
    /// The name of the index itself.
    pub index: &'a str,
    /// The routing value that operations without one get.
    pub added_routing: Option<&'a str>,
}

impl<'a> WriteTarget<'a> {
    /// Returns the number of the index, the same for all its aliases.
    pub fn number(&self) -> u32 {
        self.entry.number()
    }

    /// Returns whether the index asks the cluster to wait for copies of a shard before it writes.
    pub fn waits(&self) -> bool {
        self.entry.waits
    }

    /// Returns whether the cluster carries out the update of a single document in another way than one in a bulk request:
    /// with other inference, with the routing value of an alias, which replaces that of the document, or without a wait
    /// for copies if it changes nothing.
    pub fn has_other_updates(&self) -> bool {
        self.entry.has_other_updates || self.added_routing.is_some() || self.waits()
    }

    /// Returns the computation of an operation's shard, whether its primary is started or not. Returns `None` if the
    /// cluster chooses the shard. Fails if the index is unrouted.
    pub fn choice(&self, id_hash: Option<u32>, routing: Option<&str>) -> Result<Option<Choice>, Unrouted> {
        self.entry.choice(id_hash, self.added_routing.or(routing).map(hash))
    }

    /// Returns the index's number of shards, or zero if it is unknown.
    pub fn shards(&self) -> u32 {
        self.entry.primaries().len() as u32
    }

    /// Returns the node that holds a shard's started primary. Returns `None` if no primary is started, or if the
    /// cluster does not report the node.
    pub fn primary(&self, shard: u32) -> Option<&'a Node> {
        self.table.node(self.entry.primaries().get(shard as usize)?.node()?)
    }

    /// Returns the settings that the index itself makes for its operations.
    pub fn overrides(&self) -> Overrides {
        self.entry.overrides
    }

    /// Returns the names of the pipelines that the cluster runs for an operation that names this one: instead of the
    /// index's default pipeline, and before its final one.
    pub fn pipeline_names(&self, named: Option<&'a str>) -> impl Iterator<Item = &'a str> {
        let of_index = self.entry.pipelines.as_deref();
        let first = named.or(of_index.and_then(|IndexPipelines { default, .. }| default.as_deref()));
        let last = of_index.and_then(|IndexPipelines { last, .. }| last.as_deref());
        first.filter(|name| *name != NO_PIPELINE).into_iter().chain(last)
    }

    /// Returns the pipelines that the cluster runs for an operation other than a deletion, which may name one. Fails if
    /// there are any and nodes do not return the items in order.
    pub fn ingest(&self, named: Option<&str>) -> Result<Ingest, Unrouted> {
        if self.entry.pipelines.is_none() && named.is_none_or(|name| name == NO_PIPELINE) {
            return Ok(Ingest::None);
        }
        let mut ingest = Ingest::None;
        for name in self.pipeline_names(named) {
            if !self.table.orders_items {
                return Err(if named.is_some() { Unrouted::NamedPipeline } else { Unrouted::IndexPipeline });
            }
            let verdict = self.table.pipelines.as_ref().and_then(|pipelines| pipelines.verdict(name));
            ingest = match (ingest, verdict) {
                (Ingest::None, Some(Ok(harmless))) => Ingest::Harmless(*harmless),
                (Ingest::Harmless(other), Some(Ok(harmless))) => Ingest::Harmless(harmless.and(other)),
                _ => Ingest::Unproven,
            };
        }
        Ok(ingest)
    }

    /// Returns whether the node of this upstream runs ingest pipelines.
    pub fn runs_pipelines(&self, upstream: UpstreamId) -> bool {
        self.table.ingest_upstreams.binary_search(&upstream).is_ok()
    }

    /// Returns the destination of an operation, given the hash of its id and its routing value. Fails if it is not
    /// routed.
    pub fn route(&self, id_hash: Option<u32>, routing: Option<&str>) -> Result<Route, Unrouted> {
        let added = self.added_routing;
        if added.is_some() && routing.is_some() && added != routing {
            return Err(Unrouted::AliasRouting);
        }
        match self.entry.route(id_hash, added.or(routing).map(hash))? {
            Some(route) => self.route_to(route),
            None => Ok(Route::AnyNode),
        }
    }

    /// Returns a routing value for operations without id and routing, which leads all of them to one shard, and the
    /// destination. Successive values of `ticket` lead to different shards. Returns `None` if the routing value alone
    /// does not decide.
    pub fn direct(&self, ticket: usize) -> Option<(u32, Route)> {
        if self.added_routing.is_some() {
            return None;
        }
        let (value, route) = self.entry.direct(ticket, |node| self.table.upstream(node).is_ok())?;
        Some((value, self.route_to(route).ok()?))
    }

    /// Returns the shards among which the id of an operation without a routing value decides. Returns `None` if an id alone
    /// does not decide.
    pub fn shards_by_id(&self) -> Option<ShardsById<'a>> {
        let (formula, primaries) = self.entry.by_id().filter(|_| self.added_routing.is_none())?;
        Some(ShardsById { table: self.table, formula, primaries })
    }

    fn route_to(&self, ShardRoute { shard, node }: ShardRoute) -> Result<Route, Unrouted> {
        Ok(Route::Primary { shard, upstream: self.table.upstream(node)? })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::index::Index;
    use super::super::index_metadata::IndexMetadata;
    use super::super::primaries::Primaries;
    use super::super::upstream::Upstreams;
    use super::*;
    use crate::config::Enabled;
    use crate::hash::hash;

    /// Creates an index of two shards, the first on node 0.
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

    /// Creates a table with three nodes, the last without an upstream.
    fn table() -> (RoutingTable, Upstreams) {
        let mut upstreams = Upstreams::new("es");
        let by_node =
            [Ok(upstreams.intern("es-0").unwrap()), Ok(upstreams.intern("es-1").unwrap()), Err(Unrouted::Upstream)];
        let mut buckets = Buckets::default();
        for (name, entry) in [
            ("i", Entry::Index(index("i", Primary::on(1)))),
            ("far", Entry::Index(index("far", Primary::on(2)))),
            ("off", Entry::Index(index("off", Primary::NOT_STARTED))),
            ("plain", target(Ok("i"), None)),
            ("fixed", target(Ok("i"), Some("1"))),
            ("lost", target(Ok("gone"), None)),
            ("read", target(Err(Unrouted::Alias), None)),
        ] {
            buckets.change(Buckets::number(name), |names| {
                names.insert(name.into(), entry);
            });
        }
        (RoutingTable::new(buckets, [].into(), [].into(), by_node.into(), None), upstreams)
    }

    /// Returns an id that leads to this shard.
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
    fn an_alias_leads_to_its_write_index_and_may_add_routing() {
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
        assert_eq!((enabled("plain"), enabled("off")), (Some(Enabled::Yes), Some(Enabled::No)));
    }

    #[test]
    fn distrust_applies_to_every_name_of_an_index() {
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
        for ticket in 0..4 {
            for index in ["i", "far", "plain"] {
                let (value, route) = table.write_target(index).unwrap().direct(ticket).unwrap();
                assert_eq!(table.route(index, None, Some(&value.to_string())), Ok(route));
            }
        }
        assert_eq!(table.write_target("fixed").unwrap().direct(0), None);
    }
}
