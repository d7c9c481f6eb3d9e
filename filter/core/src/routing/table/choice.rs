use serde::Serialize;

use super::formula::Formula;

/// How an operation's shard was worked out: `shard = (hash mod modulus) / factor`, where the remainder is never
/// negative and the quotient is rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Of the routing value, or else of the id, as the cluster computes with it: signed. In a partitioned index the
    /// routing value's plus an offset that the id's hash decides.
    pub hash: i32,
    /// `routing_num_shards` of the index, or the number of its shards where it was made by Elasticsearch 9.4 or later.
    pub modulus: u32,
    /// `routing_num_shards` by the number of shards, or 1.
    pub factor: u32,
    /// The number of shards over which one routing value spreads, where that is more than one.
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
