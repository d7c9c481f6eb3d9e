//! What the filter makes of bulk requests, for a page in a browser and for Node: its own engine, in front of a cluster's
//! state that somebody has handed in, and of nodes in virtual time. Nothing is sent anywhere.
//!
//! [`Cluster`](cluster::Cluster) explains requests, [`forwarding`] tells what crosses between the nodes, [`simulation`]
//! lets many requests come.

pub mod cluster;
pub mod forwarding;
mod javascript;
pub mod sample;
pub mod simulation;
