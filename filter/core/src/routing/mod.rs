//! Where each document lives: hash and shard formulas, the routing table, and reading it from the cluster.
//!
//! Routing is an optimisation, never correctness: any node forwards a document to its owner. So whatever is not
//! known for certain is [`Unrouted`], and goes to the coordinating upstream.

mod aliases;
mod cluster_state;
mod formula;
mod hash;
mod refresh;
mod table;
mod unrouted;
mod upstream;
mod upstream_template;

pub use aliases::Aliases;
pub use cluster_state::{ClusterState, Node, Version};
pub use formula::Formula;
pub use hash::hash;
pub use refresh::{Loaded, Question, Refresh, RefreshError};
pub use table::{Route, RoutingTable};
pub use unrouted::Unrouted;
pub use upstream::{UpstreamId, Upstreams};
pub use upstream_template::{TemplateError, UpstreamTemplate};
