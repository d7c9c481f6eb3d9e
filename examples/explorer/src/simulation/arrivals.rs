use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bulk_reshuffle::engine::{ExplainedOperation, NodeName};

use super::Settings;
use crate::cluster::{Cluster, Unusable, lines};

/// The requests of a day.
#[derive(Debug)]
pub struct Arrivals {
    /// Path and query of each.
    pub path: String,
    /// The cluster's nodes.
    pub nodes: Vec<NodeName>,
    /// The nodes by upstream.
    pub by_upstream: BTreeMap<String, usize>,
    operations: Vec<Sample>,
    /// In which microsecond each request would come, had it not to wait for its client.
    times: Vec<u64>,
    of_each: usize,
}

/// An operation of the body that requests are made of.
#[derive(Debug, Clone)]
struct Sample {
    lines: Rc<[u8]>,
    /// The number of the node with its primary.
    node: Option<usize>,
}

/// Clients that send one request after the other.
#[derive(Debug)]
pub struct Clients {
    idle: u32,
    /// Requests that wait for a client.
    waiting: VecDeque<usize>,
}

impl Arrivals {
    /// Made of what is understood of a body, which may be compressed.
    pub fn new(cluster: &Cluster, path: &str, body: &[u8], settings: &Settings) -> Result<Self, Unusable> {
        let explanation = cluster.explain(path, body, usize::MAX)?;
        let known = cluster.nodes();
        let number = |operation: &ExplainedOperation| {
            let of = operation.choice.and(operation.node.as_ref())?;
            known.iter().position(|(node, _)| node.id == of.id)
        };
        let lines = lines(body, &explanation.listed);
        let operations: Vec<Sample> = explanation
            .listed
            .iter()
            .zip(lines)
            .map(|(operation, lines)| Sample { lines: lines.into(), node: number(operation) })
            .collect();
        if operations.is_empty() {
            return Err(Unusable::NoOperation);
        }
        let mut random = fastrand::Rng::with_seed(settings.seed);
        let mut at = 0.0;
        let times = (0..settings.requests).map(|_| {
            // Clients know nothing of one another.
            at += -(1.0 - random.f64()).ln() / settings.rate * 1e6;
            at as u64
        });
        Ok(Self {
            path: path.to_owned(),
            times: times.collect(),
            by_upstream: known
                .iter()
                .enumerate()
                .filter_map(|(number, (_, upstream))| Some((upstream.clone()?, number)))
                .collect(),
            nodes: known.into_iter().map(|(node, _)| node).collect(),
            operations,
            of_each: settings.operations as usize,
        })
    }

    /// When each request would come, in order.
    pub fn times(&self) -> &[u64] {
        &self.times
    }

    /// A request's body.
    pub fn body(&self, request: usize) -> Vec<u8> {
        self.samples(request).flat_map(|sample| sample.lines.iter().copied()).collect()
    }

    /// How many of a request's operations are each node's, and how many nobody's in particular.
    pub fn shares(&self, request: usize) -> BTreeMap<Option<usize>, u64> {
        let mut shares = BTreeMap::new();
        for sample in self.samples(request) {
            let count: &mut u64 = shares.entry(sample.node).or_default();
            *count = count.saturating_add(1);
        }
        shares
    }

    fn samples(&self, request: usize) -> impl Iterator<Item = &Sample> {
        let first = request.saturating_mul(self.of_each);
        let first = first.checked_rem(self.operations.len()).unwrap_or_default();
        self.operations.iter().cycle().skip(first).take(self.of_each)
    }
}

impl Clients {
    /// So many, none of which waits for anything.
    pub fn new(clients: u32) -> Self {
        Self { idle: clients, waiting: VecDeque::new() }
    }

    /// A request comes. Says which one is sent, if a client is free.
    pub fn arrive(&mut self, request: usize) -> Option<usize> {
        self.waiting.push_back(request);
        self.next()
    }

    /// A request was answered. Says which one its client sends next, if any waits.
    pub fn answered(&mut self) -> Option<usize> {
        self.idle = self.idle.saturating_add(1);
        self.next()
    }

    fn next(&mut self) -> Option<usize> {
        if self.idle == 0 {
            return None;
        }
        let request = self.waiting.pop_front()?;
        self.idle = self.idle.saturating_sub(1);
        Some(request)
    }
}
