//! Progress output on standard error.

use crate::measurement::Measurement;
use crate::metric::Metric;
use crate::number::number;

/// Formats a measurement as one line. Processor time is shown as the number of busy processors.
pub fn line(measured: &Measurement) -> String {
    let processors = |seconds: f64| seconds / measured.seconds;
    let metric = |metric: Metric| metric.of(measured).map_or_else(|| "-".to_owned(), number);
    format!(
        "{:>11}  round {:<2} {:6}  {:>8} docs/s  p50 {:>6} ms  p99 {:>6} ms  processors: nodes {:.2}, Envoy {:.2}, \
         clients {:.2}, others {:.2}",
        measured.workload.to_string(),
        measured.round,
        measured.target,
        metric(Metric::Throughput),
        metric(Metric::P50),
        metric(Metric::P99),
        processors(measured.cluster_cpu_seconds),
        processors(measured.envoy_cpu_seconds.unwrap_or_default()),
        processors(measured.client_cpu_seconds),
        processors(measured.other_cpu_seconds),
    )
}
