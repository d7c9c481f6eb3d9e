use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bulk_reshuffle::engine::{ExplainedOperation, NodeName};

use super::Settings;
use crate::cluster::{Cluster, Unusable, lines};

/// The requests of a run.
#[derive(Debug)]
pub struct Arrivals {
    /// The path and query of every request.
    pub path: String,
    /// The cluster's nodes.
    pub nodes: Vec<NodeName>,
    /// The nodes' numbers by upstream.
    pub by_upstream: BTreeMap<String, usize>,
    operations: Vec<Sample>,
    /// The arrival time of each request in microseconds, if it does not wait for a free client.
    times: Vec<u64>,
    of_each: usize,
}

/// An operation of the body, for use in requests.
#[derive(Debug, Clone)]
struct Sample {
    lines: Rc<[u8]>,
    /// The number of the node with the operation's primary shard.
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
    /// Creates requests from the valid operations of a body, which may be compressed.
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
            // Arrivals are independent: the intervals are exponentially distributed.
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

    /// Returns the arrival times of the requests, in order.
    pub fn times(&self) -> &[u64] {
        &self.times
    }

    /// Returns a request's body.
    pub fn body(&self, request: usize) -> Vec<u8> {
        self.samples(request).flat_map(|sample| sample.lines.iter().copied()).collect()
    }

    /// Returns the number of a request's operations by owning node; `None` is for operations without an owner.
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
    /// Creates this number of idle clients.
    pub fn new(clients: u32) -> Self {
        Self { idle: clients, waiting: VecDeque::new() }
    }

    /// Adds a request, and returns the request to send if a client is idle.
    pub fn arrive(&mut self, request: usize) -> Option<usize> {
        self.waiting.push_back(request);
        self.next()
    }

    /// Marks a client as idle after an answer, and returns the next request to send, if any waits.
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
