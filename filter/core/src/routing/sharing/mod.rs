//! The data that the workers of one Envoy share, so that one of them polls the cluster for all.
//!
//! The worker with the [`Lease`] polls, and publishes its results in the [`SharedStore`], in parts. The others apply
//! the parts that have changed. Each part has a keyed checksum, because other plug-ins with the same VM id can write
//! there.

mod checksum;
mod content;
mod lease;
mod shared_data;
mod store;

pub(crate) use content::{Content, Part};
pub(crate) use lease::{Lease, Watch};
pub use shared_data::{SharedData, Unshared};
pub(crate) use store::SharedStore;
