//! The location of each document: hash and shard formulas, the routing table, and reading it from the cluster.
//!
//! Routing is an optimisation; correctness never depends on it, because any node forwards a document to its owner.
//! Anything that is not certain is [`Unrouted`], and goes to the coordinator.
//!
//! A [`StateCache`] polls the cluster in cycles. Each cycle begins with the version of the state. If that has changed,
//! the cycle reads an overview: the names of the indices, and for each a number that changes whenever the index does.
//! It then queries details only for the indices that have changed, some at a time. This keeps both the cluster and
//! waiting requests from long delays, however large the state is.

mod checks;
mod export;
mod pipelines;
mod refresh;
mod sharing;
mod table;
#[cfg(test)]
mod tests;

pub use crate::hash::hash;
pub use crate::node::{HttpAddress, Node};
pub use checks::{CheckResult, Silence, UpstreamCheck};
pub use export::{Export, Snapshot, SnapshotError};
pub(crate) use pipelines::may_have_metadata;
pub use pipelines::{Harmless, Pipelines, Unproven};
pub use refresh::{PollAction, PollEvent, RefreshError, StateCache, StateQuery};
pub use sharing::{SharedData, Unshared};
pub use table::{
    CallTarget, Choice, Formula, Ingest, NameKind, Overrides, Route, RoutingTable, ShardsById, Unrouted, UpstreamId,
    Upstreams, Version, WriteTarget,
};
