//! The polls that keep the routing table fresh.
//!
//! [`StateCache`] decides when to poll the cluster, and builds tables from the answers. A cycle sends one
//! [`StateQuery`] after the other: the version of the state, an overview of all indices, and the details of those that
//! have changed.

mod aliases;
mod cache;
mod cycle;
mod details;
mod overview;
mod schedule;
mod state_query;
mod tables;
mod wanted;

pub use cache::{PollAction, PollEvent, StateCache};
pub use state_query::{RefreshError, StateQuery};
