use super::{Batch, Key};
use crate::engine::head::SlotClass;
use crate::routing::UpstreamId;

/// The position of an entry in the queue: later entries have higher tickets, and batches that are sent again have
/// negative ones. An entry keeps its ticket, so that later entries do not overtake it repeatedly.
pub type Ticket = i64;

/// An entry that is queued to leave.
#[derive(Debug)]
pub enum QueueEntry {
    /// The next batch of this hold.
    Hold(Key, SlotClass),
    /// A batch that is sent again.
    Again(Batch),
}

impl QueueEntry {
    /// Returns the key of the slots of which it takes one.
    pub fn slots_key(&self) -> SlotsKey {
        let upstream = match self {
            Self::Hold((destination, _), _) => destination.upstream,
            Self::Again(batch) => batch.upstream,
        };
        SlotsKey { upstream, waits: self.class().waits }
    }

    /// Returns the slots that it takes.
    pub fn class(&self) -> SlotClass {
        match self {
            Self::Hold(_, class) => *class,
            Self::Again(batch) => batch.class,
        }
    }

    /// Returns the batch, if it is one that is sent again.
    pub fn again(&self) -> Option<&Batch> {
        match self {
            Self::Again(batch) => Some(batch),
            Self::Hold(..) => None,
        }
    }
}

/// The key of a group of slots: an upstream, and whether its cluster is asked to wait. Requests that ask for that take
/// no slots from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotsKey {
    /// The upstream.
    pub upstream: UpstreamId,
    /// Whether the cluster is asked to wait before it answers.
    pub waits: bool,
}

impl SlotsKey {
    /// Returns the key of the slots of which a batch takes one.
    pub fn new(upstream: UpstreamId, class: SlotClass) -> Self {
        Self { upstream, waits: class.waits }
    }
}
