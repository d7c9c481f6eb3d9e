use super::{Batch, Key};
use crate::routing::UpstreamId;

/// When something was queued, the latest highest; what is sent again is below zero. It keeps its turn, so that nobody
/// who waits is overtaken again and again.
pub type Turn = i64;

/// What is queued to leave.
#[derive(Debug)]
pub enum Departure {
    /// As much as one batch takes of this hold.
    Hold(Key),
    /// A batch that is sent again.
    Again(Batch),
}

impl Departure {
    /// Where to.
    pub fn upstream(&self) -> UpstreamId {
        match self {
            Self::Hold((destination, _)) => destination.upstream,
            Self::Again(batch) => batch.upstream,
        }
    }

    /// The batch, if it is one that is sent again.
    pub fn again(&self) -> Option<&Batch> {
        match self {
            Self::Again(batch) => Some(batch),
            Self::Hold(_) => None,
        }
    }
}
