use bulk_reshuffle::engine::NodeName;
use serde::Serialize;

use super::Settings;
use super::arrivals::Arrivals;
use super::node::Node;

/// The results of a run, with the filter and without.
#[derive(Debug, PartialEq, Serialize)]
pub struct Report {
    /// The settings of the run.
    pub settings: Settings,
    /// The results with the filter.
    pub with: Run,
    /// The results without the filter: the same requests, sent to the nodes round robin.
    pub without: Run,
}

/// The results of the requests of a run.
#[derive(Debug, PartialEq, Serialize)]
pub struct Run {
    /// The number of answered requests.
    pub requests: u64,
    /// The number of requests that passed through.
    pub passed_whole: u64,
    /// The duration of the run, in seconds.
    pub seconds: f64,
    /// The batches at the nodes.
    pub batches: Batches,
    /// The number of operations that were forwarded between nodes.
    pub forwarded: u64,
    /// The latency from the intended time of sending, in milliseconds.
    pub latency: Latency,
    /// The results by node.
    pub nodes: Vec<NodeReport>,
}

/// Batches at the nodes; without the filter, parts of requests.
#[derive(Debug, PartialEq, Serialize)]
pub struct Batches {
    /// The number of batches.
    pub count: u64,
    /// The average number of operations in a batch.
    pub operations: f64,
    /// The average number of requests with operations in a batch.
    pub requests: f64,
    /// The largest number of operations in a batch.
    pub most_operations: u64,
    /// The histogram of batch sizes: an inclusive upper bound in operations, and the number of batches above the
    /// previous bound.
    pub sizes: Vec<(u64, u64)>,
}

/// The percentiles of latency, in milliseconds.
#[derive(Debug, PartialEq, Serialize)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
}

/// The work of a node.
#[derive(Debug, PartialEq, Serialize)]
pub struct NodeReport {
    /// The node.
    pub node: NodeName,
    /// The number of the node's batches.
    pub batches: u64,
    /// The number of operations in the batches.
    pub operations: u64,
    /// The share of the time in which the node was busy, from 0 to 1.
    pub busy: f64,
}

/// The data that is recorded during a run.
#[derive(Debug, Default)]
pub struct Record {
    /// The requests' latencies in microseconds.
    took: Vec<u64>,
    /// The number of operations and requests of each batch.
    batches: Vec<(u64, u64)>,
    /// The number of operations that were forwarded between nodes.
    pub forwarded: u64,
    /// The number of requests that passed through.
    pub passed_whole: u64,
}

impl Record {
    /// Records a batch at a node.
    pub fn batch(&mut self, operations: u64, requests: u64) {
        self.batches.push((operations, requests));
    }

    /// Records the answer of a request.
    pub fn answered(&mut self, arrivals: &Arrivals, request: usize, now: u64) {
        let came = arrivals.times().get(request).copied().unwrap_or(now);
        self.took.push(now.saturating_sub(came));
    }

    /// Returns the results of the run, which ends now.
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
