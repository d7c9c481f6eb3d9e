use crate::config::Level;
use crate::routing::UpstreamId;

/// Where a share of a request goes, and with what it may travel: the shares of one destination and one caller meet in
/// a hold.
///
/// Two operations of a request that may mean the same document have the same destination, so that their order holds:
/// an index has the same number under all of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    /// Whose node.
    pub upstream: UpstreamId,
    /// The number of the index and that of the shard, where batches are made for each shard and the shard is known.
    pub shard: Option<(u64, u32)>,
}

impl Destination {
    /// For whatever is unrouted.
    pub const COORDINATOR: Self = Self::any_shard(UpstreamId::COORDINATOR);

    /// For what has no shard, or none that is known.
    pub const fn any_shard(upstream: UpstreamId) -> Self {
        Self { upstream, shard: None }
    }

    /// For a shard whose primary is on this upstream's node.
    pub fn of_shard(level: Level, upstream: UpstreamId, index: u64, shard: u32) -> Self {
        let shard = match level {
            Level::Node => None,
            Level::Shard => Some((index, shard)),
        };
        Self { upstream, shard }
    }
}
