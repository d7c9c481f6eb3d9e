//! The operations of a request that are forwarded between nodes.

use bulk_reshuffle::engine::{Explanation, Way};
use serde::Serialize;

/// The part of a request that is forwarded between nodes on its way to the primary shards, without the filter (a client
/// sends to all nodes round robin) and with it. Replication is not included; it is the same either way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forwarding {
    /// The number of nodes that take requests: all nodes of the cluster.
    pub nodes: usize,
    /// The result without the filter, on average over the nodes that may take the request.
    pub without: Forwarded,
    /// The least and the largest share of forwarded operations, depending on the node that takes the request.
    pub range: [f64; 2],
    /// The result with the filter. Operations that the filter does not route, or whose shard depends on an id that a
    /// node generates, still go to any node.
    pub with: Forwarded,
}

/// The operations that the receiving node forwards to other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Forwarded {
    /// The average number of operations.
    pub operations: f64,
    /// The average bytes of their lines.
    pub bytes: f64,
    /// The share of all operations, from 0 to 1.
    pub share: f64,
}

impl Forwarding {
    /// Computes the forwarding of a request's parsed operations in a cluster of this number of nodes.
    pub fn of(explanation: &Explanation, nodes: usize) -> Self {
        // With n nodes, the receiving node is the owner with probability 1/n.
        let elsewhere = if nodes > 0 { 1.0 - 1.0 / nodes as f64 } else { 0.0 };
        let all = explanation.operations as f64;
        let owned = explanation.nodes.iter().filter(|total| total.node.is_some()).map(|total| total.operations);
        let unowned = all - owned.clone().sum::<u64>() as f64;
        let stays = |operations: u64| operations as f64 + unowned * (1.0 - elsewhere);
        let share = |operations: f64| if all > 0.0 { 1.0 - operations / all } else { 0.0 };
        let shares: Vec<f64> = owned.map(|operations| share(stays(operations))).collect();
        // A node that owns none of the operations forwards all operations of other nodes.
        let idle = (shares.len() < nodes).then(|| share(stays(0)));
        let (least, most) = shares
            .iter()
            .copied()
            .chain(idle)
            .fold((1.0, 0.0), |(least, most): (f64, f64), share| (least.min(share), most.max(share)));
        let without = Forwarded::of(all, explanation.bytes as f64, elsewhere, all);
        let unrouted = explanation.nodes.iter().filter(|total| total.node.is_none());
        let any_node = (explanation.any_node.operations as f64, explanation.any_node.bytes as f64);
        let unrouted = unrouted.fold(any_node, |(operations, bytes), total| {
            (operations + total.operations as f64, bytes + total.bytes as f64)
        });
        let with = match explanation.way {
            Way::PassedWhole => without,
            Way::Split => Forwarded::of(unrouted.0, unrouted.1, elsewhere, all),
        };
        Self { nodes, without, range: [least.min(most), most], with }
    }
}

impl Forwarded {
    fn of(operations: f64, bytes: f64, elsewhere: f64, all: f64) -> Self {
        let operations = operations * elsewhere;
        Self { operations, bytes: bytes * elsewhere, share: if all > 0.0 { operations / all } else { 0.0 } }
    }
}
