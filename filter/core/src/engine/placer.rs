use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::destination::Destination;
use super::ids::Ids;
use crate::bulk::{Action, ActionLine, Parameter};
use crate::config::{Config, MissingId};
use crate::routing::{NameKind, Overrides, Route, RoutingTable, Unrouted, hash};

/// Says where a request's operations go.
#[derive(Debug)]
pub struct Placer<'a> {
    /// Where the primaries are.
    pub table: &'a RoutingTable,
    /// What becomes of operations that name no id.
    pub config: &'a Config,
    /// For action lines that name no index.
    pub default_index: Option<&'a str>,
    /// For action lines that name no routing value.
    pub default_routing: Option<&'a str>,
    /// Whether names have to be aliases, for action lines that do not say.
    pub require_alias: bool,
    /// Whose turn it is to take the request's operations without an id.
    pub turn: usize,
    /// What was worked out of [`RoutingTable::direct`].
    pub direct: &'a mut HashMap<Box<str>, Option<(u32, Destination)>>,
    /// Makes ids.
    pub ids: &'a mut Ids,
    /// How many operations go to the coordinating upstream, and why.
    pub unrouted: &'a mut BTreeMap<Unrouted, usize>,
    /// A name that the table does not know.
    pub unknown: &'a mut Option<String>,
}

/// Where an operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The hash of its id, if it has one or is given one.
    pub id_hash: Option<u32>,
    /// Where that is.
    pub destination: Destination,
    /// What is added to its action line.
    pub parameter: Option<Parameter>,
}

impl Placer<'_> {
    /// Where the operation of this line goes.
    pub fn place(&mut self, line: &ActionLine<'_>) -> Result<Place, Unrouted> {
        let index = line.index.as_deref().or(self.default_index).ok_or(Unrouted::NoIndex)?;
        let overrides = self.table.overrides(index);
        if overrides.enabled == Some(false) || self.config.is_index_disabled(index) {
            return Err(Unrouted::Disabled);
        }
        if line.action != Action::Create && self.table.kind(index).is_some_and(NameKind::is_data_stream) {
            return Err(Unrouted::CreateOnly);
        }
        let routing = line.routing.as_deref().or(self.default_routing);
        let missing_id = line.id.is_none().then(|| self.missing_id(line, index, routing, overrides));
        let made = (missing_id == Some(MissingId::Generate)).then(|| self.ids.next());
        let id_hash = made.as_ref().map(|id| id.as_str()).or(line.id.as_deref()).map(hash);
        let parameter = made.map(Parameter::Id);
        match self.table.route(index, id_hash, routing) {
            Ok(Route::Primary { index, shard, upstream }) => {
                let destination = Destination::of_shard(self.config.dispatch.level, upstream, index, shard);
                Ok(Place { id_hash, destination, parameter })
            }
            Ok(Route::AnyNode) if missing_id == Some(MissingId::Direct) => self.direct(index),
            Ok(Route::AnyNode) => self.any_node(),
            // As it came: nobody knows what the cluster would make of an id.
            Err(why) if why.may_be_merged() => {
                let count = self.unrouted.entry(why).or_default();
                *count = count.saturating_add(1);
                let id_hash = line.id.as_deref().map(hash);
                Ok(Place { id_hash, destination: Destination::COORDINATOR, parameter: None })
            }
            Err(why) => {
                if why == Unrouted::UnknownIndex {
                    *self.unknown = Some(index.to_owned());
                }
                Err(why)
            }
        }
    }

    /// What becomes of an operation that names no id.
    fn missing_id(&self, line: &ActionLine<'_>, index: &str, routing: Option<&str>, overrides: Overrides) -> MissingId {
        let kind = self.table.kind(index);
        let is_alias = kind.is_some_and(NameKind::is_alias);
        let is_stream = kind.is_some_and(NameKind::is_data_stream);
        // What the cluster refuses before it makes an id gets none here either, so that its refusal shows none: where
        // an alias is required, in data streams where there is a routing value, and in their own indices.
        let is_refused = (line.require_alias.unwrap_or(self.require_alias) && !is_alias)
            || (is_stream && routing.is_some())
            || index.starts_with(".ds-");
        match overrides.missing_id.unwrap_or_else(|| self.config.missing_id(index)) {
            _ if is_refused => MissingId::Pass,
            MissingId::Direct if is_stream => MissingId::Pass,
            missing_id => missing_id,
        }
    }

    /// All of them to one shard, by a routing value.
    fn direct(&mut self, index: &str) -> Result<Place, Unrouted> {
        let found = match self.direct.get(index) {
            Some(found) => *found,
            None => {
                let found = self.directed(index);
                *self.direct.entry(index.into()).or_insert(found)
            }
        };
        match found {
            Some((value, destination)) => {
                Ok(Place { id_hash: None, destination, parameter: Some(Parameter::Routing(value)) })
            }
            None => self.any_node(),
        }
    }

    /// A routing value that leads to the shard whose turn it is, and where that is.
    fn directed(&self, index: &str) -> Option<(u32, Destination)> {
        match self.table.direct(index, self.turn)? {
            (value, Route::Primary { index, shard, upstream }) => {
                Some((value, Destination::of_shard(self.config.dispatch.level, upstream, index, shard)))
            }
            (_, Route::AnyNode) => None,
        }
    }

    /// To the node whose turn it is, as it is.
    fn any_node(&self) -> Result<Place, Unrouted> {
        let nodes = self.table.upstreams();
        let node = self.turn.checked_rem(nodes.len()).and_then(|turn| nodes.get(turn));
        let destination = Destination::any_shard(*node.ok_or(Unrouted::Primary)?);
        Ok(Place { id_hash: None, destination, parameter: None })
    }
}
