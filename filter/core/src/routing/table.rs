use std::cell::Cell;
use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::cluster_state::{IndexMetadata, ShardCopy, ShardTable};
use super::formula::partitioned;
use super::{Aliases, ClusterState, Formula, Unrouted, UpstreamId, UpstreamTemplate, Upstreams, hash};

/// Where the primary of each shard is, for every name that a bulk operation can write to.
#[derive(Debug, Default)]
pub struct RoutingTable {
    names: HashMap<Box<str>, Name>,
    indices: Vec<Result<Index, Unrouted>>,
    /// Upstreams that hold a started primary.
    upstreams: Vec<UpstreamId>,
}

/// Where an operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// To the node that holds the primary of its shard.
    Primary {
        /// The shard's number.
        shard: u32,
        /// The node's own upstream.
        upstream: UpstreamId,
    },
    /// To any node: its id is made by the cluster, and nobody knows its shard yet.
    AnyNode,
}

#[derive(Debug)]
enum Name {
    Index(u32),
    Alias { index: u32, routing: Option<Box<str>> },
    Unrouted(Unrouted),
}

#[derive(Debug)]
struct Index {
    /// Whether answers for it came out of order since the cluster's state was looked at last.
    distrusted: Cell<bool>,
    formula: Formula,
    partition_size: u32,
    routing_required: bool,
    /// The upstream of each shard's primary.
    primaries: Box<[Result<UpstreamId, Unrouted>]>,
}

impl RoutingTable {
    /// Builds the table from a cluster's state and its aliases.
    pub fn new(
        state: &ClusterState,
        aliases: &Aliases,
        template: &UpstreamTemplate,
        upstreams: &mut Upstreams,
    ) -> Self {
        let nodes: BTreeMap<&str, UpstreamId> = state
            .nodes
            .iter()
            .filter_map(|(id, node)| Some((id.as_str(), upstreams.intern(&template.upstream(id, node)?)?)))
            .collect();
        let mut table = Self::default();
        for (name, metadata) in &state.metadata.indices {
            table.add_index(name, Index::new(metadata, state.routing_table.indices.get(name), &nodes));
        }
        for (alias, target) in aliases.write_targets() {
            let name = match target.and_then(|target| Some((table.index_number(target.index)?, target.routing))) {
                Some((index, routing)) => Name::Alias { index, routing: routing.map(Into::into) },
                None => Name::Unrouted(Unrouted::Alias),
            };
            table.names.insert(alias.into(), name);
        }
        let primaries = table.indices.iter().flatten().flat_map(|index| index.primaries.iter().flatten());
        let mut distinct: Vec<_> = primaries.copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        table.upstreams = distinct;
        table
    }

    /// Where an operation on `index` goes, given the hash of its id and its routing value.
    pub fn route(&self, index: &str, id_hash: Option<u32>, routing: Option<&str>) -> Result<Route, Unrouted> {
        let (number, added) = match self.names.get(index).ok_or(Unrouted::UnknownIndex)? {
            Name::Index(number) => (*number, None),
            Name::Alias { index, routing } => (*index, routing.as_deref()),
            Name::Unrouted(why) => return Err(*why),
        };
        if added.is_some() && routing.is_some() && added != routing {
            return Err(Unrouted::AliasRouting);
        }
        let index = self.indices.get(number as usize).ok_or(Unrouted::UnknownIndex)?;
        index.as_ref().map_err(|why| *why)?.route(id_hash, added.or(routing).map(hash))
    }

    /// Whether a name stands for this index.
    pub fn writes_to(&self, name: &str, index: &str) -> bool {
        self.number(name).is_some_and(|number| self.index_number(index) == Some(number))
    }

    /// Routes nothing to the index of this name until it is [trusted](Self::trust) again.
    pub fn distrust(&self, name: &str) {
        let index = self.number(name).and_then(|number| self.indices.get(number as usize));
        if let Some(Ok(index)) = index {
            index.distrusted.set(true);
        }
    }

    /// Routes to all indices again.
    pub fn trust(&self) {
        self.indices.iter().flatten().for_each(|index| index.distrusted.set(false));
    }

    /// A routing value for operations on `index` that have neither id nor routing, which leads all of them to one
    /// shard, and the upstream of its primary: another shard for each turn. `None` where the routing value alone does
    /// not decide.
    pub fn direct(&self, index: &str, turn: usize) -> Option<(u32, UpstreamId)> {
        let (Name::Index(number) | Name::Alias { index: number, routing: None }) = self.names.get(index)? else {
            return None;
        };
        self.indices.get(*number as usize)?.as_ref().ok()?.direct(turn)
    }

    /// All upstreams that hold a started primary, in a fixed order.
    pub fn upstreams(&self) -> &[UpstreamId] {
        &self.upstreams
    }

