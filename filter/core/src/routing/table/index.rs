use std::cell::Cell;

use serde::{Deserialize, Serialize};

use super::formula::{Choice, Formula, partitioned};
use super::index_metadata::IndexMetadata;
use super::overrides::Overrides;
use super::primaries::{Primaries, Primary};
use super::unrouted::Unrouted;
use crate::hash::hash;

/// The table's knowledge of an index.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Index {
    /// A number that changes whenever the index does: see [`identity`](super::index_metadata::identity). An index with
    /// `None` is never up to date.
    pub identity: Option<u64>,
    /// The settings that the index itself makes for the filter.
    pub overrides: Overrides,
    /// The problems with settings in its mapping that are ignored, if there are any.
    problems: Option<Box<str>>,
    /// The names of its default and its final pipeline, if it has any.
    pub pipelines: Option<Box<IndexPipelines>>,
    /// Whether it asks the cluster to wait for more copies of a shard than the primary before it writes.
    pub waits: bool,
    /// Whether the cluster carries out the update of a single document in another way than one in a bulk request.
    pub has_other_updates: bool,
    /// The number of the last overview of the cluster that contained it.
    #[serde(skip)]
    pub seen: Cell<u32>,
    /// Whether answers for it arrived out of order since the last poll of the cluster's state.
    #[serde(skip)]
    pub distrusted: Cell<bool>,
    /// The hash of its name.
    name_hash: u32,
    shards: Result<Shards, Unrouted>,
}

/// The names of the pipelines that the cluster runs for an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IndexPipelines {
    /// The pipeline of operations that name none.
    pub default: Option<Box<str>>,
    /// The pipeline that runs last.
    pub last: Option<Box<str>>,
}

/// The rules by which an index assigns documents to shards.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Shards {
    pub formula: Formula,
    pub partition_size: u32,
    pub routing_required: bool,
    primaries: Box<[Primary]>,
}

/// The shard of an operation, and the number of the node that holds its primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardRoute {
    pub shard: u32,
    pub node: u16,
}

impl Index {
    /// Creates an index from the cluster's state. Unreadable metadata makes it unrouted.
    pub fn new(name: &str, metadata: Option<&IndexMetadata>, primaries: Option<&Primaries>) -> Self {
        let (overrides, problems) = metadata.map(Overrides::of_index).unwrap_or_default();
        let settled = primaries.is_some_and(|primaries| primaries.settled);
        Self {
            // A shard that is about to move may do so without a new version of the index.
            identity: metadata.and_then(IndexMetadata::identity).filter(|_| settled),
            overrides,
            problems,
            pipelines: metadata.and_then(IndexPipelines::of),
            waits: metadata.is_some_and(IndexMetadata::waits),
            has_other_updates: metadata.is_some_and(IndexMetadata::has_other_updates),
            seen: Cell::default(),
            distrusted: Cell::default(),
            name_hash: hash(name),
            shards: metadata.ok_or(Unrouted::UnknownSettings).and_then(|metadata| Shards::new(metadata, primaries)),
        }
    }

    /// Returns the reason why no operation on it is routed, if there is one.
    #[cfg(test)]
    pub fn unrouted(&self) -> Option<Unrouted> {
        self.shards.as_ref().err().copied()
    }

    /// Returns a number that identifies it.
    pub fn number(&self) -> u32 {
        self.name_hash
    }

    /// Returns a message about the settings in its mapping that are ignored, if there are any. `name` is its name.
    pub fn warning(&self, name: &str) -> Option<String> {
        self.problems.as_ref().map(|problems| format!("index `{name}`: {problems}"))
    }

    /// Returns whether settings in its mapping are ignored.
    pub fn has_problems(&self) -> bool {
        self.problems.is_some()
    }

    /// Returns whether the settings in its mapping that are ignored are the same as those of another index.
    pub fn has_same_problems(&self, other: &Self) -> bool {
        self.problems == other.problems
    }

    /// Returns the numbers of the nodes that hold a started primary.
    pub fn nodes(&self) -> impl Iterator<Item = u16> {
        self.shards.iter().flat_map(|shards| &shards.primaries).filter_map(|primary| primary.node())
    }

