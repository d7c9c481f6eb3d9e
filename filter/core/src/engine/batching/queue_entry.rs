use super::{Batch, Key};
use crate::engine::head::SlotClass;
use crate::routing::UpstreamId;

/// The order in which entries were queued, the latest highest; a batch that is sent again is below zero. An entry keeps
/// its ticket, so that later entries do not overtake it again and again.
pub type Ticket = i64;

/// What is queued to leave.
#[derive(Debug)]
pub enum QueueEntry {
    /// As much as one batch takes of this hold.
    Hold(Key, SlotClass),
    /// A batch that is sent again.
    Again(Batch),
}

impl QueueEntry {
    /// The key of the slots of which it takes one.
    pub fn slots_key(&self) -> SlotsKey {
        let upstream = match self {
            Self::Hold((destination, _), _) => destination.upstream,
            Self::Again(batch) => batch.upstream,
        };
        SlotsKey { upstream, waits: self.class().waits }
    }

    /// The slots that it takes.
    pub fn class(&self) -> SlotClass {
        match self {
            Self::Hold(_, class) => *class,
            Self::Again(batch) => batch.class,
        }
    }

    /// The batch, if it is one that is sent again.
    pub fn again(&self) -> Option<&Batch> {
        match self {
            Self::Again(batch) => Some(batch),
            Self::Hold(..) => None,
        }
    }
}

/// An upstream, and whether its cluster is asked to wait: who asks for that takes no slots from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotsKey {
    /// The upstream.
    pub upstream: UpstreamId,
    /// Whether the cluster is asked to wait before it answers.
    pub waits: bool,
}

impl SlotsKey {
    /// The key of the slots of which a batch takes one.
    pub fn new(upstream: UpstreamId, class: SlotClass) -> Self {
        Self { upstream, waits: class.waits }
    }
}
