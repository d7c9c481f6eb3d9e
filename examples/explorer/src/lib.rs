//! Shows how the filter handles bulk requests, in a browser page and in Node. It runs the filter's own engine with a
//! given cluster state, and in front of simulated nodes in virtual time. Nothing is sent over the network.
//!
//! [`Cluster`](cluster::Cluster) explains requests, [`forwarding`] computes what is forwarded between the nodes, and
//! [`simulation`] simulates many requests.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::unreachable)]
#![warn(missing_docs)]

pub mod cluster;
pub mod forwarding;
mod javascript;
pub mod sample;
pub mod simulation;
