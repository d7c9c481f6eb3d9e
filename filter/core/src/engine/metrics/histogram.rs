use super::family::{self, Family};

/// How values are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Histogram {
    /// How long the first request of a batch was held.
    HoldMicroseconds,
    /// From sending a batch to its answer.
    UpstreamMicroseconds,
    /// Requests that have operations in a batch.
    BatchRequests,
    /// Operations in a batch.
    BatchOperations,
    /// Bytes of a batch's body.
    BatchBytes,
    /// How long following the cluster state has kept a worker at a time.
    StateStepMicroseconds,
}

impl Histogram {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::HoldMicroseconds,
        Self::UpstreamMicroseconds,
        Self::BatchRequests,
        Self::BatchOperations,
        Self::BatchBytes,
        Self::StateStepMicroseconds,
    ];

    /// What is known of it beforehand.
    pub fn family(self) -> &'static Family {
        match self {
            Self::HoldMicroseconds => &family::HOLD_MICROSECONDS,
            Self::UpstreamMicroseconds => &family::UPSTREAM_MICROSECONDS,
            Self::BatchRequests => &family::BATCH_REQUESTS,
            Self::BatchOperations => &family::BATCH_OPERATIONS,
            Self::BatchBytes => &family::BATCH_BYTES,
            Self::StateStepMicroseconds => &family::STATE_STEP,
        }
    }
}
