use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::queue::{QueueEntry, SlotsKey, Ticket};
use super::slot_limit::{Change, End, INITIAL_SLOTS};
use super::upstream_slots::UpstreamSlots;
use crate::Time;
use crate::engine::head::Identity;
use crate::invariant::found;
use crate::routing::UpstreamId;

/// Why the slots of a batch are always found.
const IN_FLIGHT: &str = "a batch to the upstream is in flight";

/// The slots of all upstreams.
///
/// Identities get free slots in round-robin order. An entry that is held for `patience` leaves even without a free
/// slot, unless its identity has as many batches in flight as there are slots. So no identity ever exceeds the number
/// of slots, and all identities together exceed it only with entries that were held for that long.
///
/// Each upstream has as many slots as its [limit](super::slot_limit::SlotLimit), of which there may be `most`.
#[derive(Debug)]
pub struct Slots {
    /// The maximum number of slots of each key.
    most: usize,
    patience: Time,
    slots: HashMap<SlotsKey, UpstreamSlots>,
    /// The keys that may have both a free slot and a blocked entry.
    open: BTreeSet<SlotsKey>,
    /// The identities whose entries may leave without a free slot, by the time since which the oldest entry is held.
    waiting: BTreeSet<(Time, SlotsKey, Identity)>,
}

impl Slots {
    /// Starts with all slots free.
    pub fn new(most: usize, patience: Time) -> Self {
        Self { most, patience, slots: HashMap::new(), open: BTreeSet::new(), waiting: BTreeSet::new() }
    }

    /// Applies new bounds, and keeps only the blocked entries that `keep` selects.
    pub fn configure(&mut self, most: usize, patience: Time, mut keep: impl FnMut(&QueueEntry) -> bool) {
        (self.most, self.patience) = (most, patience);
        self.waiting.clear();
        for (key, slots) in &mut self.slots {
            slots.retain(&mut keep);
            slots.queues().for_each(|(_, queue)| queue.listed = None);
            if slots.is_blocked() {
                self.open.insert(*key);
            }
        }
        let keys: Vec<SlotsKey> = self.slots.keys().copied().collect();
        keys.into_iter().for_each(|key| self.list_all(key));
    }

    /// Returns whether no entry waits for a slot and `more` further batches may be in flight.
    pub fn is_free(&self, key: SlotsKey, more: usize) -> bool {
        match self.slots.get(&key) {
            Some(slots) => !slots.is_blocked() && slots.has_room_for(more, self.most),
            None => more <= INITIAL_SLOTS.min(self.most),
        }
    }

    /// Blocks an entry, which is held since this time, until a slot is free.
    pub fn block(&mut self, ticket: Ticket, queue_entry: QueueEntry, since: Time) {
        let (key, identity) = (queue_entry.slots_key(), queue_entry.class().identity);
        let slots = self.slots.entry(key).or_default();
        slots.block(ticket, queue_entry, since);
        if slots.has_room_for(1, self.most) {
            self.open.insert(key);
        }
        self.list(key, identity);
    }

    /// Takes the entry that leaves next: for a free slot, or because it was held long enough.
    pub fn take_next(&mut self, now: Time) -> Option<QueueEntry> {
        while let Some(key) = self.open.first().copied() {
            let slots = self.slots.get_mut(&key).filter(|slots| slots.has_room_for(1, self.most));
            match slots.and_then(UpstreamSlots::take_next) {
                Some(queue_entry) => {
                    self.list(key, queue_entry.class().identity);
                    return Some(queue_entry);
                }
                None => self.open.remove(&key),
            };
        }
        let (since, key, identity) = self.waiting.first().copied()?;
        if since.saturating_add(self.patience) > now {
            return None;
        }
        let queue_entry = self.slots.get_mut(&key).and_then(|slots| slots.take_oldest(identity));
        self.list(key, identity);
        queue_entry
    }

    /// Removes a blocked entry that is no longer to be sent.
    pub fn remove(&mut self, key: SlotsKey, identity: Identity, ticket: Ticket) {
        if let Some(slots) = found(self.slots.get_mut(&key), "an entry to the upstream is blocked") {
            slots.remove(identity, ticket);
        }
        self.list(key, identity);
        self.not_sent(key, identity);
    }

    /// Counts a batch that leaves as in flight until it is [`finished`](Self::finished).
    pub fn sent(&mut self, key: SlotsKey, identity: Identity) {
        let slots = self.slots.entry(key).or_default();
        slots.sent(identity);
        if slots.is_blocked() {
            self.list(key, identity);
        }
    }

