//! The routing table as JSON, for the admin path, and complete cluster states, for the explorer.

mod snapshot;
mod table;

pub use snapshot::{Snapshot, SnapshotError};
pub use table::Export;
