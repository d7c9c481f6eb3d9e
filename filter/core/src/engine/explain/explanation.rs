use serde::Serialize;

use super::Why;
use crate::bulk::Action;
use crate::config::MissingId;
use crate::engine::pass_through::PassThrough;
use crate::routing::{Choice, NameKind, Node};

/// What would become of a bulk request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// Whether it is taken in at all.
    pub way: Way,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<Fault>,
    /// How many operations were read: all of them, or those in front of the one because of which it passes on whole.
    pub operations: u64,
    /// Bytes of their lines, with what is added to them.
    pub bytes: u64,
    /// How many shares it has: batches in which it would leave.
    pub shares: usize,
    /// Where they go, by upstream and node. A node with a primary of an index that is written to is listed though it
    /// may get nothing.
    pub nodes: Vec<NodeTotal>,
    /// The shards of all indices that are written to, by index and number; at most as many as operations.
    pub shards: Vec<ShardTotal>,
    /// How many shards more there are.
    pub shards_left_out: usize,
    /// Those that go to the coordinating upstream because their node is not known, by reason.
    pub unrouted: Vec<UnroutedTotal>,
    /// Those that go to any node as they are, because they have no id and thereby no shard yet.
    pub any_node: Sum,
    /// How unevenly they are spread.
    pub skew: Skew,
    /// The first operations, in the order of the request.
    pub listed: Vec<ExplainedOperation>,
    /// How many more there are.
    pub left_out: u64,
}

/// Whether a request is taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Split by node, and answered by the filter.
    Split,
    /// To the route's own upstream, byte for byte.
    PassedWhole,
}

/// Why a request passes on whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The reason, as metrics call it.
    #[serde(flatten)]
    pub why: Why,
    /// The position of the operation that is the reason, from 0 on, as in the items of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<u32>,
    /// The line that is, from 1 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The name that the operation gives, where that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A node by its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeName {
    /// The cluster's.
    pub id: String,
    /// `node.name`.
    pub name: String,
}

/// What a node gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeTotal {
    /// `None` for what goes to the coordinating upstream.
    pub node: Option<NodeName>,
    /// Envoy's cluster.
    pub upstream: String,
    /// How many.
    pub operations: u64,
    /// Of their lines, as they are sent.
    pub bytes: u64,
}

/// What a shard gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShardTotal {
    /// The index itself, not an alias of it.
    pub index: String,
    /// Its number.
    pub shard: u32,
    /// The node with its primary.
    pub node: Option<NodeName>,
    /// How many.
    pub operations: u64,
    /// Of their lines, as they are sent.
    pub bytes: u64,
}

/// Some operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Sum {
    /// How many.
    pub operations: u64,
    /// Of their lines, as they are sent.
    pub bytes: u64,
}

/// Operations without a known node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnroutedTotal {
    /// The reason, as metrics call it.
    #[serde(flatten)]
    pub why: Why,
    /// How many.
    pub operations: u64,
}

/// The most operations that one of them gets by what each would get on average: 1 is even. `None` if that is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Skew {
    /// Over the nodes that hold a primary of an index that is written to.
    pub nodes: Option<f64>,
    /// Over the shards of the indices that are written to.
    pub shards: Option<f64>,
}

/// Where an operation goes, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainedOperation {
    /// From 0 on, as in the items of an answer.
    pub position: u32,
    /// Where its action line is in the body, once inflated, from 1 on.
    pub line: u32,
    /// What it does.
    pub action: Action,
    /// The index, alias or data stream that the line names, or else the path.
    pub name: Option<String>,
    /// What that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<NameKind>,
    /// The index that is written to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// The document's, as the line gives it.
    pub id: Option<String>,
    /// What becomes of an operation without one. With `generate` the shard is that of an id that stands for the one
    /// that will be made; with `pass` the node is one for this request and another for the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_id: Option<MissingId>,
    /// The routing value that counts: the line's, the query's, the alias', or with `direct` the filter's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<String>,
    /// How its shard is worked out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// The node that holds the primary of the shard, or that takes what has no shard yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// The upstream that it is sent to.
    pub upstream: String,
    /// Of its lines, as they are sent.
    pub bytes: u64,
    /// Why its node is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrouted: Option<Why>,
}

impl Explanation {
    /// Of a request that passes on whole because of its headers, or of what is known.
    pub(super) fn unread(why: PassThrough) -> Self {
        Self {
            way: Way::PassedWhole,
            because: Some(Fault { why: why.into(), operation: None, line: None, name: None }),
            operations: 0,
            bytes: 0,
            shares: 0,
            nodes: Vec::new(),
            shards: Vec::new(),
            shards_left_out: 0,
            unrouted: Vec::new(),
            any_node: Sum::default(),
            skew: Skew::default(),
            listed: Vec::new(),
            left_out: 0,
        }
    }
}

impl Skew {
    /// What the busiest of these is by the average.
    pub(super) fn of(operations: impl Iterator<Item = u64> + Clone) -> Option<f64> {
        let count = operations.clone().count() as f64;
        let sum = operations.clone().sum::<u64>() as f64;
        let most = operations.max().unwrap_or_default() as f64;
        (sum > 0.0).then(|| most * count / sum)
    }
}

impl From<&Node> for NodeName {
    fn from(node: &Node) -> Self {
        Self { id: node.id.clone(), name: node.name.clone() }
    }
}
