use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::id_generator::IdGenerator;
use crate::bulk::{Action, ActionLine, Parameter};
use crate::config::{Config, MissingId};
use crate::engine::batching::Destination;
use crate::routing::{Route, RoutingTable, Unrouted, WriteTarget, hash};

/// Says where a request's operations go.
#[derive(Debug)]
pub struct OperationRouter<'a> {
    /// Where the primaries are.
    pub table: &'a RoutingTable,
    /// How operations without an id are routed.
    pub config: &'a Config,
    /// For action lines that name no index.
    pub default_index: Option<&'a str>,
    /// For action lines that name no routing value.
    pub default_routing: Option<&'a str>,
    /// Whether names have to be aliases, for action lines that do not say.
    pub require_alias: bool,
    /// Whether they have to be data streams, likewise, if the query says so.
    pub require_data_stream: Option<bool>,
    /// The round robin of the nodes that take the request's operations without an id.
    pub turn: usize,
    /// What was worked out of [`direct`](crate::routing::WriteTarget::direct).
    pub direct: &'a mut HashMap<Box<str>, Option<(u32, Destination)>>,
    /// Makes ids.
    pub ids: &'a mut IdGenerator,
    /// How many operations go to the coordinating upstream, and why.
    pub unrouted: &'a mut BTreeMap<Unrouted, usize>,
    /// A name that the table does not know.
    pub unknown: &'a mut Option<String>,
    /// What the name that came last stands for: mostly the next one is the same.
    pub last: Option<Named<'a>>,
}

/// What a name in an action line stands for, and how operations on it without an id are routed.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    target: WriteTarget<'a>,
    missing_id: MissingId,
}

/// Where an operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoutedOperation {
    /// The hash of its id, if it has one or is given one.
    pub id_hash: Option<u32>,
    /// Where that is.
    pub destination: Destination,
    /// What is added to its action line.
    pub parameter: Option<Parameter>,
    /// Bytes of the longest name that its item may have for the index, besides those in the line.
    pub name: u64,
}

/// Bytes of the longest name of an index.
const LONGEST_NAME: u64 = 255;

impl<'a> OperationRouter<'a> {
    /// Where the operation of this line goes.
    pub fn place(&mut self, line: &ActionLine<'_>) -> Result<RoutedOperation, Unrouted> {
        let name = line.index.as_deref().or(self.default_index).ok_or(Unrouted::NoIndex)?;
        match self.named(name).and_then(|named| self.route(named, line)) {
            // Unchanged: it is not known what the cluster would make of an id.
            Err(why) if why.may_be_merged() => {
                let count = self.unrouted.entry(why).or_default();
                *count = count.saturating_add(1);
                let id_hash = line.id.as_deref().map(hash);
                Ok(RoutedOperation {
                    id_hash,
                    destination: Destination::COORDINATOR,
                    parameter: None,
                    name: LONGEST_NAME,
                })
            }
            Err(Unrouted::UnknownIndex) => {
                *self.unknown = Some(name.to_owned());
                Err(Unrouted::UnknownIndex)
            }
            placed => placed,
        }
    }

