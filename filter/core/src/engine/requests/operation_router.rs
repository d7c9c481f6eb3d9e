use std::collections::BTreeMap;
use std::rc::Rc;

use hashbrown::HashMap;

use super::id_generator::IdGenerator;
use super::shard_chooser::ChosenShards;
use crate::Time;
use crate::bulk::{Action, ActionLine, DocumentId, Parameter};
use crate::config::{Config, Enabled, Level, MissingId};
use crate::engine::batching::{Apart, Destination, Scope, Shards};
use crate::engine::head::{Document, Head};
use crate::engine::pass_through::PassThrough;
use crate::routing::{Ingest, NameKind, Route, RoutingTable, Unrouted, UpstreamId, WriteTarget, hash};

/// Routes a request's operations.
#[derive(Debug)]
pub struct OperationRouter<'a> {
    /// What the request has from its beginning.
    pub basis: &'a Basis,
    /// Whether the request asks the cluster to wait before it answers.
    pub waits: bool,
    /// What is known about the operations.
    pub routed: &'a mut Routed,
    /// The generator of ids.
    pub ids: &'a mut IdGenerator,
    /// The target of the previous name, because the next name is usually the same.
    pub last: Option<Named<'a>>,
}

/// What a request has from its beginning, and keeps to its end.
#[derive(Debug)]
pub struct Basis {
    /// The parsed headers.
    pub head: Rc<Head>,
    /// The configuration.
    pub config: Rc<Config>,
    /// The table that routes all operations, so that operations on one document stay together.
    pub table: Rc<RoutingTable>,
    /// When the headers arrived.
    pub arrived: Time,
    /// The shards that may be slow, for the same reason.
    pub apart: Apart,
    /// The round-robin counter that chooses a node for its operations without an id.
    pub round_robin: usize,
    /// Whether its batches may be compressed, which needs memory.
    pub may_compress: bool,
    /// The single document that it writes, unless it is a bulk request.
    pub document: Option<Box<Document>>,
}

/// What is known about the operations of a request that were routed.
#[derive(Debug, Default)]
pub struct Routed {
    /// The number of operations that go to the coordinator, by reason.
    pub unrouted: BTreeMap<Unrouted, usize>,
    /// The name that is missing in the table and makes the request pass through.
    pub unknown: Option<String>,
    /// Whether an operation is on an index that is only observed.
    pub is_observed: bool,
    /// Whether a line has a `_type`. The cluster then adds a `warning` to the answer.
    pub has_type: bool,
    /// Whether any operation is an update.
    pub has_update: bool,
    /// What all operations require of their names; `None` before the first one.
    pub requirements: Option<Requirements>,
    /// The names that the operations are written to.
    pub names: Names,
    /// The routing value and location of operations without an id, by index name, in `direct` mode: see
    /// [`direct`](crate::routing::WriteTarget::direct).
    direct: HashMap<Box<str>, Option<(u32, Location)>>,
    /// The shards of operations without an id, in `generate` mode.
    pub chosen: ChosenShards,
}

/// About how many bytes an entry of [`Routed::direct`] uses, with room to grow.
const DIRECT_ENTRY_BYTES: usize = 512;

impl Routed {
    /// Returns the approximate memory use, in bytes.
    pub fn memory(&self) -> u64 {
        self.direct.len().saturating_mul(DIRECT_ENTRY_BYTES).saturating_add(self.chosen.memory()) as u64
    }
}

/// What the names that a request's operations are written to have in common.
#[derive(Debug, Default)]
pub struct Names {
    /// The address of the first name in the table.
    first: Option<usize>,
    /// Whether there are others.
    are_several: bool,
    /// Whether one of them is an alias or a data stream.
    may_lead_elsewhere: bool,
    /// Whether a line has no index of its own, and whether a line has one.
    in_line: [bool; 2],
}

/// The target of a name in an action line, and the routing of its operations without an id.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    target: WriteTarget<'a>,
    missing_id: MissingId,
    /// Whether the index is only observed.
    is_observed: bool,
    /// The pipelines of operations whose line names none.
    ingest: Result<Ingest, Unrouted>,
}

/// What an operation requires of the name that it writes to. If the name does not exist, the cluster creates it for all
/// operations of a batch together, and only if none of them requires something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirements {
    /// Whether the name must be an alias: `require_alias` of the line, or else of the query.
    pub alias: bool,
    /// Whether it must be a data stream: `require_data_stream` of the line, or else of the query.
    pub data_stream: bool,
}