    /// Notes that an entry that was to leave is not sent.
    pub fn not_sent(&mut self, key: SlotsKey, identity: Identity) {
        if let Some(slots) = self.slots.get_mut(&key) {
            slots.drop_if_idle(identity);
        }
    }

    /// Returns the number of slots of each upstream for requests that do not ask the cluster to wait.
    pub fn limits(&self) -> impl Iterator<Item = (UpstreamId, usize)> {
        let prompt = self.slots.iter().filter(|(key, _)| !key.waits);
        prompt.map(|(key, slots)| (key.upstream, slots.limit.slots(self.most)))
    }

    /// Counts a batch as no longer in flight, and learns from its end how many slots the upstream has. Returns whether
    /// their number halves.
    pub fn finished(&mut self, key: SlotsKey, identity: Identity, end: End) -> bool {
        let Some(slots) = found(self.slots.get_mut(&key), IN_FLIGHT) else { return false };
        let change = slots.learn(end, self.most);
        slots.finished(identity);
        // Usually nothing is blocked.
        if slots.is_blocked() {
            self.opened(key, identity);
            self.changed(key, change);
        }
        change == Some(Change::Halved)
    }

    /// Counts a batch in flight as late. It gives its slot back, unless as many late batches as there may be slots
    /// have done so already.
    pub fn late(&mut self, key: SlotsKey, identity: Identity) {
        found(self.slots.get_mut(&key), IN_FLIGHT).into_iter().for_each(|slots| slots.late(identity, self.most));
        self.opened(key, identity);
    }

    /// Counts a late batch as no longer in flight, and learns from its end like [`finished`](Self::finished).
    pub fn late_is_over(&mut self, key: SlotsKey, identity: Identity, end: End) -> bool {
        let Some(slots) = found(self.slots.get_mut(&key), IN_FLIGHT) else { return false };
        let change = slots.learn(end, self.most);
        let freed = slots.late_is_over(identity, self.most);
        freed.into_iter().for_each(|identity| self.opened(key, identity));
        self.changed(key, change);
        change == Some(Change::Halved)
    }

    /// Notes that the number of slots has changed or not. It seldom does, so it may take a while with many identities.
    fn changed(&mut self, key: SlotsKey, change: Option<Change>) {
        if change.is_some() {
            self.list_all(key);
        }
    }

    /// Notes that a slot of an identity may have become free.
    #[inline]
    fn opened(&mut self, key: SlotsKey, identity: Identity) {
        if self.slots.get(&key).is_some_and(UpstreamSlots::is_blocked) {
            self.open.insert(key);
            self.list(key, identity);
        }
    }

    /// Takes all blocked entries of an upstream.
    pub fn take_all(&mut self, upstream: UpstreamId) -> BTreeMap<Ticket, QueueEntry> {
        let mut all = BTreeMap::new();
        for waits in [false, true] {
            let key = SlotsKey { upstream, waits };
            let Some(slots) = self.slots.get_mut(&key) else { continue };
            for (identity, queue) in slots.queues() {
                if let Some(since) = queue.listed.take() {
                    self.waiting.remove(&(since, key, identity));
                }
            }
            all.append(&mut slots.take_all());
        }
        all
    }

    /// Returns all blocked entries.
    pub fn blocked(&self) -> impl Iterator<Item = &QueueEntry> {
        self.slots.values().flat_map(UpstreamSlots::blocked)
    }

    /// Returns whether nothing is in flight or blocked.
    pub fn is_idle(&self) -> bool {
        self.slots.values().all(UpstreamSlots::is_idle)
    }

    /// Returns whether a blocked entry may leave for a free slot.
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns when the next blocked entry may leave without a free slot.
    pub fn deadline(&self) -> Option<Time> {
        self.waiting.first().map(|(since, ..)| since.saturating_add(self.patience))
    }

    /// Updates the time since which the oldest entry of an identity is held.
    fn list(&mut self, key: SlotsKey, identity: Identity) {
        let Some(slots) = self.slots.get_mut(&key) else { return };
        let limit = slots.limit.slots(self.most);
        let Some(queue) = slots.queue(identity) else { return };
        let since = queue.waiting_since(limit);
        if since == queue.listed {
            return;
        }
        if let Some(before) = std::mem::replace(&mut queue.listed, since) {
            self.waiting.remove(&(before, key, identity));
        }
        self.waiting.extend(since.map(|since| (since, key, identity)));
    }

    /// Does the same for each identity.
    fn list_all(&mut self, key: SlotsKey) {
        let Some(slots) = self.slots.get_mut(&key) else { return };
        let identities: Vec<Identity> = slots.queues().map(|(identity, _)| identity).collect();
        identities.into_iter().for_each(|identity| self.list(key, identity));
    }
}
