use serde::Serialize;

use crate::bulk::Action;
use crate::config::MissingId;
use crate::engine::pass_through::PassThrough;
use crate::routing::{Choice, NameKind, Node, Pipelines, Unrouted};

/// An explanation of how a bulk request would be handled.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Explanation {
    /// Whether the request is split or passes through.
    pub way: Way,
    /// The reason why it passes through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<Fault>,
    /// The number of operations that were read: all of them, or those before the one that makes the request pass
    /// through.
    pub operations: u64,
    /// Bytes of their lines as they are sent, including what the filter adds.
    pub bytes: u64,
    /// The number of shares: the batches in which the request would leave.
    pub shares: usize,
    /// The destinations of the operations, by upstream and node. The list includes every node with a primary of a
    /// target index, even if it gets no operation.
    pub nodes: Vec<NodeTotal>,
    /// The shards of all target indices, by index and number; at most as many as listed operations.
    pub shards: Vec<ShardTotal>,
    /// The number of shards that are not listed.
    pub shards_left_out: usize,
    /// The operations that go to the coordinator because their node is not known, by reason.
    pub unrouted: Vec<UnroutedTotal>,
    /// The operations that go unchanged to any node, because they have no id and therefore no shard yet.
    pub any_node: Sum,
    /// How unevenly the operations are distributed.
    pub skew: Skew,
    /// The first operations, in the order of the request.
    pub listed: Vec<ExplainedOperation>,
    /// The number of operations that are not listed.
    pub left_out: u64,
}

/// A reason, as a label value and as a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Why {
    /// Its label value in metrics.
    pub reason: &'static str,
    /// Its meaning.
    pub text: &'static str,
}

impl From<PassThrough> for Why {
    fn from(why: PassThrough) -> Self {
        Self { reason: why.name(), text: why.text() }
    }
}

impl From<Unrouted> for Why {
    fn from(why: Unrouted) -> Self {
        PassThrough::Unrouted(why).into()
    }
}

/// The handling of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// It is split by node and answered by the filter.
    Split,
    /// It passes through to the upstream of its route, byte for byte.
    #[default]
    PassedWhole,
}

/// The cause for which a whole request passes through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The reason.
    #[serde(flatten)]
    pub why: Why,
    /// The position of the operation that causes it, starting at 0, as in the items of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<u32>,
    /// The number of the line that causes it, starting at 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The name in the operation, if the name causes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The ingest pipelines of the operation, if they cause it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pipelines: Vec<PipelineVerdict>,
}

/// The verdict on an ingest pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PipelineVerdict {
    /// Its name.
    pub name: String,
    /// Whether it is proven that it leaves the index, the id and the routing value of every document alone.
    pub harmless: bool,
    /// The reason why there is no proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

impl PipelineVerdict {
    /// Returns the verdict on the pipeline of this name.
    pub fn of(name: &str, pipelines: Option<&Pipelines>) -> Self {
        let because = match pipelines.map(|pipelines| pipelines.verdict(name)) {
            Some(Some(Ok(_))) => None,
            Some(Some(Err(why))) => Some(why.to_string()),
            Some(None) => Some("it does not exist".to_owned()),
            None => Some("the pipelines of the cluster are not known yet".to_owned()),
        };
        Self { name: name.to_owned(), harmless: because.is_none(), because }
    }
}

/// The id and the name of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeName {
    /// The node's id in the cluster.
    pub id: String,
    /// `node.name`.
    pub name: String,
}

/// The operations that a node gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeTotal {
    /// The node; `None` for the coordinator.
    pub node: Option<NodeName>,
    /// The name of the Envoy cluster.
    pub upstream: String,
    /// The number of operations.
    pub operations: u64,
    /// Bytes of their lines as they are sent.
    pub bytes: u64,
}

/// The operations that a shard gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShardTotal {
    /// The name of the index itself, not of an alias.
    pub index: String,
    /// The number of the shard.
    pub shard: u32,
    /// The node with its primary.
    pub node: Option<NodeName>,
    /// The number of operations.
    pub operations: u64,
    /// Bytes of their lines as they are sent.
    pub bytes: u64,
}

/// The sum of some operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Sum {
    /// The number of operations.
    pub operations: u64,
    /// Bytes of their lines as they are sent.
    pub bytes: u64,
}

/// The operations without a known node, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnroutedTotal {
    /// The reason.
    #[serde(flatten)]
    pub why: Why,
    /// The number of operations.
    pub operations: u64,
}

/// The ratio of the maximum to the average number of operations: 1 is even. `None` if there are no operations.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Skew {
    /// The ratio over the nodes that hold a primary of a target index.
    pub nodes: Option<f64>,
    /// The ratio over the shards of the target indices.
    pub shards: Option<f64>,
}

/// The destination of an operation, and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainedOperation {
    /// Its position, starting at 0, as in the items of an answer.
    pub position: u32,
    /// The number of its action line in the inflated body, starting at 1.
    pub line: u32,
    /// Its action.
    pub action: Action,
    /// The index, alias or data stream that the line names, or otherwise the path.
    pub name: Option<String>,
    /// The kind of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<NameKind>,
    /// The target index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// The id in the line.
    pub id: Option<String>,
    /// The handling of an operation without an id. With `generate`, the shard is that of a sample id in place of the
    /// one that will be generated. With `pass`, the node differs from request to request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_id: Option<MissingId>,
    /// The effective routing value: that of the line, the query or the alias, or with `direct` that of the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<String>,
    /// The verdicts on the ingest pipelines that the cluster runs for it, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pipelines: Vec<PipelineVerdict>,
    /// The computation of its shard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// The node that holds the primary of the shard, or that accepts an operation without a shard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// The upstream to which it is sent.
    pub upstream: String,
    /// Bytes of its lines as they are sent.
    pub bytes: u64,
    /// The reason why its node is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrouted: Option<Why>,
}

impl Explanation {
    /// Explains a request that passes through because of its headers or the known cluster state.
    pub(super) fn unread(why: PassThrough) -> Self {
        let because = Fault { why: why.into(), operation: None, line: None, name: None, pipelines: Vec::new() };
        Self { because: Some(because), ..Self::default() }
    }
}

impl Skew {
    /// Returns the ratio of the largest of these values to their average.
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