/// The routing of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoutedOperation {
    /// The hash of its id, if it has one or gets one.
    pub id_hash: Option<u32>,
    /// Its destination and its shard.
    pub location: Location,
    /// The parameter that is added to its action line.
    pub parameter: Option<Parameter>,
    /// Bytes of the longest index name that its item may contain, apart from the names in the line.
    pub name: u64,
    /// Whether the cluster runs a pipeline for it.
    pub under_pipeline: bool,
}

/// The destination of an operation, and its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The destination.
    pub destination: Destination,
    /// The shard.
    pub shards: Shards,
    /// Whether it is the shard's node.
    pub is_known: bool,
}

/// The maximum length of an index name, in bytes.
const MAX_NAME_BYTES: u64 = 255;

/// The maximum length of a document's id, in bytes.
const MAX_ID_BYTES: u64 = 512;

impl<'a> OperationRouter<'a> {
    /// Routes the operation of this line, which has this offset in the body.
    pub fn route_line(&mut self, line: &ActionLine<'_>, start: u32) -> Result<RoutedOperation, PassThrough> {
        self.routed.chosen.end_at(start);
        let routed = self.locate(line, start).map_err(PassThrough::Unrouted)?;
        let requirements = self.requirements(line);
        if *self.routed.requirements.get_or_insert(requirements) != requirements {
            return Err(PassThrough::ActionLine);
        }
        self.routed.has_type |= line.has_type;
        self.routed.has_update |= line.action == Action::Update;
        Ok(routed)
    }

    fn locate(&mut self, line: &ActionLine<'_>, start: u32) -> Result<RoutedOperation, Unrouted> {
        let name = line.index.as_deref().or(self.default_index()).ok_or(Unrouted::NoIndex)?;
        self.routed.names.in_line(line.index.is_some());
        let named = match self.last {
            Some(last) if last.target.name == name => last,
            _ => self.named(name)?,
        };
        match self.route(named, line, start) {
            Err(why) if why.may_be_merged() => self.unrouted(line, named, why),
            placed => placed,
        }
    }

    /// Routes an operation to the coordinator. Its line stays unchanged, because it is not known how the
    /// cluster would treat an added id.
    fn unrouted(
        &mut self,
        line: &ActionLine<'_>,
        named: Named<'_>,
        why: Unrouted,
    ) -> Result<RoutedOperation, Unrouted> {
        let ingest = self.ingest(named, line)?;
        let count = self.routed.unrouted.entry(why).or_default();
        *count = count.saturating_add(1);
        // A pipeline may put another id in place of the given one.
        let (id, name) = match ingest {
            Ingest::Unproven => (None, MAX_NAME_BYTES.saturating_add(MAX_ID_BYTES)),
            _ => (line.id.as_deref(), MAX_NAME_BYTES),
        };
        Ok(RoutedOperation {
            id_hash: id.map(hash),
            location: Location {
                destination: Destination::COORDINATOR,
                shards: Shards::of(named.target.number(), None),
                is_known: false,
            },
            parameter: None,
            name,
            under_pipeline: ingest != Ingest::None,
        })
    }

