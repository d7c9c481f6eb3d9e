use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::{
    ExplainedOperation, Explanation, Fault, NodeName, NodeTotal, PipelineVerdict, ShardTotal, Skew, Sum, UnroutedTotal,
    Way,
};
use crate::bulk::{Action, ActionLine, Operation, Parameter};
use crate::config::MissingId;
use crate::engine::pass_through::PassThrough;
use crate::engine::requests::Request;
use crate::invariant::Count;
use crate::routing::{Choice, Node, Unrouted, UpstreamId, Upstreams, WriteTarget};

/// An upper bound for the length of an action line.
const MAX_LINE_BYTES: u32 = 16 << 10;

/// Summarizes the destinations of the operations of a request.
pub struct Account<'a> {
    request: &'a Request,
    upstreams: &'a Upstreams,
    most: usize,
    /// The position up to which lines were counted, and their number.
    counted: (u32, u32),
    operations: u64,
    bytes: u64,
    nodes: BTreeMap<(UpstreamId, Option<&'a str>), NodeTotal>,
    shards: BTreeMap<(&'a str, u32), ShardTotal>,
    /// The indices that were already added to `nodes` and `shards`, or were left out.
    indices: BTreeSet<&'a str>,
    /// The number of shards of the indices that were left out.
    shards_left_out: usize,
    /// The nodes that have their own upstream, by upstream.
    nodes_by_upstream: BTreeMap<UpstreamId, &'a Node>,
    upstreams_by_node: BTreeMap<&'a str, UpstreamId>,
    unrouted: BTreeMap<Unrouted, u64>,
    any_node: Sum,
    listed: Vec<ExplainedOperation>,
}

/// The maximum number of shards to summarize, unless more operations are to be listed. Each takes about a microsecond,
/// and a request may write to all indices.
const MAX_SHARDS: usize = 5000;

/// The reason why counts stay within bounds.
const WHY: &str = "memory bounds a request";

/// The destination of an operation.
struct Found<'a, 'b> {
    target: Option<WriteTarget<'a>>,
    routing: Option<Cow<'b, str>>,
    choice: Option<Choice>,
    unrouted: Option<Unrouted>,
    upstream: UpstreamId,
    node: Option<&'a Node>,
    bytes: u64,
}

impl<'a> Account<'a> {
    /// Summarizes all operations that were read, and lists `most` of them.
    pub fn of(request: &'a Request, upstreams: &'a Upstreams, most: usize) -> Self {
        let (mut nodes_by_upstream, mut upstreams_by_node) = (BTreeMap::new(), BTreeMap::new());
        for (node, upstream) in request.table().nodes().filter_map(|(node, upstream)| Some((node, upstream.ok()?))) {
            // If several nodes have the same upstream, the first one counts.
            nodes_by_upstream.entry(upstream).or_insert(node);
            upstreams_by_node.insert(node.id.as_str(), upstream);
        }
        let mut account = Self {
            nodes_by_upstream,
            upstreams_by_node,
            shards_left_out: 0,
            request,
            upstreams,
            most,
            counted: (0, 0),
            operations: 0,
            bytes: 0,
            nodes: BTreeMap::new(),
            shards: BTreeMap::new(),
            indices: BTreeSet::new(),
            unrouted: BTreeMap::new(),
            any_node: Sum::default(),
            listed: Vec::new(),
        };
        for operation in &request.operations {
            request.read_line(operation, |line| account.add(operation, line));
        }
        account
    }

    /// Returns the explanation. A request with a reason passes through.
    pub fn into_explanation(mut self, why: Option<PassThrough>) -> Explanation {
        let because = why.map(|why| self.fault(why));
        let is_node = |total: &&NodeTotal| total.node.is_some();
        let skew = Skew {
            nodes: Skew::of(self.nodes.values().filter(is_node).map(|total| total.operations)),
            shards: Skew::of(self.shards.values().map(|total| total.operations)),
        };
        let unrouted = self.unrouted.into_iter();
        Explanation {
            way: if because.is_some() { Way::PassedWhole } else { Way::Split },
            because,
            operations: self.operations,
            bytes: self.bytes,
            shares: self.request.shares.len(),
            nodes: self.nodes.into_values().collect(),
            shards_left_out: self.shards.len().saturating_sub(self.most).saturating_add(self.shards_left_out),
            shards: self.shards.into_values().take(self.most).collect(),
            unrouted: unrouted.map(|(why, operations)| UnroutedTotal { why: why.into(), operations }).collect(),
            any_node: self.any_node,
            skew,
            left_out: self.operations.minus(self.listed.len() as u64, "listed operations are counted"),
            listed: self.listed,
        }
    }

    fn add(&mut self, operation: &Operation, line: &ActionLine<'_>) {
        let found = self.find(operation, line);
        self.count(&found);
        if self.listed.len() < self.most {
            let explained = self.explain(operation, line, &found);
            self.listed.push(explained);
        }
        self.operations = self.operations.plus(1, WHY);
        self.bytes = self.bytes.plus(found.bytes, WHY);
    }

    /// Determines the destination of an operation.
    fn find<'b>(&self, operation: &Operation, line: &'b ActionLine<'_>) -> Found<'a, 'b>
    where
        'a: 'b,
    {
        let request = self.request;
        let target = line.index.as_deref().and_then(|name| request.table().write_target(name).ok());
        let routing = match (
            line.routing.as_deref().or(request.head().default_routing.as_deref()),
            request.body().parameter(operation),
        ) {
            (None, Some(Parameter::Routing(value))) => Some(Cow::Owned(value.to_string())),
            (routing, _) => routing.map(Cow::Borrowed),
        };
        let id_hash = operation.placement.id_hash;
        let choice = target.and_then(|target| target.choice(id_hash, routing.as_deref()).ok()).flatten();
        let unrouted = target.and_then(|target| target.route(id_hash, routing.as_deref()).err());
        let upstream = self.upstream_of(operation);
        let is_forwarded = operation.placement.under_pipeline && upstream == UpstreamId::COORDINATOR;
        let unrouted = match request.is_unproven() {
            true => Some(Unrouted::Unproven),
            false => unrouted.or(is_forwarded.then_some(Unrouted::IngestRole)),
        };
        let node = match choice {
            Some(choice) => target.and_then(|target| target.primary(choice.shard)),
            None => self.node_of(upstream),
        };
        Found { target, routing, choice, unrouted, upstream, node, bytes: request.body().sent_bytes(operation) }
    }

    /// Explains a single operation.
    fn explain(&mut self, operation: &Operation, line: &ActionLine<'_>, found: &Found<'_, '_>) -> ExplainedOperation {
        let Found { target, routing, choice, unrouted, upstream, node, bytes } = found;
        let parameter = self.request.body().parameter(operation);
        // The line also contains a generated id, because it is read again.
        let id = line.id.as_deref().filter(|_| !matches!(parameter, Some(Parameter::Id(_))));
        ExplainedOperation {
            position: u32::try_from(self.operations).unwrap_or(u32::MAX),
            line: self.line_number(operation.start),
            action: operation.action,
            name: line.index.as_deref().map(str::to_owned),
            kind: target.map(|target| target.kind),
            index: target.map(|target| target.index.to_owned()),
            missing_id: id.is_none().then_some(match parameter {
                Some(Parameter::Id(_)) => MissingId::Generate,
                Some(Parameter::Routing(_)) => MissingId::Direct,
                None => MissingId::Pass,
            }),
            id: id.map(str::to_owned),
            pipelines: target.map(|target| self.pipelines(target, line)).unwrap_or_default(),
            routing: target.and_then(|target| target.added_routing).or(routing.as_deref()).map(str::to_owned),
            choice: *choice,
            node: node.map(NodeName::from),
            upstream: self.upstreams.name(*upstream).to_string(),
            bytes: *bytes,
            unrouted: unrouted.map(Into::into),
        }
    }

    /// Adds an operation to the totals of its destination.
    fn count(&mut self, found: &Found<'a, '_>) {
        let Found { target, choice, unrouted, upstream, bytes, .. } = *found;
        let shard = target.zip(choice.map(|choice| choice.shard));
        if let Some((target, _)) = shard
            && self.indices.insert(target.index)
        {
            self.list(target);
        }
        // Operations that go to the coordinator count for no node, even if the node is known.
        let node = found.node.filter(|_| upstream != UpstreamId::COORDINATOR);
        let NodeTotal { operations, bytes: sum, .. } = self.node(upstream, node);
        add((operations, sum), bytes);
        if let Some((target, shard)) = shard
            && let Some(ShardTotal { operations, bytes: sum, .. }) = self.shards.get_mut(&(target.index, shard))
        {
            add((operations, sum), bytes);
        }
        if let Some(why) = unrouted {
            let count = self.unrouted.entry(why).or_default();
            *count = count.plus(1, WHY);
        } else if shard.is_none() {
            add((&mut self.any_node.operations, &mut self.any_node.bytes), bytes);
        }
    }

    /// Adds an index's shards and their nodes with zero operations, unless there are too many shards already.
    fn list(&mut self, target: WriteTarget<'a>) {
        let shards = target.shards() as usize;
        if self.shards.len().saturating_add(shards) > MAX_SHARDS.max(self.most) {
            self.shards_left_out = self.shards_left_out.saturating_add(shards);
            return;
        }
        for shard in 0..target.shards() {
            let node = target.primary(shard);
            let total = ShardTotal {
                index: target.index.to_owned(),
                shard,
                node: node.map(NodeName::from),
                operations: 0,
                bytes: 0,
            };
            self.shards.insert((target.index, shard), total);
            if let Some(node) = node
                && let Some(upstream) = self.upstreams_by_node.get(node.id.as_str()).copied()
            {
                self.node(upstream, Some(node));
            }
        }
    }

    fn node(&mut self, upstream: UpstreamId, node: Option<&'a Node>) -> &mut NodeTotal {
        self.nodes.entry((upstream, node.map(|node| node.id.as_str()))).or_insert_with(|| NodeTotal {
            node: node.map(NodeName::from),
            upstream: self.upstreams.name(upstream).to_string(),
            operations: 0,
            bytes: 0,
        })
    }

    fn upstream_of(&self, operation: &Operation) -> UpstreamId {
        let share = self.request.shares.get(usize::from(operation.placement.share));
        share.map_or(UpstreamId::COORDINATOR, |share| share.destination.upstream)
    }

    fn node_of(&self, upstream: UpstreamId) -> Option<&'a Node> {
        self.nodes_by_upstream.get(&upstream).copied()
    }

    fn fault(&mut self, why: PassThrough) -> Fault {
        let found = match why {
            PassThrough::SameId => self.request.same_id(),
            PassThrough::Unrouted(Unrouted::IndexPipeline) => self.request.metadata_in_document(),
            _ => None,
        };
        let position = match (found, why) {
            (Some(operation), _) => {
                let before = self.request.operations.iter().take_while(|other| other.start < operation.start);
                Some((before.count() as u64, operation.start))
            }
            (
                None,
                PassThrough::ActionLine
                | PassThrough::UpdateBody
                | PassThrough::Incomplete
                | PassThrough::Shards
                | PassThrough::Unrouted(_),
            ) => Some((self.operations, self.request.body().line_start())),
            _ => None,
        };
        let line = position.map(|(_, start)| {
            self.counted = (0, 0);
            self.line_number(start)
        });
        let is_unrouted = matches!(why, PassThrough::Unrouted(_));
        let is_by_pipeline = matches!(why, PassThrough::Unrouted(Unrouted::IndexPipeline | Unrouted::NamedPipeline));
        let start = position.map(|(_, start)| start);
        let pipelines = |line: &ActionLine<'_>, name: &str| {
            Some(self.pipelines(self.request.table().write_target(name).ok()?, line))
        };
        Fault {
            why: why.into(),
            operation: position.and_then(|(operation, _)| u32::try_from(operation).ok()),
            line,
            name: start.filter(|_| is_unrouted).and_then(|start| self.at(start, |_, name| Some(name.to_owned()))),
            pipelines: start.filter(|_| is_by_pipeline).and_then(|start| self.at(start, pipelines)).unwrap_or_default(),
        }
    }

    /// Reads the action line that starts at this position, with the name of the index in it, or otherwise in the path.
    fn at<T>(&self, start: u32, read: impl FnOnce(&ActionLine<'_>, &str) -> Option<T>) -> Option<T> {
        let text = self.request.body().line_at(start, MAX_LINE_BYTES);
        let line = ActionLine::read(&text).ok()?;
        read(&line, line.index.as_deref().or(self.request.head().default_index.as_deref())?)
    }

    /// Returns the verdicts on the pipelines that the cluster runs for an operation.
    fn pipelines(&self, target: WriteTarget<'_>, line: &ActionLine<'_>) -> Vec<PipelineVerdict> {
        let named = line.pipeline.or(self.request.head().default_pipeline.as_deref());
        let verdict = |name| PipelineVerdict::of(name, self.request.table().pipelines());
        match line.action {
            Action::Delete => Vec::new(),
            _ => target.pipeline_names(named).map(verdict).collect(),
        }
    }

    /// Returns the number of the line that starts at this position. Positions must not decrease between calls.
    fn line_number(&mut self, start: u32) -> u32 {
        let (until, lines) = self.counted;
        let lines = lines.saturating_add(self.request.body().line_ends(until..start));
        self.counted = (start, lines);
        lines.saturating_add(1)
    }
}

/// Adds an operation of this size to a sum of operations and bytes.
fn add((operations, sum): (&mut u64, &mut u64), bytes: u64) {
    *operations = operations.plus(1, WHY);
    *sum = sum.plus(bytes, WHY);
}