    fn add_index(&mut self, name: &str, index: Result<Index, Unrouted>) {
        let Ok(number) = u32::try_from(self.indices.len()) else { return };
        self.indices.push(index);
        self.names.insert(name.into(), Name::Index(number));
    }

    fn number(&self, name: &str) -> Option<u32> {
        match self.names.get(name)? {
            Name::Index(number) | Name::Alias { index: number, .. } => Some(*number),
            Name::Unrouted(_) => None,
        }
    }

    fn index_number(&self, name: &str) -> Option<u32> {
        match self.names.get(name)? {
            Name::Index(number) => Some(*number),
            _ => None,
        }
    }
}

impl Index {
    fn new(
        metadata: &IndexMetadata,
        shards: Option<&ShardTable>,
        nodes: &BTreeMap<&str, UpstreamId>,
    ) -> Result<Self, Unrouted> {
        if metadata.state != "open" {
            return Err(Unrouted::Closed);
        }
        let settings = &metadata.settings.index;
        let pipelines = [&settings.default_pipeline, &settings.final_pipeline];
        if pipelines.iter().any(|pipeline| pipeline.as_ref().is_some_and(|name| name != "_none")) {
            return Err(Unrouted::Pipeline);
        }
        let by_hash = settings.mode.as_ref().is_none_or(|mode| mode == "standard")
            && settings.routing_path.is_none()
            && settings.dimensions.is_none()
            && settings.number_of_virtual_shards.as_ref().is_none_or(|number| number == "-1")
            && metadata.resharding.is_none()
            && metadata.split_shards_metadata.is_none();
        if !by_hash {
            return Err(Unrouted::IndexMode);
        }
        let formula = formula(metadata).ok_or(Unrouted::IndexMode)?;
        let partition_size = match &settings.routing_partition_size {
            Some(size) => size.parse().map_err(|_| Unrouted::IndexMode)?,
            None => 1,
        };
        // A cluster lists every shard, started or not. A number far beyond what is listed would cost much memory.
        let listed = shards.filter(|table| table.shards.len() as u64 == u64::from(formula.shards()));
        let table = listed.ok_or(Unrouted::Primary)?;
        let primaries = (0..formula.shards()).map(|shard| primary(shard, table, nodes)).collect();
        // A cluster makes no partitioned index that does not require routing.
        let routing_required = partition_size > 1 || metadata.mappings.values().any(|mapping| mapping.routing.required);
        Ok(Self { distrusted: Cell::new(false), formula, partition_size, routing_required, primaries })
    }

    fn direct(&self, turn: usize) -> Option<(u32, UpstreamId)> {
        let shards = self.primaries.len();
        let turns = (0..shards).filter_map(|later| turn.wrapping_add(later).checked_rem(shards));
        let started = |shard: usize| Some((shard as u32, *self.primaries.get(shard)?.as_ref().ok()?));
        let (shard, upstream) = turns.filter_map(started).next().filter(|_| self.partition_size <= 1)?;
        // One value in as many as there are shards leads there.
        let tries = (shards as u32).saturating_mul(100);
        let value = (0..tries).find(|value| self.formula.shard(hash(&value.to_string())) == shard)?;
        Some((value, upstream))
    }

    fn route(&self, id_hash: Option<u32>, routing_hash: Option<u32>) -> Result<Route, Unrouted> {
        if self.distrusted.get() {
            return Err(Unrouted::Distrusted);
        }
        let hash = match (id_hash, routing_hash) {
            (_, None) if self.routing_required => return Err(Unrouted::RoutingRequired),
            (Some(id), Some(routing)) if self.partition_size > 1 => partitioned(routing, id, self.partition_size),
            _ if self.partition_size > 1 => return Err(Unrouted::Partition),
            (_, Some(routing)) => routing,
            (Some(id), None) => id,
            (None, None) => return Ok(Route::AnyNode),
        };
        let shard = self.formula.shard(hash);
        let upstream = *self.primaries.get(shard as usize).ok_or(Unrouted::Primary)?;
        Ok(Route::Primary { shard, upstream: upstream? })
    }
}

fn formula(metadata: &IndexMetadata) -> Option<Formula> {
    let settings = &metadata.settings.index;
    let created = settings.version.as_ref()?.created.as_ref()?.parse().ok()?;
    let shards = settings.number_of_shards.as_ref()?.parse().ok()?;
    // A cluster allows 1,024 shards unless told otherwise; far more than that is no sound answer.
    (shards <= 1 << 20).then(|| Formula::of_index(created, shards, metadata.routing_num_shards))?
}

