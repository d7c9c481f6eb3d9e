//! What a document costs Envoy's worker in clusters of many nodes and shards, and beside requests that wait: with the real
//! filter, before fake nodes that answer each operation truthfully. And how many requests share a batch.

mod load;
mod measurement;
mod plan;
mod site;
mod tables;
mod worker;

pub use load::Load;
pub use measurement::Measurement;
pub use plan::{Case, Series, plan};
pub use site::Site;
pub use tables::{Figures, arrivals, growth};
