//! One measurement: a workload, sent to one target for a while.

use serde::Serialize;

use crate::counters::Counters;
use crate::load::Outcome;
use crate::site::Reading;
use crate::target::Target;
use crate::workload::Workload;

/// What was measured, as it is kept: sums, and times in the units that their names say.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Measurement {
    /// What was sent.
    pub workload: Workload,
    /// From 1 on.
    pub round: usize,
    /// Where to.
    pub target: Target,
    /// From the first request to the last answer.
    pub seconds: f64,
    /// Requests answered.
    pub requests: u64,
    /// Those that had an error.
    pub failed: u64,
    /// In the others.
    pub documents: u64,
    /// Half of the requests took at most this long.
    pub p50_ms: f64,
    /// 99 in 100 of them.
    pub p99_ms: f64,
    /// All of them.
    pub max_ms: f64,
    /// Processor time of all nodes.
    pub cluster_cpu_seconds: f64,
    /// Processor time of the target's Envoy; nothing where there is none.
    pub envoy_cpu_seconds: Option<f64>,
    /// Processor time of the clients.
    pub client_cpu_seconds: f64,
    /// Processor time of everything else on the machine, kernel threads included.
    pub other_cpu_seconds: f64,
    /// Bytes that the nodes have received from each other.
    pub bytes_between_nodes: u64,
    /// What the filter counted.
    pub filter: Option<Counters>,
}

impl Measurement {
    /// Puts together what was read before and after a load, and what came of it.
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
