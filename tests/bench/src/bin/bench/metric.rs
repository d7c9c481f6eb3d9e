//! The quantities that are compared.

use crate::measurement::Measurement;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// The documents acknowledged per second.
    Throughput,
    P50,
    P99,
    /// The processor time of all nodes per document, in microseconds.
    ClusterCpu,
    /// The processor time of Envoy per document, in microseconds.
    EnvoyCpu,
    /// The processor time of all nodes and Envoy per document, in microseconds: the cost of a document on busy servers.
    ServerCpu,
    ClientCpu,
    BytesBetweenNodes,
    /// The latencies of searches that were sent to the nodes at the same time.
    SearchP50,
    SearchP99,
    /// The percentage of requests with refused operations, if there were any.
    Refused,
    /// The number of requests that reach the nodes from outside the cluster.
    RequestsToNodes,
    /// The number of times that the kernel has a disk write out its cache, for any process.
    DiskSyncs,
    /// The number of parts of requests in each of the filter's batches.
    RequestsPerBatch,
}

impl Metric {
    /// All metrics, in the report's order.
    pub const ALL: [Self; 14] = [
        Self::Throughput,
        Self::P50,
        Self::P99,
        Self::ClusterCpu,
        Self::EnvoyCpu,
        Self::ServerCpu,
        Self::SearchP50,
        Self::SearchP99,
        Self::Refused,
        Self::RequestsToNodes,
        Self::DiskSyncs,
        Self::BytesBetweenNodes,
        Self::ClientCpu,
        Self::RequestsPerBatch,
    ];

    /// Returns the name, and what the name with the unit adds to it.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Throughput => ("docs/s", ""),
            Self::P50 => ("p50", ", ms"),
            Self::P99 => ("p99", ", ms"),
            Self::ClusterCpu => ("cluster CPU", " per document, µs"),
            Self::EnvoyCpu => ("Envoy CPU", " per document, µs"),
            Self::ServerCpu => ("cluster and Envoy CPU", " per document, µs"),
            Self::ClientCpu => ("client CPU", " per document, µs"),
            Self::BytesBetweenNodes => ("bytes between nodes", " per document"),
            Self::SearchP50 => ("p50 of searches", ", ms"),
            Self::SearchP99 => ("p99 of searches", ", ms"),
            Self::Refused => ("refused requests", ", %"),
            Self::RequestsToNodes => ("requests to the nodes", " per document"),
            Self::DiskSyncs => ("disk syncs", " per document"),
            Self::RequestsPerBatch => ("requests per batch", ""),
        }
    }

    pub fn name(self) -> &'static str {
        self.words().0
    }

    pub fn title(self) -> String {
        let (name, rest) = self.words();
        format!("{name}{rest}")
    }

    /// Returns the value, or `None` if the measurement does not have one.
    pub fn of(self, measurement: &Measurement) -> Option<f64> {
        let documents = measurement.documents as f64;
        let micros_per_document = |seconds: f64| seconds * 1e6 / documents;
        let value = match self {
            Self::Throughput => documents / measurement.seconds,
            Self::P50 => measurement.p50_ms,
            Self::P99 => measurement.p99_ms,
            Self::ClusterCpu => micros_per_document(measurement.cluster_cpu_seconds),
            Self::EnvoyCpu => micros_per_document(measurement.envoy_cpu_seconds?),
            Self::ServerCpu => {
                micros_per_document(measurement.cluster_cpu_seconds + measurement.envoy_cpu_seconds.unwrap_or_default())
            }
            Self::ClientCpu => micros_per_document(measurement.client_cpu_seconds),
            Self::BytesBetweenNodes => measurement.bytes_between_nodes as f64 / documents,
            Self::SearchP50 => measurement.search_p50_ms?,
            Self::SearchP99 => measurement.search_p99_ms?,
            Self::Refused if measurement.failed == 0 => return None,
            Self::Refused => measurement.failed as f64 / measurement.requests as f64 * 100.0,
            Self::RequestsToNodes => {
                let forwarded = measurement.filter.map(|counters| counters.batches + counters.passed_through);
                forwarded.unwrap_or(measurement.requests) as f64 / documents
            }
            Self::DiskSyncs => measurement.disk_syncs? as f64 / documents,
            Self::RequestsPerBatch => {
                let counters = measurement.filter?;
                counters.batch_requests as f64 / counters.batches as f64
            }
        };
        value.is_finite().then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::FilterCounts;

    #[test]
    fn quantities_are_per_document_or_second() {
        let counts = FilterCounts { batches: 4, batch_requests: 100, passed_through: 6, ..FilterCounts::default() };
        let measurement = Measurement {
            seconds: 2.0,
            requests: 50,
            failed: 5,
            documents: 1_000,
            p50_ms: 3.0,
            p99_ms: 4.0,
            cluster_cpu_seconds: 0.5,
            envoy_cpu_seconds: Some(0.1),
            client_cpu_seconds: 0.2,
            bytes_between_nodes: 7_000,
            disk_syncs: Some(30),
            search_p50_ms: Some(5.0),
            search_p99_ms: Some(6.0),
            filter: Some(counts),
            ..Measurement::default()
        };
        let found = Metric::ALL.map(|metric| metric.of(&measurement).unwrap());
        assert_eq!(found, [500.0, 3.0, 4.0, 500.0, 100.0, 600.0, 5.0, 6.0, 10.0, 0.01, 0.03, 7.0, 200.0, 25.0]);
    }

    #[test]
    fn an_absent_quantity_has_no_value() {
        let direct = Measurement { seconds: 2.0, documents: 1_000, ..Measurement::default() };
        assert_eq!(Metric::EnvoyCpu.of(&direct), None);
        assert_eq!(Metric::Refused.of(&direct), None);
        assert_eq!(Metric::RequestsPerBatch.of(&direct), None);
        assert_eq!(Metric::DiskSyncs.of(&direct), None);
        let nothing = Measurement { documents: 0, ..direct };
        assert_eq!(Metric::ClusterCpu.of(&nothing), None);
    }
}