/// The upstream of the node that holds the started primary. A relocating primary still serves on its old node.
fn primary(shard: u32, table: &ShardTable, nodes: &BTreeMap<&str, UpstreamId>) -> Result<UpstreamId, Unrouted> {
    let serves = |copy: &&ShardCopy| copy.primary && matches!(copy.state.as_str(), "STARTED" | "RELOCATING");
    let copies = table.shards.get(&shard.to_string()).ok_or(Unrouted::Primary)?;
    let node = copies.iter().find(serves).and_then(|copy| copy.node.as_deref()).ok_or(Unrouted::Primary)?;
    nodes.get(node).copied().ok_or(Unrouted::Upstream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn copy(state: &str, node: &str) -> Value {
        json!({"primary": true, "state": state, "node": node})
    }

    fn index(edit: impl FnOnce(&mut Value)) -> Value {
        let mut metadata = json!({
            "state": "open",
            "routing_num_shards": 1024,
            "settings": {"index": {"number_of_shards": "2", "version": {"created": "136408127"}}},
        });
        edit(&mut metadata);
        metadata
    }

    /// A table with one index "i": shard 0 on node a, shard 1 on node b.
    fn table(metadata: Value, shards: Value, aliases: Value) -> (RoutingTable, Upstreams) {
        let state = json!({
            "version": 1, "state_uuid": "u", "cluster_uuid": "c",
            "nodes": {"a": {"name": "es-0"}, "b": {"name": "es-1"}},
            "metadata": {"indices": {"i": metadata}},
            "routing_table": {"indices": {"i": {"shards": shards}}},
        });
        let state = ClusterState::read(state.to_string().as_bytes()).unwrap();
        let aliases = Aliases::read(aliases.to_string().as_bytes()).unwrap();
        let template = UpstreamTemplate::new("{name}", BTreeMap::new()).unwrap();
        let mut upstreams = Upstreams::new("es");
        let table = RoutingTable::new(&state, &aliases, &template, &mut upstreams);
        (table, upstreams)
    }

    fn started() -> Value {
        json!({"0": [{"primary": false, "state": "STARTED", "node": "b"}, copy("STARTED", "a")],
               "1": [copy("RELOCATING", "b"), {"primary": true, "state": "INITIALIZING", "node": "a"}]})
    }

    fn name(result: Result<Route, Unrouted>, upstreams: &Upstreams) -> Result<(u32, String), Unrouted> {
        result.map(|route| match route {
            Route::Primary { shard, upstream } => (shard, upstreams.name(upstream).to_string()),
            Route::AnyNode => panic!("routed nowhere in particular"),
        })
    }

    fn unrouted(metadata: Value) -> Unrouted {
        table(metadata, started(), json!({})).0.route("i", Some(hash("1")), None).unwrap_err()
    }

    #[test]
    fn routes_by_id_or_routing_to_the_node_of_the_primary() {
        let (table, upstreams) = table(index(|_| ()), started(), json!({}));
        // "1" hashes to shard 0 of 2, "2" to shard 1: see the formula's vectors.
        let route = |id: &str, routing| name(table.route("i", Some(hash(id)), routing), &upstreams);
        assert_eq!(route("1", None), Ok((0, "es-0".into())));
        assert_eq!(route("anything", Some("1")), Ok((0, "es-0".into())));
        let other = (0..20).map(|id| route(&id.to_string(), None).unwrap()).find(|(shard, _)| *shard == 1);
        assert_eq!(other, Some((1, "es-1".into())));
        assert_eq!(table.route("i", None, None), Ok(Route::AnyNode));
        assert_eq!(name(table.route("i", None, Some("1")), &upstreams), Ok((0, "es-0".into())));
        assert_eq!(table.route("other", Some(1), None), Err(Unrouted::UnknownIndex));
        assert_eq!(table.upstreams().len(), 2);
    }

    #[test]
    fn an_alias_leads_to_its_write_index_and_may_add_a_routing_value() {
        let aliases = json!({"i": {"aliases": {"plain": {}, "fixed": {"index_routing": "1"}, "read": {"is_write_index": false}}},
                             "gone": {"aliases": {"lost": {}}}});
        let (table, upstreams) = table(index(|_| ()), started(), aliases);
        let route = |index, routing| name(table.route(index, Some(hash("5")), routing), &upstreams);
        assert_eq!(route("plain", None), route("i", None));
        assert_eq!(route("fixed", None), Ok((0, "es-0".into())));
        assert_eq!(route("fixed", Some("1")), Ok((0, "es-0".into())));
        assert_eq!(route("fixed", Some("2")), Err(Unrouted::AliasRouting));
        assert_eq!(route("read", None), Err(Unrouted::Alias));
        assert_eq!(route("lost", None), Err(Unrouted::Alias));
    }

    #[test]
    fn a_partitioned_index_needs_id_and_routing() {
        let metadata = index(|i| {
            i["settings"]["index"]["routing_partition_size"] = json!("2");
            i["settings"]["index"]["number_of_shards"] = json!("6");
            i["routing_num_shards"] = json!(6);
        });
        let shards: serde_json::Map<_, _> =
            (0..6).map(|shard| (shard.to_string(), json!([copy("STARTED", "a")]))).collect();
        let (table, upstreams) = table(metadata, shards.into(), json!({}));
        let route = |id: Option<&str>, routing| name(table.route("i", id.map(hash), routing), &upstreams);
        assert_eq!(route(Some("b_0"), Some("b")), Ok((5, "es-0".into())));
        assert_eq!(route(Some("b_0"), None), Err(Unrouted::RoutingRequired));
        assert_eq!(route(None, Some("b")), Err(Unrouted::Partition));
        assert_eq!(route(None, None), Err(Unrouted::RoutingRequired));
    }

    #[test]
    fn where_routing_is_required_nothing_is_routed_without() {
        let required = |required: bool| {
            let metadata = index(|i| i["mappings"] = json!({"_doc": {"_routing": {"required": required}}}));
            let (table, upstreams) =
                table(metadata, started(), json!({"i": {"aliases": {"fixed": {"index_routing": "1"}}}}));
            move |index, id: Option<&str>, routing| name(table.route(index, id.map(hash), routing), &upstreams)
        };
        let route = required(true);
        assert_eq!(route("i", Some("1"), None), Err(Unrouted::RoutingRequired));
        assert_eq!(route("i", None, None), Err(Unrouted::RoutingRequired));
        assert_eq!(route("i", None, Some("1")), Ok((0, "es-0".into())));
        assert_eq!(route("fixed", None, None), Ok((0, "es-0".into())));
        assert_eq!(required(false)("i", Some("1"), None), Ok((0, "es-0".into())));
    }

    #[test]
    fn what_does_not_route_by_hash_is_unrouted() {
        assert_eq!(unrouted(index(|i| i["state"] = json!("close"))), Unrouted::Closed);
        for setting in ["default_pipeline", "final_pipeline"] {
            assert_eq!(unrouted(index(|i| i["settings"]["index"][setting] = json!("p"))), Unrouted::Pipeline);
        }
        for (setting, value) in [
            ("mode", json!("time_series")),
            ("routing_path", json!(["host"])),
            ("dimensions", json!(["host"])),
            ("number_of_virtual_shards", json!("4")),
            ("number_of_shards", json!("3")),
            ("number_of_shards", json!("many")),
            ("version", json!({})),
            ("routing_partition_size", json!("x")),
        ] {
            assert_eq!(unrouted(index(|i| i["settings"]["index"][setting] = value)), Unrouted::IndexMode);
        }
        for field in ["resharding", "split_shards_metadata"] {
            assert_eq!(unrouted(index(|i| i[field] = json!({"x": 1}))), Unrouted::IndexMode);
        }
    }

    #[test]
    fn settings_that_change_nothing_are_no_reason() {
        let metadata = index(|i| {
            let settings = &mut i["settings"]["index"];
            settings["default_pipeline"] = json!("_none");
            settings["mode"] = json!("standard");
            settings["routing_partition_size"] = json!("1");
            settings["number_of_virtual_shards"] = json!("-1");
        });
        let (table, _) = table(metadata, started(), json!({}));
        assert!(table.route("i", Some(hash("1")), None).is_ok());
    }

    #[test]
    fn a_shard_without_a_started_primary_or_a_known_node_is_unrouted() {
        let route = |copies| {
            let shards = json!({"0": [copies], "1": [copy("STARTED", "b")]});
            table(index(|_| ()), shards, json!({})).0.route("i", Some(hash("1")), None)
        };
        assert_eq!(route(copy("INITIALIZING", "a")), Err(Unrouted::Primary));
        assert_eq!(route(json!({"primary": true, "state": "UNASSIGNED", "node": null})), Err(Unrouted::Primary));
        assert_eq!(route(json!({"primary": false, "state": "STARTED", "node": "a"})), Err(Unrouted::Primary));
        assert_eq!(route(copy("STARTED", "z")), Err(Unrouted::Upstream));
        assert!(route(copy("STARTED", "a")).is_ok());
    }

    #[test]
    fn an_index_with_more_shards_than_are_listed_is_unrouted_and_costs_nothing() {
        let many = index(|i| {
            i["settings"]["index"]["number_of_shards"] = json!("1048576");
            i["routing_num_shards"] = json!(1 << 20);
        });
        for (metadata, shards) in [(many, started()), (index(|_| ()), json!({}))] {
            let (table, _) = table(metadata, shards, json!({}));
            assert_eq!(table.indices[0].as_ref().unwrap_err(), &Unrouted::Primary);
            assert_eq!(table.route("i", Some(hash("1")), None), Err(Unrouted::Primary));
        }
    }
}
