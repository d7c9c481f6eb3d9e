//! What of a request crosses between nodes.

use bulk_reshuffle::engine::{Explanation, Way};
use serde::Serialize;

/// How much of a request crosses between nodes on its way to the primaries: what a client sends to any node in turn, and
/// what the filter sends. Copies for replicas are not in it; they cross either way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forwarding {
    /// How many nodes take requests in turn: all of the cluster's.
    pub nodes: usize,
    /// Without the filter, on average over the nodes that may take the request.
    pub without: Forwarded,
    /// Depending on the node that takes it: the share of operations that goes on to another, at least and at most.
    pub range: [f64; 2],
    /// With the filter: what it does not route, or has no shard before a node makes its id, goes to any node still.
    pub with: Forwarded,
}

/// What goes on from the node that takes it to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Forwarded {
    /// How many, on average.
    pub operations: f64,
    /// Of their lines.
    pub bytes: f64,
    /// Of all operations, from 0 to 1.
    pub share: f64,
}

impl Forwarding {
    /// Of the operations that were read of a request, in front of so many nodes.
    pub fn of(explanation: &Explanation, nodes: usize) -> Self {
        // Any node is the owner's once in as many times as there are nodes.
        let elsewhere = if nodes > 0 { 1.0 - 1.0 / nodes as f64 } else { 0.0 };
        let all = explanation.operations as f64;
        let owned = explanation.nodes.iter().filter(|total| total.node.is_some()).map(|total| total.operations);
        let unowned = all - owned.clone().sum::<u64>() as f64;
        let stays = |operations: u64| operations as f64 + unowned * (1.0 - elsewhere);
        let share = |operations: f64| if all > 0.0 { 1.0 - operations / all } else { 0.0 };
        let shares: Vec<f64> = owned.map(|operations| share(stays(operations))).collect();
        // A node without any of it forwards all that is another's.
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
