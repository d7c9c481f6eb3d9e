//! What a document costs Envoy's worker in clusters of many nodes and shards, and while other requests wait. Also how
//! many requests share a batch. Runs the real filter with fake nodes that answer each operation correctly.

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
