//! One measurement: a workload, sent to one target for a while.

use std::fmt;

use bulk_reshuffle_bench::tables::number;
use bulk_reshuffle_stack::Counters;
use serde::Serialize;

use crate::load::Outcome;
use crate::metric::Metric;
use crate::site::Reading;
use crate::target::Target;
use crate::workload::Workload;

/// The recorded values: sums, and times in the units that their names state.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Measurement {
    pub workload: Workload,
    /// The number of the round, from 1.
    pub round: usize,
    pub target: Target,
    /// The time from the first request to the last answer.
    pub seconds: f64,
    pub requests: u64,
    /// The number of bulk requests and searches that failed.
    pub failed: u64,
    /// The number of documents in the successful requests.
    pub documents: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// The latencies of searches at the same time, if there were any.
    pub search_p50_ms: Option<f64>,
    pub search_p99_ms: Option<f64>,
    pub cluster_cpu_seconds: f64,
    /// The processor time of the target's Envoy, if it has one.
    pub envoy_cpu_seconds: Option<f64>,
    pub client_cpu_seconds: f64,
    /// The processor time of everything else on the machine, including kernel threads.
    pub other_cpu_seconds: f64,
    /// The bytes that the nodes received from each other.
    pub bytes_between_nodes: u64,
    /// The disk syncs of the machine, if its kernel counts them.
    pub disk_syncs: Option<u64>,
    /// What the filter did, if the target has it.
    pub filter: Option<FilterCounts>,
}

/// The growth of the filter's counters.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct FilterCounts {
    pub merged: u64,
    pub passed_through: u64,
    pub batches: u64,
    /// The parts of requests in these batches.
    pub batch_requests: u64,
}

impl From<Counters> for FilterCounts {
    fn from(counters: Counters) -> Self {
        Self {
            merged: counters.merged(),
            passed_through: counters.passed_through().values().sum(),
            batches: counters.sum("batches_total"),
            batch_requests: counters.sum("batch_requests_total"),
        }
    }
}

impl Measurement {
    /// Combines the readings before and after a load with its outcome.
    pub fn new(
        (workload, round, target): (Workload, usize, Target),
        outcome: &Outcome,
        searches: Option<&Outcome>,
        [before, after]: [&Reading; 2],
    ) -> Self {
        let milliseconds = |outcome: &Outcome, quantile| outcome.latencies.value_at_quantile(quantile) as f64 / 1_000.0;
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
            failed: outcome.failed + searches.map_or(0, |searches| searches.failed),
            documents: outcome.succeeded * workload.documents as u64,
            p50_ms: milliseconds(outcome, 0.5),
            p99_ms: milliseconds(outcome, 0.99),
            max_ms: milliseconds(outcome, 1.0),
            search_p50_ms: searches.map(|searches| milliseconds(searches, 0.5)),
            search_p99_ms: searches.map(|searches| milliseconds(searches, 0.99)),
            cluster_cpu_seconds: cluster,
            envoy_cpu_seconds: envoy,
            client_cpu_seconds: client,
            other_cpu_seconds: (machine - cluster - envoy.unwrap_or_default() - client).max(0.0),
            bytes_between_nodes: after.bytes_between_nodes - before.bytes_between_nodes,
            disk_syncs: after.disk_syncs.zip(before.disk_syncs).map(|(after, before)| after - before),
            filter: target.has_filter().then(|| after.counters.since(&before.counters).into()),
        }
    }
}

/// A line of progress. Processor time is shown as the number of busy processors.
impl fmt::Display for Measurement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processors = |seconds: f64| seconds / self.seconds;
        let metric = |metric: Metric| metric.of(self).map_or_else(|| "-".to_owned(), number);
        write!(
            formatter,
            "{:>11}  round {:<2} {:6}  {:>8} docs/s  p50 {:>6} ms  p99 {:>6} ms  processors: nodes {:.2}, Envoy {:.2}, \
             clients {:.2}, others {:.2}",
            self.workload.to_string(),
            self.round,
            self.target,
            metric(Metric::Throughput),
            metric(Metric::P50),
            metric(Metric::P99),
            processors(self.cluster_cpu_seconds),
            processors(self.envoy_cpu_seconds.unwrap_or_default()),
            processors(self.client_cpu_seconds),
            processors(self.other_cpu_seconds),
        )
    }
}