    /// Returns the destination of an operation, or `None` if the cluster generates the id and so chooses the shard.
    pub fn route(&self, id_hash: Option<u32>, routing_hash: Option<u32>) -> Result<Option<ShardRoute>, Unrouted> {
        if self.distrusted.get() {
            return Err(Unrouted::Distrusted);
        }
        let shards = self.shards()?;
        let Some(shard) = shards.shard(id_hash, routing_hash)? else { return Ok(None) };
        let node = shards.primaries.get(shard as usize).and_then(|primary| primary.node());
        let node = node.ok_or(Unrouted::Primary)?;
        Ok(Some(ShardRoute { shard, node }))
    }

    /// Returns the computation of an operation's shard, or `None` if the cluster chooses the shard.
    pub fn choice(&self, id_hash: Option<u32>, routing_hash: Option<u32>) -> Result<Option<Choice>, Unrouted> {
        let shards = self.shards()?;
        let hash = shards.hash(id_hash, routing_hash)?;
        Ok(hash.map(|hash| Choice {
            hash: hash as i32,
            modulus: shards.formula.modulus(),
            factor: shards.formula.factor(),
            partition_size: (shards.partition_size > 1).then_some(shards.partition_size),
            shard: shards.formula.shard(hash),
        }))
    }

    /// Returns the rules by which it assigns documents to shards, or the reason why it is unrouted.
    pub fn shards(&self) -> Result<&Shards, Unrouted> {
        self.shards.as_ref().map_err(|why| *why)
    }

    /// Returns the primaries by shard.
    pub fn primaries(&self) -> &[Primary] {
        self.shards.as_ref().map_or(&[], |shards| &shards.primaries)
    }

    /// Returns the rule by which an id alone decides the shard, and the primaries by shard. Returns `None` if an id alone
    /// does not decide.
    pub fn by_id(&self) -> Option<(Formula, &[Primary])> {
        let Shards { formula, partition_size, routing_required, primaries } = self.shards.as_ref().ok()?;
        let decides = *partition_size <= 1 && !routing_required && !self.distrusted.get();
        decides.then_some((*formula, primaries))
    }

    /// Returns a routing value that leads to one shard, and the destination. Successive values of `ticket` lead to
    /// different shards.
    pub fn direct(&self, ticket: usize, is_usable: impl Fn(u16) -> bool) -> Option<(u32, ShardRoute)> {
        let Shards { formula, partition_size, primaries, .. } = self.shards.as_ref().ok()?;
        let count = primaries.len();
        let tickets = (0..count).filter_map(|later| ticket.wrapping_add(later).checked_rem(count));
        let started =
            |shard: usize| Some((shard as u32, primaries.get(shard)?.node().filter(|node| is_usable(*node))?));
        let (shard, node) = tickets.filter_map(started).next().filter(|_| *partition_size <= 1)?;
        // On average one value in `count` leads to the shard.
        let tries = (count as u32).saturating_mul(100);
        let value = (0..tries).find(|value| formula.shard(hash(&value.to_string())) == shard)?;
        Some((value, ShardRoute { shard, node }))
    }
}

impl IndexPipelines {
    fn of(metadata: &IndexMetadata) -> Option<Box<Self>> {
        let settings = &metadata.settings.index;
        let named = |pipeline: &Option<String>| pipeline.as_deref().filter(|name| *name != NO_PIPELINE).map(Into::into);
        let pipelines = Self { default: named(&settings.default_pipeline), last: named(&settings.final_pipeline) };
        (pipelines.default.is_some() || pipelines.last.is_some()).then(|| Box::new(pipelines))
    }

    /// Returns the names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        [&self.default, &self.last].into_iter().filter_map(|name| name.as_deref())
    }
}

/// The name that stands for no pipeline.
pub(crate) const NO_PIPELINE: &str = "_none";

