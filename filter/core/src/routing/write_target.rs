use super::index::{Index, ShardRoute};
use super::{NameKind, Overrides, Route, RoutingTable, Unrouted, hash};

/// The index that writing to a name goes to, be it the index's own, an alias or a data stream.
#[derive(Debug, Clone, Copy)]
pub struct WriteTarget<'a> {
    pub(super) table: &'a RoutingTable,
    pub(super) name: &'a str,
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
            Some(route) => self.primary(route),
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
        Some((value, self.primary(route).ok()?))
    }

    fn primary(&self, ShardRoute { index, shard, node }: ShardRoute) -> Result<Route, Unrouted> {
        Ok(Route::Primary { index, shard, upstream: self.table.upstream(node)? })
    }
}