    fn named(&mut self, name: &str) -> Result<Named<'a>, Unrouted> {
        let named = self.find(name);
        match named {
            Ok(named) => {
                self.routed.names.add(named.target);
                self.routed.is_observed |= named.is_observed;
                self.last = Some(named);
            }
            Err(Unrouted::UnknownIndex) => self.routed.unknown = Some(name.to_owned()),
            Err(_) => {}
        }
        named
    }

    fn find(&self, name: &str) -> Result<Named<'a>, Unrouted> {
        let configured = self.basis.config.enabled(name);
        if configured == Enabled::No {
            return Err(Unrouted::Disabled);
        }
        let target = self.basis.table.write_target(name)?;
        let overrides = target.overrides();
        let enabled = overrides.enabled.unwrap_or(configured);
        if enabled == Enabled::No {
            return Err(Unrouted::Disabled);
        }
        let missing_id = match overrides.missing_id.unwrap_or_else(|| self.basis.config.missing_id(name)) {
            // The cluster refuses an operation on a backing index of a data stream before it generates an id.
            _ if name.starts_with(".ds-") => MissingId::Pass,
            MissingId::Direct if target.kind.is_data_stream() => MissingId::Pass,
            // A single document's answer may show the routing value.
            MissingId::Direct if self.basis.document.is_some() => MissingId::Pass,
            missing_id => missing_id,
        };
        let is_observed = enabled == Enabled::Observe;
        Ok(Named {
            target,
            missing_id,
            is_observed,
            ingest: target.ingest(self.basis.head.default_pipeline.as_deref()),
        })
    }

    fn route(&mut self, named: Named<'_>, line: &ActionLine<'_>, start: u32) -> Result<RoutedOperation, Unrouted> {
        if let Some(required) = self.require_data_stream(line)
            && (required && line.action == Action::Update || !self.basis.table.knows_require_data_stream())
        {
            return Err(Unrouted::RequireDataStream);
        }
        if line.has_dynamic_templates && !self.basis.table.knows_dynamic_templates() {
            return Err(Unrouted::DynamicTemplates);
        }
        if line.has_type && !self.basis.table.knows_types {
            return Err(Unrouted::Type);
        }
        if line.action != Action::Create && named.target.kind.is_data_stream() {
            return Err(Unrouted::CreateOnly);
        }
        if self.basis.document.is_some() && line.action == Action::Update && named.target.has_other_updates() {
            return Err(Unrouted::SingleUpdate);
        }
        let ingest = self.ingest(named, line)?;
        let routing = line.routing.as_deref().or(self.basis.head.default_routing.as_deref());
        if ingest == Ingest::Unproven {
            return match named.target.route(line.id.as_deref().map(hash), routing) {
                // The index may refuse or delay the whole batch.
                Err(why) if !why.may_be_merged() => Err(why),
                _ => Err(Unrouted::Unproven),
            };
        }
        let missing_id = line.id.is_none().then(|| self.missing_id(line, named, ingest, routing));
        let is_made = missing_id == Some(MissingId::Generate);
        let made = is_made.then(|| self.make_id(named.target, routing, start));
        let id_hash = made.as_ref().map(|id| id.as_str()).or(line.id.as_deref()).map(hash);
        match named.target.route(id_hash, routing)? {
            Route::Primary { shard, upstream, .. } => {
                let under_pipeline = ingest != Ingest::None;
                if under_pipeline && !named.target.runs_pipelines(upstream) {
                    return Err(Unrouted::IngestRole);
                }
                let location = self.location_on(named.target, upstream, Some(shard));
                let name = self.longest_name(named.target);
                let parameter = made.map(Parameter::Id);
                Ok(RoutedOperation { id_hash, location, parameter, name, under_pipeline })
            }
            Route::AnyNode if missing_id == Some(MissingId::Direct) => self.direct(named.target),
            Route::AnyNode => self.any_node(named.target, ingest),
        }
    }

    fn default_index(&self) -> Option<&'a str> {
        self.basis.head.default_index.as_deref()
    }

    fn longest_name(&self, target: WriteTarget<'_>) -> u64 {
        target.index.len().max(self.default_index().map_or(0, str::len)) as u64
    }

    /// Returns what the operation of this line requires of its name.
    fn requirements(&self, line: &ActionLine<'_>) -> Requirements {
        Requirements {
            alias: line.require_alias.unwrap_or(self.basis.head.require_alias),
            data_stream: self.require_data_stream(line) == Some(true),
        }
    }

    fn require_data_stream(&self, line: &ActionLine<'_>) -> Option<bool> {
        line.require_data_stream.or(self.basis.head.require_data_stream)
    }

    /// Returns how to handle an operation without an id. An operation that the cluster refuses before it generates an
    /// id gets none here either, so that the refusal does not show one: if a required alias or data stream is missing,
    /// or if an operation on a data stream has a routing value.
    fn missing_id(&self, line: &ActionLine<'_>, named: Named<'_>, ingest: Ingest, routing: Option<&str>) -> MissingId {
        // Operations under a pipeline that reads ids, and `direct` ones under any, stay as they are.
        match ingest {
            Ingest::Harmless(harmless) if harmless.reads_id => return MissingId::Pass,
            Ingest::Harmless(_) if named.missing_id == MissingId::Direct => return MissingId::Pass,
            // The answer to a single document that the pipeline drops shows its id.
            Ingest::Harmless(_) if self.basis.document.is_some() => return MissingId::Pass,
            _ => {}
        }
        let kind = named.target.kind;
        let Requirements { alias, data_stream } = self.requirements(line);
        let lacks_alias = alias && !kind.is_alias();
        let lacks_stream = data_stream && !kind.is_data_stream();
        match lacks_alias || lacks_stream || (kind.is_data_stream() && routing.is_some()) {
            true => MissingId::Pass,
            false => named.missing_id,
        }
    }

    /// Makes the id of an operation whose line has this offset. Unless something else decides the shard, the id leads to
    /// the shard that is chosen.
    fn make_id(&mut self, target: WriteTarget<'_>, routing: Option<&str>, start: u32) -> DocumentId {
        let shards = if routing.is_none() { target.shards_by_id() } else { None };
        let chosen = shards.and_then(|shards| {
            let (index, apart) = (target.number(), self.basis.apart.of(self.waits || target.waits()));
            let is_slow = |shard| apart.meets(Shards::of(index, Some(shard)));
            let (choice, shard) = self.routed.chosen.next(&self.ids.shards, index, shards.upstreams(), is_slow)?;
            let id = self.ids.next_for(shards.formula, shard)?;
            self.routed.chosen.begin_at(choice, start);
            Some(id)
        });
        chosen.unwrap_or_else(|| self.ids.next())
    }

    /// Routes all operations without an id to one shard, by adding a routing value.
    fn direct(&mut self, target: WriteTarget<'_>) -> Result<RoutedOperation, Unrouted> {
        let found = match self.routed.direct.get(target.name) {
            Some(found) => *found,
            None => {
                let found = self.directed(target);
                *self.routed.direct.entry(target.name.into()).or_insert(found)
            }
        };
        match found {
            Some((value, location)) => {
                let name = self.longest_name(target);
                Ok(RoutedOperation {
                    id_hash: None,
                    location,
                    parameter: Some(Parameter::Routing(value)),
                    name,
                    under_pipeline: false,
                })
            }
            None => self.any_node(target, Ingest::None),
        }
    }

    /// Returns a routing value that leads to the next shard in round-robin order, and the destination of that shard.
    fn directed(&self, target: WriteTarget<'_>) -> Option<(u32, Location)> {
        match target.direct(self.basis.round_robin)? {
            (value, Route::Primary { shard, upstream, .. }) => {
                Some((value, self.location_on(target, upstream, Some(shard))))
            }
            (_, Route::AnyNode) => None,
        }
    }

    /// Routes an unchanged operation to the next node in round-robin order.
    fn any_node(&self, target: WriteTarget<'_>, ingest: Ingest) -> Result<RoutedOperation, Unrouted> {
        let under_pipeline = ingest != Ingest::None;
        let (nodes, none): (&[UpstreamId], _) = match under_pipeline {
            true => (&self.basis.table.ingest_upstreams, Unrouted::IngestRole),
            false => (self.basis.table.upstreams(), Unrouted::Primary),
        };
        let node = self.basis.round_robin.checked_rem(nodes.len()).and_then(|number| nodes.get(number));
        let location = self.location_on(target, *node.ok_or(none)?, None);
        let name = self.longest_name(target);
        Ok(RoutedOperation { id_hash: None, location, parameter: None, name, under_pipeline })
    }

    /// Returns the location of operations on a shard at this upstream. The shard is `None` if the cluster chooses it.
    fn location_on(&self, target: WriteTarget<'_>, upstream: UpstreamId, shard: Option<u32>) -> Location {
        let (index, waits) = (target.number(), target.waits());
        let shards = Shards::of(index, shard);
        let is_apart = self.basis.apart.of(self.waits || waits).meets(shards);
        let scope = match is_apart || shard.is_some() && self.basis.config.dispatch.level == Level::Shard {
            true => Scope::shard(index, shard),
            false => Scope::NODE,
        };
        Location { destination: Destination { upstream, waits, scope }, shards, is_known: shard.is_some() }
    }

    /// Returns the pipelines that the cluster runs for the operation of this line. Fails if they may not be harmless.
    fn ingest(&self, named: Named<'_>, line: &ActionLine<'_>) -> Result<Ingest, Unrouted> {
        let ingest = match (line.action, line.pipeline) {
            (Action::Delete, _) => return Ok(Ingest::None),
            (_, None) => named.ingest?,
            (_, pipeline) => named.target.ingest(pipeline)?,
        };
        let is_refused = match line.action {
            // Elasticsearch 8.19 to 9.2 choose the pipelines of all upserts in a request by the first one's index, and
            // do not heed `_none`.
            Action::Update => (ingest, named.target.ingest(None)?) != (Ingest::None, Ingest::None),
            // No room can be reserved for items of any length.
            _ => self.basis.head.lists_pipelines && ingest != Ingest::None,
        };
        if is_refused { Err(Unrouted::IndexPipeline) } else { Ok(ingest) }
    }
}

impl Names {
    /// Adds the name of a target.
    pub fn add(&mut self, target: WriteTarget<'_>) {
        // A request keeps its table, so each name has one address.
        let name = target.name.as_ptr().addr();
        self.are_several |= *self.first.get_or_insert(name) != name;
        self.may_lead_elsewhere |= target.kind != NameKind::Index;
    }

    #[inline]
    fn in_line(&mut self, is_in_line: bool) {
        let [without, with] = &mut self.in_line;
        *(if is_in_line { with } else { without }) = true;
    }

    /// Returns whether two of the names may mean one index, whatever they meant at the last poll.
    pub fn may_meet(&self) -> bool {
        self.are_several && self.may_lead_elsewhere
    }

    /// Returns whether some lines have an index of their own, and others that of the path.
    pub fn are_mixed(&self) -> bool {
        self.in_line == [true, true]
    }
}