impl Shards {
    fn new(metadata: &IndexMetadata, primaries: Option<&Primaries>) -> Result<Self, Unrouted> {
        match metadata.state.as_str() {
            "open" => {}
            "close" => return Err(Unrouted::Closed),
            _ => return Err(Unrouted::UnknownSettings),
        }
        let settings = &metadata.settings.index;
        // Reading or changing the settings is not a write. Any other block could affect writes.
        let blocks = |(name, on): (&String, &Option<String>)| {
            !matches!(name.as_str(), "read" | "metadata") && on.as_ref().is_some_and(|on| on != "false")
        };
        if settings.blocks.iter().any(blocks) {
            return Err(Unrouted::WriteBlock);
        }
        check_mode(metadata)?;
        let formula = formula(metadata)?;
        if metadata.split_shards_metadata.as_ref().is_some_and(|split| !split.is_none_split(formula.shards())) {
            return Err(Unrouted::Split);
        }
        let partition_size = match &settings.routing_partition_size {
            Some(size) => size.parse().map_err(|_| Unrouted::UnknownSettings)?,
            None => 1,
        };
        // A cluster lists every shard, started or not. A much larger configured number would take much memory.
        let listed = primaries.filter(|primaries| primaries.list.len() as u64 == u64::from(formula.shards()));
        let primaries = listed.ok_or(Unrouted::Primary)?.list.clone();
        // A cluster creates partitioned indices only with required routing.
        let routing_required = partition_size > 1 || metadata.mappings.values().any(|mapping| mapping.routing.required);
        Ok(Self { formula, partition_size, routing_required, primaries })
    }

    fn shard(&self, id_hash: Option<u32>, routing_hash: Option<u32>) -> Result<Option<u32>, Unrouted> {
        Ok(self.hash(id_hash, routing_hash)?.map(|hash| self.formula.shard(hash)))
    }

    /// Returns the hash from which the formula computes the shard.
    fn hash(&self, id_hash: Option<u32>, routing_hash: Option<u32>) -> Result<Option<u32>, Unrouted> {
        Ok(match (id_hash, routing_hash) {
            (_, None) if self.routing_required => return Err(Unrouted::RoutingRequired),
            (Some(id), Some(routing)) if self.partition_size > 1 => Some(partitioned(routing, id, self.partition_size)),
            _ if self.partition_size > 1 => return Err(Unrouted::Partition),
            (_, Some(routing)) => Some(routing),
            (Some(id), None) => Some(id),
            (None, None) => None,
        })
    }
}

/// Checks that the index routes by hash.
fn check_mode(metadata: &IndexMetadata) -> Result<(), Unrouted> {
    let settings = &metadata.settings.index;
    if settings.routing_path.is_some() || settings.dimensions.is_some() {
        return Err(Unrouted::RoutingPath);
    }
    match settings.mode.as_deref() {
        // Without a routing path the latter two route like other indices.
        None | Some("standard" | "logsdb" | "lookup") => {}
        Some("time_series") => return Err(Unrouted::RoutingPath),
        Some(_) => return Err(Unrouted::IndexMode),
    }
    if settings.number_of_virtual_shards.as_ref().is_some_and(|number| number != "-1") {
        return Err(Unrouted::VirtualShards);
    }
    if metadata.resharding.is_some() {
        return Err(Unrouted::Resharding);
    }
    Ok(())
}

