use std::collections::BTreeMap;

use super::{Batch, Key};
use crate::engine::head::SlotClass;
use crate::invariant::Count;
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

    /// Returns its number among all groups.
    pub fn number(self) -> usize {
        2 * self.upstream.index() + usize::from(self.waits)
    }
}

/// The entries that are queued to leave, in the order of their tickets.
#[derive(Debug)]
pub struct ReadyQueue {
    entries: BTreeMap<Ticket, QueueEntry>,
    /// The next ticket for a hold.
    next: Ticket,
    /// The next ticket for a batch that is sent again. These tickets precede all others.
    next_first: Ticket,
}

impl ReadyQueue {
    /// Starts without entries.
    pub fn new() -> Self {
        Self { entries: BTreeMap::new(), next: 0, next_first: -1 }
    }

    /// Appends the hold with this key, and returns its ticket.
    pub fn push(&mut self, key: Key, class: SlotClass) -> Ticket {
        let ticket = self.next;
        self.entries.insert(ticket, QueueEntry::Hold(key, class));
        self.next = ticket.plus(1, "tickets last longer than a process");
        ticket
    }

    /// Inserts a batch that is sent again before all other entries, and returns its ticket.
    pub fn push_first(&mut self, batch: Batch) -> Ticket {
        let ticket = self.next_first;
        self.entries.insert(ticket, QueueEntry::Again(batch));
        self.next_first = ticket.minus(1, "tickets last longer than a process");
        ticket
    }

    /// Removes and returns the first entry.
    pub fn pop_first(&mut self) -> Option<(Ticket, QueueEntry)> {
        self.entries.pop_first()
    }

    /// Removes the entry with this ticket. Returns whether there was one.
    pub fn remove(&mut self, ticket: Ticket) -> bool {
        self.entries.remove(&ticket).is_some()
    }

    /// Inserts these entries under the tickets that they have.
    pub fn put_back(&mut self, mut entries: BTreeMap<Ticket, QueueEntry>) {
        self.entries.append(&mut entries);
    }

    /// Keeps only the entries that `keep` selects.
    pub fn retain(&mut self, mut keep: impl FnMut(&QueueEntry) -> bool) {
        self.entries.retain(|_, entry| keep(entry));
    }

    /// Returns all entries.
    pub fn entries(&self) -> impl Iterator<Item = &QueueEntry> {
        self.entries.values()
    }

    /// Returns the batches that are sent again.
    pub fn batches_mut(&mut self) -> impl Iterator<Item = &mut Batch> {
        self.entries.values_mut().filter_map(|entry| match entry {
            QueueEntry::Again(batch) => Some(batch),
            QueueEntry::Hold(..) => None,
        })
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}
