//! The routing table as JSON, for the admin path, and a cluster state of one piece, for the explorer.

mod snapshot;
mod table;

pub use snapshot::{Snapshot, SnapshotError};
pub use table::Export;
