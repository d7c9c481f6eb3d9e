use crate::config::Level;
use crate::routing::UpstreamId;

/// The destination of a share. Shares with the same destination and caller are collected in one hold.
///
/// Two operations of a request that may mean the same document have the same destination, so that they keep their
/// order: an index has the same number under all of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    /// The upstream of the node.
    pub upstream: UpstreamId,
    /// The numbers of the index and the shard, if there is a batch for each shard and the shard is known.
    pub shard: Option<(u64, u32)>,
}

impl Destination {
    /// The destination of unrouted operations.
    pub const COORDINATOR: Self = Self::any_shard(UpstreamId::COORDINATOR);

    /// Returns the destination for operations without a known shard.
    pub const fn any_shard(upstream: UpstreamId) -> Self {
        Self { upstream, shard: None }
    }

    /// Returns the destination for a shard whose primary is on this upstream's node.
    pub fn of_shard(level: Level, upstream: UpstreamId, index: u64, shard: u32) -> Self {
        let shard = match level {
            Level::Node => None,
            Level::Shard => Some((index, shard)),
        };
        Self { upstream, shard }
    }
}
