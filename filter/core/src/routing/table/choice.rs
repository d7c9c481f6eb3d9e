use serde::Serialize;

use super::formula::Formula;

/// The computation of an operation's shard: `shard = (hash mod modulus) / factor`. The remainder is never negative, and
/// the quotient is rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The hash of the routing value, or else of the id. It is signed, as in the cluster. In a partitioned index it is
    /// the routing value's hash plus an offset that the id's hash decides.
    pub hash: i32,
    /// The index's `routing_num_shards`, or its number of shards if Elasticsearch 9.4 or later created it.
    pub modulus: u32,
    /// The quotient of `routing_num_shards` and the number of shards, or 1.
    pub factor: u32,
    /// The number of shards over which one routing value spreads, if that is more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_size: Option<u32>,
    /// The number of the shard.
    pub shard: u32,
}

impl Choice {
    pub(crate) fn new(formula: Formula, hash: u32, partition_size: Option<u32>) -> Self {
        Self {
            hash: hash as i32,
            modulus: formula.modulus(),
            factor: formula.factor(),
            partition_size,
            shard: formula.shard(hash),
        }
    }
}
