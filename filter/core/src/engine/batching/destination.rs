use super::shards::Shards;
use crate::routing::UpstreamId;

/// The destination of a share. Shares with the same destination and caller are collected in one hold.
///
/// Two operations of a request that may mean the same document have the same destination, so that they keep their
/// order: an index has the same number under all of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    /// The upstream of the node.
    pub upstream: UpstreamId,
    /// Whether its indices ask the cluster to wait for copies of a shard before it writes.
    pub waits: bool,
    /// The shards with which it shares batches.
    pub scope: Scope,
}

/// The shards of an upstream whose operations share batches: all that are not apart, one, or several suspects.
///
/// It is one number, because a destination is compared for each operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope(u64);

impl Scope {
    /// All shards that are not apart.
    pub const NODE: Self = Self(0);

    /// The bit that tells one shard from a set, whose bits are lower.
    const ONE: u64 = 1 << Shards::BITS;

    /// The number in place of a shard that only the cluster knows. No index has so many shards.
    const UNKNOWN: u32 = u32::MAX >> 1;

    /// Returns the scope of one shard, or of the operations of one index for which only the cluster knows the shard: with
    /// `dispatch.level: shard`, or because it [may be slow](super::SlowShards).
    pub fn shard(index: u32, shard: Option<u32>) -> Self {
        let shard = shard.unwrap_or(Self::UNKNOWN) & Self::UNKNOWN;
        Self(Self::ONE | u64::from(index) << 31 | u64::from(shard))
    }

    /// Returns the scope of several shards, among which these were suspected of being slow when the request was read.
    pub fn apart(suspects: Shards) -> Self {
        Self(suspects.number())
    }
}

impl Destination {
    /// The destination of unrouted operations.
    pub const COORDINATOR: Self = Self::any_shard(UpstreamId::COORDINATOR);

    /// Returns the destination for all shards of an upstream.
    pub const fn any_shard(upstream: UpstreamId) -> Self {
        Self { upstream, waits: false, scope: Scope::NODE }
    }

    /// Returns the destination of what was for a node that has left the cluster.
    pub const fn at_coordinator(self) -> Self {
        Self { upstream: UpstreamId::COORDINATOR, scope: Scope::NODE, ..self }
    }

    /// Returns the destination of a share that is held, given the shards that may be slow.
    pub fn held_apart(self, shards: Shards, suspects: Shards) -> Self {
        match self.scope {
            Scope::NODE if shards.meets(suspects) => Self { scope: Scope::apart(shards.and(suspects)), ..self },
            _ => self,
        }
    }
}
