use super::family::{self, Family};

/// A metric with a distribution of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Histogram {
    /// Microseconds that the first request of a batch was held.
    HoldMicroseconds,
    /// Microseconds from sending a batch to its answer.
    UpstreamMicroseconds,
    /// Requests with operations in a batch.
    BatchRequests,
    /// Operations in a batch.
    BatchOperations,
    /// Bytes of a batch's body.
    BatchBytes,
    /// Microseconds that one step of work on the cluster state took.
    StateStepMicroseconds,
}

impl Histogram {
    /// All histograms.
    pub const ALL: [Self; 6] = [
        Self::HoldMicroseconds,
        Self::UpstreamMicroseconds,
        Self::BatchRequests,
        Self::BatchOperations,
        Self::BatchBytes,
        Self::StateStepMicroseconds,
    ];

    /// Returns its definition.
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
