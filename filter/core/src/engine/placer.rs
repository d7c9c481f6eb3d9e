use hashbrown::HashMap;

use super::ids::Ids;
use crate::bulk::{ActionLine, Parameter};
use crate::config::{Config, MissingId};
use crate::routing::{Route, RoutingTable, Unrouted, UpstreamId, hash};

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
    /// Whose turn it is to take the request's operations without an id.
    pub turn: usize,
    /// What was worked out of [`RoutingTable::direct`].
    pub direct: &'a mut HashMap<Box<str>, Option<(u32, UpstreamId)>>,
    /// Makes ids.
    pub ids: &'a mut Ids,
}

/// Where an operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The hash of its id, if it has one or is given one.
    pub id_hash: Option<u32>,
    /// The upstream of the node that it goes to.
    pub upstream: UpstreamId,
    /// What is added to its action line.
    pub parameter: Option<Parameter>,
}

impl Placer<'_> {
    /// Where the operation of this line goes.
    pub fn place(&mut self, line: &ActionLine<'_>) -> Result<Place, Unrouted> {
        let index = line.index.as_deref().or(self.default_index).ok_or(Unrouted::NoIndex)?;
        let routing = line.routing.as_deref().or(self.default_routing);
        let missing_id = line.id.is_none().then(|| self.config.missing_id(index));
        let made = (missing_id == Some(MissingId::Generate)).then(|| self.ids.next());
        let id_hash = made.as_ref().map(|id| id.as_str()).or(line.id.as_deref()).map(hash);
        let parameter = made.map(Parameter::Id);
        match self.table.route(index, id_hash, routing) {
            Ok(Route::Primary { upstream, .. }) => Ok(Place { id_hash, upstream, parameter }),
            Ok(Route::AnyNode) if missing_id == Some(MissingId::Direct) => self.direct(index),
            Ok(Route::AnyNode) => self.any_node(),
            // As it came: nobody knows what the cluster would make of an id.
            Err(why) if why.may_be_merged() => {
                let id_hash = line.id.as_deref().map(hash);
                Ok(Place { id_hash, upstream: UpstreamId::COORDINATOR, parameter: None })
            }
            Err(why) => Err(why),
        }
    }

    /// All of them to one shard, by a routing value.
    fn direct(&mut self, index: &str) -> Result<Place, Unrouted> {
        let found = match self.direct.get(index) {
            Some(found) => *found,
            None => *self.direct.entry(index.into()).or_insert(self.table.direct(index, self.turn)),
        };
        match found {
            Some((value, upstream)) => {
                Ok(Place { id_hash: None, upstream, parameter: Some(Parameter::Routing(value)) })
            }
            None => self.any_node(),
        }
    }

    /// To the node whose turn it is, as it is.
    fn any_node(&self) -> Result<Place, Unrouted> {
        let nodes = self.table.upstreams();
        let node = self.turn.checked_rem(nodes.len()).and_then(|turn| nodes.get(turn));
        Ok(Place { id_hash: None, upstream: *node.ok_or(Unrouted::Primary)?, parameter: None })
    }
}
