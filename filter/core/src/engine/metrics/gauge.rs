use super::family::{self, Family};
use super::{Label, metric_name};
use crate::routing::{UpstreamId, Upstreams};

/// A metric with a current value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Gauge {
    /// Shares of requests that wait to be sent, by upstream.
    HeldRequests(UpstreamId),
    /// Operations in these shares.
    HeldOperations(UpstreamId),
    /// Bytes of these operations.
    HeldBytes(UpstreamId),
    /// Batches in flight, by upstream.
    InFlightBatches(UpstreamId),
    /// Operations in these batches.
    InFlightOperations(UpstreamId),
    /// Bytes of these operations.
    InFlightBytes(UpstreamId),
    /// Bytes of requests and answers in memory.
    Memory,
    /// `limits.memory`.
    MemoryLimit,
    /// The peak of these bytes.
    MemoryPeak,
    /// The peak of the VM's memory, in bytes.
    VmMemoryPeak,
    /// The cluster's version number of the known state.
    StateVersion,
    /// The last time at which this state was known to be the newest, in seconds since 1970.
    StateVerified,
}

impl Gauge {
    /// Returns its name, including its labels.
    pub fn name(self, upstreams: &Upstreams) -> String {
        let upstream = self.upstream().map(|upstream| (Label::Upstream, upstreams.name(upstream).to_string()));
        metric_name(self.family(), upstream.as_slice())
    }

    /// Returns its family: the gauges that differ only in the upstream.
    pub fn family(self) -> &'static Family {
        match self {
            Self::HeldRequests(_) => &family::HELD_REQUESTS,
            Self::HeldOperations(_) => &family::HELD_OPERATIONS,
            Self::HeldBytes(_) => &family::HELD_BYTES,
            Self::InFlightBatches(_) => &family::IN_FLIGHT_BATCHES,
            Self::InFlightOperations(_) => &family::IN_FLIGHT_OPERATIONS,
            Self::InFlightBytes(_) => &family::IN_FLIGHT_BYTES,
            Self::Memory => &family::MEMORY,
            Self::MemoryLimit => &family::MEMORY_LIMIT,
            Self::MemoryPeak => &family::MEMORY_PEAK,
            Self::VmMemoryPeak => &family::VM_MEMORY_PEAK,
            Self::StateVersion => &family::STATE_VERSION,
            Self::StateVerified => &family::STATE_VERIFIED,
        }
    }

    fn upstream(self) -> Option<UpstreamId> {
        match self {
            Self::HeldRequests(upstream)
            | Self::HeldOperations(upstream)
            | Self::HeldBytes(upstream)
            | Self::InFlightBatches(upstream)
            | Self::InFlightOperations(upstream)
            | Self::InFlightBytes(upstream) => Some(upstream),
            _ => None,
        }
    }

    /// Returns all possible gauges for these upstreams.
    pub fn all(upstreams: impl IntoIterator<Item = UpstreamId>) -> impl Iterator<Item = Self> {
        let of_upstream: [fn(UpstreamId) -> Self; 6] = [
            Self::HeldRequests,
            Self::HeldOperations,
            Self::HeldBytes,
            Self::InFlightBatches,
            Self::InFlightOperations,
            Self::InFlightBytes,
        ];
        let single = [
            Self::Memory,
            Self::MemoryLimit,
            Self::MemoryPeak,
            Self::VmMemoryPeak,
            Self::StateVersion,
            Self::StateVerified,
        ];
        let by_upstream = upstreams.into_iter().flat_map(move |upstream| of_upstream.map(|gauge| gauge(upstream)));
        single.into_iter().chain(by_upstream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::metrics::{Families, Kind};

    #[test]
    fn every_gauge_belongs_to_a_family_with_its_labels() {
        let upstreams = Upstreams::new("es");
        let gauges: Vec<Gauge> = Gauge::all(upstreams.ids()).collect();
        for gauge in &gauges {
            assert!(matches!(gauge.family().kind, Kind::Gauge(_)), "{gauge:?}");
            assert_eq!(gauge.family().labels.contains(&Label::Upstream), gauge.upstream().is_some(), "{gauge:?}");
        }
        for family in Families::all().filter(|family| matches!(family.kind, Kind::Gauge(_))) {
            assert!(gauges.iter().any(|gauge| gauge.family().name == family.name), "{}", family.name);
        }
        assert_eq!(Gauge::HeldBytes(UpstreamId::COORDINATOR).name(&upstreams), "bulk_reshuffle_held_bytes.upstream.es");
    }
}
