//! Scripted nodes: their cluster state, their reactions, and the requests that they have received.

mod cluster_script;
mod fake_cluster;
mod index;
mod items;
mod quick_items;
mod reaction;
mod recorded;

pub use cluster_script::ClusterScript;
pub use fake_cluster::FakeCluster;
pub use index::Index;
pub use items::{Item, Items};
pub use quick_items::{QuickItem, QuickItems};
pub use reaction::{Gate, Reaction};
pub use recorded::{Received, Recorded};
