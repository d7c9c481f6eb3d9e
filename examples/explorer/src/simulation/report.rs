use bulk_reshuffle::engine::NodeName;
use serde::Serialize;

use super::Settings;
use super::arrivals::Arrivals;
use super::node::Node;

/// What became of a day, with the filter and without.
#[derive(Debug, PartialEq, Serialize)]
pub struct Report {
    /// What was simulated.
    pub settings: Settings,
    /// Requests through the filter.
    pub with: Run,
    /// The same requests, each to a node in turn.
    pub without: Run,
}

/// What became of the requests of a day.
#[derive(Debug, PartialEq, Serialize)]
pub struct Run {
    /// How many were answered.
    pub requests: u64,
    /// How many of them passed on whole.
    pub passed_whole: u64,
    /// From the first to the last, in seconds.
    pub seconds: f64,
    /// What nodes were given to carry out.
    pub batches: Batches,
    /// Operations that went from one node to another.
    pub forwarded: u64,
    /// From the moment when the request should have been sent, in milliseconds.
    pub latency: Latency,
    /// By node.
    pub nodes: Vec<NodeReport>,
}

/// Batches, or without the filter the parts of requests, as nodes carry them out.
#[derive(Debug, PartialEq, Serialize)]
pub struct Batches {
    /// How many.
    pub count: u64,
    /// Operations in one, on average.
    pub operations: f64,
    /// Requests that had operations in one, on average.
    pub requests: f64,
    /// The most operations in one.
    pub most_operations: u64,
    /// How many batches have at most so many operations, and more than the ones before.
    pub sizes: Vec<(u64, u64)>,
}

/// Milliseconds that so many of a hundred requests took at most.
#[derive(Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Half of them.
    pub p50: f64,
    /// All but five in a hundred.
    pub p95: f64,
    /// All but one in a hundred.
    pub p99: f64,
}

/// What a node had to do.
#[derive(Debug, PartialEq, Serialize)]
pub struct NodeReport {
    /// Which.
    pub node: NodeName,
    /// How many batches it was given.
    pub batches: u64,
    /// The operations in them.
    pub operations: u64,
    /// The share of the time in which it had something to do, from 0 to 1.
    pub busy: f64,
}

/// What is noted while a day passes.
#[derive(Debug, Default)]
pub struct Record {
    /// Microseconds that requests took.
    took: Vec<u64>,
    /// Operations and requests of each batch.
    batches: Vec<(u64, u64)>,
    /// Operations that went from one node to another.
    pub forwarded: u64,
    /// Requests that passed on whole.
    pub passed_whole: u64,
}

impl Record {
    /// A node is given a batch.
    pub fn batch(&mut self, operations: u64, requests: u64) {
        self.batches.push((operations, requests));
    }

    /// A request is answered.
    pub fn answered(&mut self, arrivals: &Arrivals, request: usize, now: u64) {
        let came = arrivals.times().get(request).copied().unwrap_or(now);
        self.took.push(now.saturating_sub(came));
    }

    /// What is to be told of the day, which ends now.
    pub fn into_run(mut self, nodes: &[Node], arrivals: &Arrivals, now: u64) -> Run {
        self.took.sort_unstable();
        let percentile = |percent: usize| {
            let last = self.took.len().saturating_sub(1);
            let place = last.saturating_mul(percent).checked_div(100).unwrap_or_default();
            self.took.get(place).copied().unwrap_or_default() as f64 / 1000.0
        };
        let of_nodes = arrivals.nodes.iter().zip(nodes).map(|(node, did)| NodeReport {
            node: node.clone(),
            batches: did.batches,
            operations: did.operations,
            busy: did.busy(now),
        });
        Run {
            requests: self.took.len() as u64,
            passed_whole: self.passed_whole,
            seconds: now as f64 / 1e6,
            forwarded: self.forwarded,
            latency: Latency { p50: percentile(50), p95: percentile(95), p99: percentile(99) },
            nodes: of_nodes.collect(),
            batches: Batches::of(&self.batches),
        }
    }
}

impl Batches {
    fn of(batches: &[(u64, u64)]) -> Self {
        let count = batches.len() as f64;
        let average = |sum: u64| if count > 0.0 { sum as f64 / count } else { 0.0 };
        let most = batches.iter().map(|(operations, _)| *operations).max().unwrap_or_default();
        let bounds = std::iter::successors(Some(1_u64), |bound| (*bound < most).then_some(bound.saturating_mul(2)));
        let sizes = bounds.map(|bound| {
            let above = if bound > 1 { bound / 2 } else { 0 };
            let fits = |(operations, _): &&(u64, u64)| (above.saturating_add(1)..=bound).contains(operations);
            (bound, batches.iter().filter(fits).count() as u64)
        });
        Self {
            count: batches.len() as u64,
            operations: average(batches.iter().map(|(operations, _)| operations).sum()),
            requests: average(batches.iter().map(|(_, requests)| requests).sum()),
            most_operations: most,
            sizes: sizes.collect(),
        }
    }
}
