//! The routing table: from an index or alias and a document's id to the shard, and to the node that has its primary.
//!
//! [`RoutingTable`] is read for each operation. It has a [`Bucket`] for each hash of a name, so that a change replaces
//! only a few buckets. [`Formula`] is the cluster's own rule from a hash to a shard. Anything that is not certain is
//! [`Unrouted`].

mod bucket;
mod formula;
mod index;
mod index_metadata;
mod name_kind;
mod overrides;
mod primaries;
mod routing_table;
mod unrouted;
mod upstream;
mod version;

pub(crate) use bucket::{BUCKETS, Bucket, Buckets, Entry, Target};
pub use formula::{Choice, Formula};
pub(crate) use index::{Index, IndexPipelines, Shards};
pub(crate) use index_metadata::{IndexMetadata, identity};
pub use name_kind::NameKind;
pub use overrides::Overrides;
pub(crate) use primaries::{Primaries, ShardTable};
pub use routing_table::{Ingest, Route, RoutingTable, ShardsById, WriteTarget};
pub use unrouted::Unrouted;
pub use upstream::{CallTarget, UpstreamId, Upstreams};
pub use version::Version;
