use super::index::{Index, ShardRoute};
use super::{Choice, NameKind, Node, Overrides, Route, RoutingTable, Unrouted, hash};

/// The index that writing to a name goes to, be it the index's own, an alias or a data stream.
#[derive(Debug, Clone, Copy)]
pub struct WriteTarget<'a> {
    pub(super) table: &'a RoutingTable,
    pub(super) name: &'a str,
    pub(super) index_name: &'a str,
    pub(super) index: &'a Index,
    pub(super) kind: NameKind,
    /// The routing value that an alias adds.
    pub(super) added_routing: Option<&'a str>,
}

impl<'a> WriteTarget<'a> {
    /// The name, as long as the table is there.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The name of the index itself.
    pub fn index(&self) -> &'a str {
        self.index_name
    }

    /// The routing value that operations get which have none.
    pub fn added_routing(&self) -> Option<&'a str> {
        self.added_routing
    }

    /// How the shard of an operation is worked out, started or not; `None` if that is for the cluster to choose.
    pub fn choice(&self, id_hash: Option<u32>, routing: Option<&str>) -> Result<Option<Choice>, Unrouted> {
        self.index.choice(id_hash, self.added_routing.or(routing).map(hash))
    }

    /// How many shards the index has; none where it cannot be told.
    pub fn shards(&self) -> u32 {
        self.index.primaries().len() as u32
    }

    /// The node that holds a shard's started primary; `None` where none is, or where the cluster does not tell of it.
    pub fn primary(&self, shard: u32) -> Option<&'a Node> {
        self.table.node(self.index.primaries().get(shard as usize)?.node()?)
    }

    /// What the name stands for.
    pub fn kind(&self) -> NameKind {
        self.kind
    }

    /// What the index says of how its operations are to be treated.
    pub fn overrides(&self) -> Overrides {
        self.index.overrides
    }

    /// Where an operation goes, given the hash of its id and its routing value.
    pub fn route(&self, id_hash: Option<u32>, routing: Option<&str>) -> Result<Route, Unrouted> {
        let added = self.added_routing;
        if added.is_some() && routing.is_some() && added != routing {
            return Err(Unrouted::AliasRouting);
        }
        match self.index.route(id_hash, added.or(routing).map(hash))? {
            Some(route) => self.route_to(route),
            None => Ok(Route::AnyNode),
        }
    }

    /// A routing value for operations that have neither id nor routing, which leads all of them to one shard, and
    /// where that is: another shard for each turn. `None` where the routing value alone does not decide.
    pub fn direct(&self, turn: usize) -> Option<(u32, Route)> {
        if self.added_routing.is_some() {
            return None;
        }
        let (value, route) = self.index.direct(turn, |node| self.table.upstream(node).is_ok())?;
        Some((value, self.route_to(route).ok()?))
    }

    fn route_to(&self, ShardRoute { index, shard, node }: ShardRoute) -> Result<Route, Unrouted> {
        Ok(Route::Primary { index, shard, upstream: self.table.upstream(node)? })
    }
}
