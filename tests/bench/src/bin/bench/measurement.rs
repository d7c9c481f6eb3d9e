//! One measurement: a workload, sent to one target for a while.

use serde::Serialize;

use crate::counters::Counters;
use crate::load::Outcome;
use crate::site::Reading;
use crate::target::Target;
use crate::workload::Workload;

/// The recorded values: sums, and times in the units that their names state.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Measurement {
    /// The workload.
    pub workload: Workload,
    /// The number of the round, from 1.
    pub round: usize,
    /// The target.
    pub target: Target,
    /// The time from the first request to the last answer.
    pub seconds: f64,
    /// The number of answered requests.
    pub requests: u64,
    /// The number of requests with an error.
    pub failed: u64,
    /// The number of documents in the successful requests.
    pub documents: u64,
    /// The median latency.
    pub p50_ms: f64,
    /// The 99th percentile of the latencies.
    pub p99_ms: f64,
    /// The longest latency.
    pub max_ms: f64,
    /// The processor time of all nodes.
    pub cluster_cpu_seconds: f64,
    /// The processor time of the target's Envoy, if it has one.
    pub envoy_cpu_seconds: Option<f64>,
    /// The processor time of the clients.
    pub client_cpu_seconds: f64,
    /// The processor time of everything else on the machine, including kernel threads.
    pub other_cpu_seconds: f64,
    /// The bytes that the nodes received from each other.
    pub bytes_between_nodes: u64,
    /// The filter's counters.
    pub filter: Option<Counters>,
}

impl Measurement {
    /// Combines the readings before and after a load with its outcome.
    pub fn new(
        (workload, round, target): (Workload, usize, Target),
        outcome: &Outcome,
        before: &Reading,
        after: &Reading,
    ) -> Self {
        let milliseconds = |quantile| outcome.latencies.value_at_quantile(quantile) as f64 / 1_000.0;
        let cluster = (after.cluster - before.cluster).as_secs_f64();
        let envoy = after.envoy.zip(before.envoy).map(|(after, before)| (after - before).as_secs_f64());
        let client = (after.client - before.client).as_secs_f64();
        let machine = (after.machine - before.machine).as_secs_f64();
        Self {
            workload,
            round,
            target,
            seconds: outcome.elapsed.as_secs_f64(),
            requests: outcome.succeeded + outcome.failed,
            failed: outcome.failed,
            documents: outcome.succeeded * workload.documents as u64,
            p50_ms: milliseconds(0.5),
            p99_ms: milliseconds(0.99),
            max_ms: milliseconds(1.0),
            cluster_cpu_seconds: cluster,
            envoy_cpu_seconds: envoy,
            client_cpu_seconds: client,
            other_cpu_seconds: (machine - cluster - envoy.unwrap_or_default() - client).max(0.0),
            bytes_between_nodes: after.bytes_between_nodes - before.bytes_between_nodes,
            filter: target.has_filter().then(|| after.counters.since(before.counters)),
        }
    }
}
