use std::rc::Rc;

use crate::config::Config;
use crate::engine::batching::Apart;
use crate::engine::head::Head;
use crate::routing::RoutingTable;

/// What a request has from its beginning, and keeps to its end.
#[derive(Debug)]
pub struct Basis {
    /// The parsed headers.
    pub head: Rc<Head>,
    /// The configuration.
    pub config: Rc<Config>,
    /// The table that routes all operations, so that operations on one document stay together.
    pub table: Rc<RoutingTable>,
    /// The shards that may be slow, for the same reason.
    pub apart: Apart,
    /// The round-robin counter that chooses a node for its operations without an id.
    pub round_robin: usize,
}
