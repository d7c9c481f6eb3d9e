//! A cluster of very many indices, limited to what matters for routing, and a worker that follows its state step by
//! step, so that each step can be measured.

mod large_cluster;
mod shelf;
mod worker;

pub use large_cluster::LargeCluster;
pub use shelf::Shelf;
pub use worker::{Step, Worker};