    fn named(&mut self, name: &str) -> Result<Named<'a>, Unrouted> {
        let named = match self.last.filter(|last| last.target.name() == name) {
            Some(last) => last,
            None => self.find(name)?,
        };
        self.last = Some(named);
        Ok(named)
    }

    fn find(&self, name: &str) -> Result<Named<'a>, Unrouted> {
        if self.config.is_index_disabled(name) {
            return Err(Unrouted::Disabled);
        }
        let target = self.table.write_target(name)?;
        let overrides = target.overrides();
        if overrides.enabled == Some(false) {
            return Err(Unrouted::Disabled);
        }
        let missing_id = match overrides.missing_id.unwrap_or_else(|| self.config.missing_id(name)) {
            // The cluster refuses an operation on an index of a data stream before it makes an id.
            _ if name.starts_with(".ds-") => MissingId::Pass,
            MissingId::Direct if target.kind().is_data_stream() => MissingId::Pass,
            missing_id => missing_id,
        };
        Ok(Named { target, missing_id })
    }

    fn route(&mut self, named: Named<'_>, line: &ActionLine<'_>) -> Result<RoutedOperation, Unrouted> {
        if let Some(required) = self.require_data_stream(line)
            && (required && line.action == Action::Update || !self.table.knows_require_data_stream())
        {
            return Err(Unrouted::RequireDataStream);
        }
        if line.action != Action::Create && named.target.kind().is_data_stream() {
            return Err(Unrouted::CreateOnly);
        }
        let routing = line.routing.as_deref().or(self.default_routing);
        let missing_id = line.id.is_none().then(|| self.missing_id(line, named, routing));
        let made = (missing_id == Some(MissingId::Generate)).then(|| self.ids.next());
        let id_hash = made.as_ref().map(|id| id.as_str()).or(line.id.as_deref()).map(hash);
        match named.target.route(id_hash, routing)? {
            Route::Primary { index, shard, upstream } => {
                let destination = Destination::of_shard(self.config.dispatch.level, upstream, index, shard);
                let name = self.longest_name(named.target);
                Ok(RoutedOperation { id_hash, destination, parameter: made.map(Parameter::Id), name })
            }
            Route::AnyNode if missing_id == Some(MissingId::Direct) => self.direct(named.target),
            Route::AnyNode => self.any_node(named.target),
        }
    }

    fn longest_name(&self, target: WriteTarget<'_>) -> u64 {
        target.index().len().max(self.default_index.map_or(0, str::len)) as u64
    }

    fn require_data_stream(&self, line: &ActionLine<'_>) -> Option<bool> {
        line.require_data_stream.or(self.require_data_stream)
    }

    /// Routes an operation without an id. What the cluster refuses before it makes an id gets none here
    /// either, so that its refusal shows none: where an alias or a data stream is required, in data streams where there
    /// is a routing value.
    fn missing_id(&self, line: &ActionLine<'_>, named: Named<'_>, routing: Option<&str>) -> MissingId {
        let kind = named.target.kind();
        let lacks_alias = line.require_alias.unwrap_or(self.require_alias) && !kind.is_alias();
        let lacks_stream = self.require_data_stream(line) == Some(true) && !kind.is_data_stream();
        match lacks_alias || lacks_stream || (kind.is_data_stream() && routing.is_some()) {
            true => MissingId::Pass,
            false => named.missing_id,
        }
    }

    /// All of them to one shard, by a routing value.
    fn direct(&mut self, target: WriteTarget<'_>) -> Result<RoutedOperation, Unrouted> {
        let found = match self.direct.get(target.name()) {
            Some(found) => *found,
            None => {
                let found = self.directed(target);
                *self.direct.entry(target.name().into()).or_insert(found)
            }
        };
        match found {
            Some((value, destination)) => {
                let name = self.longest_name(target);
                Ok(RoutedOperation { id_hash: None, destination, parameter: Some(Parameter::Routing(value)), name })
            }
            None => self.any_node(target),
        }
    }

    /// Returns a routing value that leads to the next shard of the round robin, and where that shard is.
    fn directed(&self, target: WriteTarget<'_>) -> Option<(u32, Destination)> {
        match target.direct(self.turn)? {
            (value, Route::Primary { index, shard, upstream }) => {
                Some((value, Destination::of_shard(self.config.dispatch.level, upstream, index, shard)))
            }
            (_, Route::AnyNode) => None,
        }
    }

    /// Routes to the next node of the round robin, unchanged.
    fn any_node(&self, target: WriteTarget<'_>) -> Result<RoutedOperation, Unrouted> {
        let nodes = self.table.upstreams();
        let node = self.turn.checked_rem(nodes.len()).and_then(|turn| nodes.get(turn));
        let destination = Destination::any_shard(*node.ok_or(Unrouted::Primary)?);
        Ok(RoutedOperation { id_hash: None, destination, parameter: None, name: self.longest_name(target) })
    }
}