fn formula(metadata: &IndexMetadata) -> Result<Formula, Unrouted> {
    let settings = &metadata.settings.index;
    let number = |text: Option<&String>| text.and_then(|text| text.parse().ok()).ok_or(Unrouted::UnknownSettings);
    let created = number(settings.version.as_ref().and_then(|version| version.created.as_ref()))?;
    let shards = u32::try_from(number(settings.number_of_shards.as_ref())?).map_err(|_| Unrouted::UnknownSettings)?;
    Formula::of_index(created, shards, metadata.routing_num_shards)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn metadata(edit: impl FnOnce(&mut Value)) -> Value {
        let mut metadata = json!({
            "version": 7,
            "state": "open",
            "routing_num_shards": 1024,
            "settings": {"index": {"uuid": "u", "number_of_shards": "2", "version": {"created": "136408127"}}},
        });
        edit(&mut metadata);
        metadata
    }

    /// Creates an index with shard 0 on node 10, shard 1 on node 11, and so on.
    fn index_of(metadata: &Value, shards: u16) -> Index {
        let metadata = IndexMetadata::deserialize(metadata).ok();
        let primaries = Primaries { list: (0..shards).map(|shard| Primary::on(10 + shard)).collect(), settled: true };
        Index::new("i", metadata.as_ref(), Some(&primaries))
    }

    fn index(edit: impl FnOnce(&mut Value)) -> Index {
        index_of(&metadata(edit), 2)
    }

    fn node(index: &Index, id: Option<&str>, routing: Option<&str>) -> Result<Option<u16>, Unrouted> {
        index.route(id.map(hash), routing.map(hash)).map(|route| route.map(|route| route.node))
    }

    #[test]
    fn routes_by_id_or_routing() {
        let index = index(|_| ());
        // The hash of "1" leads to shard 0 of 2: see the formula's vectors.
        assert_eq!(node(&index, Some("1"), None), Ok(Some(10)));
        assert_eq!(node(&index, Some("anything"), Some("1")), Ok(Some(10)));
        assert_eq!(node(&index, None, Some("1")), Ok(Some(10)));
        assert!((0..20).any(|id| node(&index, Some(&id.to_string()), None) == Ok(Some(11))));
        assert_eq!(node(&index, None, None), Ok(None));
        assert_eq!(index.nodes().collect::<Vec<_>>(), [10, 11]);
    }

    #[test]
    fn a_partitioned_index_needs_id_and_routing() {
        let metadata = metadata(|i| {
            i["settings"]["index"]["routing_partition_size"] = json!("2");
            i["settings"]["index"]["number_of_shards"] = json!("6");
            i["routing_num_shards"] = json!(6);
        });
        let index = index_of(&metadata, 6);
        assert_eq!(node(&index, Some("b_0"), Some("b")), Ok(Some(15)));
        assert_eq!(node(&index, Some("b_0"), None), Err(Unrouted::RoutingRequired));
        assert_eq!(node(&index, None, Some("b")), Err(Unrouted::Partition));
        assert_eq!(node(&index, None, None), Err(Unrouted::RoutingRequired));
    }

    #[test]
    fn an_index_that_requires_routing_is_unrouted_without_it() {
        let required = index(|i| i["mappings"] = json!({"_doc": {"_routing": {"required": true}}}));
        assert_eq!(node(&required, Some("1"), None), Err(Unrouted::RoutingRequired));
        assert_eq!(node(&required, None, None), Err(Unrouted::RoutingRequired));
        assert_eq!(node(&required, None, Some("1")), Ok(Some(10)));
        let free = index(|i| i["mappings"] = json!({"_doc": {"_routing": {"required": false}}}));
        assert_eq!(node(&free, Some("1"), None), Ok(Some(10)));
    }

    #[test]
    fn an_index_that_does_not_route_by_hash_is_unrouted() {
        let reason = |edit: &dyn Fn(&mut Value)| index(edit).unrouted();
        assert_eq!(reason(&|i| i["state"] = json!("close")), Some(Unrouted::Closed));
        assert_eq!(reason(&|i| i["state"] = json!("ajar")), Some(Unrouted::UnknownSettings));
        for (setting, value, why) in [
            ("blocks", json!({"write": "true"}), Unrouted::WriteBlock),
            ("blocks", json!({"read_only_allow_delete": "true", "read": "false"}), Unrouted::WriteBlock),
            ("blocks", json!({"search_only": "true"}), Unrouted::WriteBlock),
            ("mode", json!("time_series"), Unrouted::RoutingPath),
            ("mode", json!("sideways"), Unrouted::IndexMode),
            ("routing_path", json!(["host"]), Unrouted::RoutingPath),
            ("dimensions", json!(["host"]), Unrouted::RoutingPath),
            ("number_of_virtual_shards", json!("4"), Unrouted::VirtualShards),
            ("number_of_shards", json!("3"), Unrouted::UnknownSettings),
            ("number_of_shards", json!("many"), Unrouted::UnknownSettings),
            ("number_of_shards", json!("0"), Unrouted::UnknownSettings),
            ("version", json!({}), Unrouted::UnknownSettings),
            ("version", json!({"created": "10000099"}), Unrouted::Version),
            ("routing_partition_size", json!("x"), Unrouted::UnknownSettings),
            ("routing_by_moon", json!("full"), Unrouted::UnknownSettings),
        ] {
            let found = reason(&|i| i["settings"]["index"][setting] = value.clone());
            assert_eq!(found, Some(why), "{setting}: {value}");
        }
        for (field, why) in [("resharding", Unrouted::Resharding), ("shard_swap", Unrouted::UnknownSettings)] {
            assert_eq!(reason(&|i| i[field] = json!({"x": 1})), Some(why));
        }
    }

    #[test]
    fn shards_split_in_place_are_unrouted() {
        let whole = json!({"num_of_root_shards": 2, "max_shard_id": 1, "active_shard_ids": [0, 1]});
        for (field, value, why) in [
            ("num_of_root_shards", json!(1), Unrouted::Split),
            ("max_shard_id", json!(2), Unrouted::Split),
            ("active_shard_ids", json!([0, 2]), Unrouted::Split),
            ("root_shards_to_all_children", json!({"1": [2, 3]}), Unrouted::Split),
            ("parent_to_child_shards", json!({"1": [2, 3]}), Unrouted::Split),
            ("more", json!({}), Unrouted::UnknownSettings),
        ] {
            let mut split = whole.clone();
            split[field] = value;
            assert_eq!(index(|i| i["split_shards_metadata"] = split).unrouted(), Some(why), "{field}");
        }
    }

    #[test]
    fn irrelevant_settings_do_not_stop_routing() {
        let index = index(|i| {
            let settings = &mut i["settings"]["index"];
            settings["default_pipeline"] = json!("_none");
            settings["mode"] = json!("standard");
            settings["routing_partition_size"] = json!("1");
            settings["number_of_virtual_shards"] = json!("-1");
            settings["number_of_routing_shards"] = json!("1024");
            settings["routing"] = json!({"allocation": {"require": {"zone": "a"}}});
            settings["blocks"] = json!({"read": "true", "metadata": "true", "write": null, "read_only": "false"});
            i["shard_size_forecast"] = json!(7);
            i["split_shards_metadata"] = json!({"num_of_root_shards": 2, "max_shard_id": 1, "active_shard_ids": [0, 1],
                       "root_shards_to_all_children": {}});
        });
        assert_eq!(index.unrouted(), None);
    }

    #[test]
    fn a_shard_without_a_started_primary_is_unrouted() {
        let metadata = IndexMetadata::deserialize(metadata(|_| ())).unwrap();
        let primaries = Primaries { list: [Primary::NOT_STARTED, Primary::on(3)].into(), settled: false };
        let index = Index::new("i", Some(&metadata), Some(&primaries));
        assert_eq!(node(&index, Some("1"), None), Err(Unrouted::Primary));
        assert_eq!((index.nodes().collect::<Vec<_>>(), index.identity), (vec![3], None));
    }

    #[test]
    fn an_index_with_unlisted_shards_is_unrouted_and_takes_no_memory() {
        let many = metadata(|i| {
            i["settings"]["index"]["number_of_shards"] = json!("1048576");
            i["routing_num_shards"] = json!(1 << 20);
        });
        assert_eq!(index_of(&many, 2).unrouted(), Some(Unrouted::Primary));
        let metadata = IndexMetadata::deserialize(metadata(|_| ())).unwrap();
        assert_eq!(Index::new("i", Some(&metadata), None).unrouted(), Some(Unrouted::Primary));
    }

    #[test]
    fn a_direct_routing_value_leads_to_a_usable_node() {
        let index = index(|_| ());
        for ticket in 0..4 {
            let (value, route) = index.direct(ticket, |_| true).unwrap();
            assert_eq!(node(&index, None, Some(&value.to_string())), Ok(Some(route.node)));
            assert_eq!(usize::from(route.node), 10 + ticket % 2);
            assert_eq!(index.direct(ticket, |node| node == 10).unwrap().1.node, 10);
        }
        assert_eq!(index.direct(0, |_| false), None);
    }

    #[test]
    fn the_identity_depends_on_version_and_uuid() {
        let identity = |edit: &dyn Fn(&mut Value)| index(edit).identity;
        let known = identity(&|_| ());
        assert!(known.is_some());
        assert_ne!(identity(&|i| i["version"] = json!(8)), known);
        assert_ne!(identity(&|i| i["settings"]["index"]["uuid"] = json!("v")), known);
        assert_eq!(identity(&|i| i["version"] = Value::Null), None);
    }
}
