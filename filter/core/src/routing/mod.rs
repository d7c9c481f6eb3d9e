//! Where each document lives: hash and shard formulas, the routing table, and reading it from the cluster.
//!
//! Routing is an optimisation, never correctness: any node forwards a document to its owner. So whatever is not
//! known for certain is [`Unrouted`], and goes to the coordinating upstream.
//!
//! A [`StateCache`] asks the cluster in turns. Each begins with the state's version. If that has changed it goes on
//! with an overview: which indices there are, and a number for each that changes whenever the index does. Details
//! are asked for only of what has changed, some indices at a time, so that neither the cluster nor the requests that
//! wait here are kept long, however large the state is.

mod aliases;
mod board;
mod cache;
mod choice;
mod content;
mod details;
mod export;
mod formula;
mod hash;
mod index;
mod index_metadata;
mod lease;
mod name_kind;
mod node;
mod overrides;
mod overview;
mod primaries;
mod question;
mod seal;
mod section;
mod shared_data;
mod snapshot;
mod table;
#[cfg(test)]
mod tests;
mod turn;
mod unrouted;
mod upstream;
mod upstream_template;
mod version;
mod write_target;

pub use cache::{Errand, News, StateCache};
pub use choice::Choice;
pub use export::Export;
pub use formula::Formula;
pub use hash::hash;
pub use name_kind::NameKind;
pub use node::{HttpAddress, Node};
pub use overrides::Overrides;
pub use question::{Question, RefreshError};
pub use shared_data::{SharedData, Unshared};
pub use snapshot::{Snapshot, SnapshotError};
pub use table::{Route, RoutingTable};
pub use unrouted::Unrouted;
pub use upstream::{UpstreamId, Upstreams};
pub use upstream_template::{TemplateError, UpstreamTemplate};
pub use version::Version;
pub use write_target::WriteTarget;
