use crate::routing::UpstreamId;

metrics! {
    /// A metric with a current value.
    Gauge;
    /// Shares of requests that wait to be sent, by upstream.
    HeldRequests(to: UpstreamId) = HELD_REQUESTS;
    /// Operations in these shares.
    HeldOperations(to: UpstreamId) = HELD_OPERATIONS;
    /// Bytes of these operations.
    HeldBytes(to: UpstreamId) = HELD_BYTES;
    /// Batches in flight, by upstream.
    InFlightBatches(to: UpstreamId) = IN_FLIGHT_BATCHES;
    /// Operations in these batches.
    InFlightOperations(to: UpstreamId) = IN_FLIGHT_OPERATIONS;
    /// Bytes of these operations.
    InFlightBytes(to: UpstreamId) = IN_FLIGHT_BYTES;
    /// Batches that may be in flight at once, by upstream.
    Slots(to: UpstreamId) = SLOTS;
    /// Whether the upstream does not lead to its node, or cannot be asked.
    UpstreamsFaulty(to: UpstreamId) = UPSTREAMS_FAULTY;
    /// Bytes of requests and answers in memory.
    Memory = MEMORY;
    /// `limits.memory`.
    MemoryLimit = MEMORY_LIMIT;
    /// The peak of these bytes.
    MemoryPeak = MEMORY_PEAK;
    /// The peak of the VM's memory, in bytes.
    VmMemoryPeak = VM_MEMORY_PEAK;
    /// The cluster's version number of the known state.
    StateVersion = STATE_VERSION;
    /// The last time at which this state was known to be the newest, in seconds since 1970.
    StateVerified = STATE_VERIFIED;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::metrics::{Families, Kind, Label};
    use crate::routing::Upstreams;

    #[test]
    fn every_gauge_belongs_to_a_family_with_its_labels() {
        let upstreams = Upstreams::new("es");
        let gauges: Vec<Gauge> = Gauge::all(upstreams.ids()).collect();
        for gauge in &gauges {
            assert!(matches!(gauge.family().kind, Kind::Gauge(_)), "{gauge:?}");
            let labels: Vec<Label> = gauge.labels(&upstreams).into_iter().map(|(label, _)| label).collect();
            assert_eq!(labels, gauge.family().labels, "{gauge:?}");
        }
        for family in Families::all().filter(|family| matches!(family.kind, Kind::Gauge(_))) {
            assert!(gauges.iter().any(|gauge| gauge.family().name == family.name), "{}", family.name);
        }
        assert_eq!(
            Gauge::HeldBytes(UpstreamId::COORDINATOR).name(&upstreams),
            "bulk_reshuffle_held_bytes.upstream.es.coordinator.es"
        );
    }
}
