//! Where each document lives: hash and shard formulas, the routing table, and reading it from the cluster.
//!
//! Routing is an optimisation, never correctness: any node forwards a document to its owner. So whatever is not
//! known for certain is [`Unrouted`], and goes to the coordinating upstream.
//!
//! A [`StateCache`] polls the cluster in cycles. Each begins with the state's version. If that has changed it goes on
//! with an overview: which indices there are, and a number for each that changes whenever the index does. Details
//! are asked for only of what has changed, some indices at a time, so that neither the cluster nor the requests that
//! wait here are kept long, however large the state is.

mod export;
mod refresh;
mod sharing;
mod table;
#[cfg(test)]
mod tests;

pub use crate::config::{TemplateError, UpstreamTemplate};
pub use crate::hash::hash;
pub use crate::node::{HttpAddress, Node};
pub use export::{Export, Snapshot, SnapshotError};
pub use refresh::{PollAction, PollEvent, RefreshError, StateCache, StateQuery};
pub use sharing::{SharedData, Unshared};
pub use table::{
    Choice, Formula, NameKind, Overrides, Route, RoutingTable, Unrouted, UpstreamId, Upstreams, Version, WriteTarget,
};
