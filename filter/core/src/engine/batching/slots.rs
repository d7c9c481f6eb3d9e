use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::queue_entry::{QueueEntry, SlotsKey, Ticket};
use super::upstream_slots::UpstreamSlots;
use crate::Time;
use crate::engine::head::Identity;
use crate::routing::UpstreamId;

/// The slots of all upstreams.
///
/// Identities take turns for a free slot. Without a free slot something leaves all the same once it is held for
/// `patience`, unless its own identity has as many batches in flight as there are slots. So no identity ever has more
/// than that, and all together only with what was held so long.
#[derive(Debug)]
pub struct Slots {
    /// Slots of each key.
    most: usize,
    patience: Time,
    slots: HashMap<SlotsKey, UpstreamSlots>,
    /// Keys that may have both a free slot and something for it.
    open: BTreeSet<SlotsKey>,
    /// Since when something is held, of identities that may leave without a free slot.
    waiting: BTreeSet<(Time, SlotsKey, Identity)>,
}

impl Slots {
    /// Nothing is in flight.
    pub fn new(most: usize, patience: Time) -> Self {
        Self { most, patience, slots: HashMap::new(), open: BTreeSet::new(), waiting: BTreeSet::new() }
    }

    /// Follows these bounds from now on, and keeps what still is to wait.
    pub fn configure(&mut self, most: usize, patience: Time, mut keep: impl FnMut(&QueueEntry) -> bool) {
        (self.most, self.patience) = (most, patience);
        self.waiting.clear();
        for (key, slots) in &mut self.slots {
            slots.retain(&mut keep);
            for (identity, queue) in slots.queues() {
                queue.listed = queue.waiting_since(most);
                self.waiting.extend(queue.listed.map(|since| (since, *key, identity)));
            }
            if slots.is_blocked() {
                self.open.insert(*key);
            }
        }
    }

    /// Whether nothing waits for a slot, and so many batches more may be in flight.
    pub fn is_free(&self, key: SlotsKey, more: usize) -> bool {
        match self.slots.get(&key) {
            Some(slots) => !slots.is_blocked() && slots.has_room_for(more, self.most),
            None => more <= self.most,
        }
    }

    /// Lets something wait for a slot that is held since then.
    pub fn block(&mut self, turn: Ticket, queue_entry: QueueEntry, since: Time) {
        let (key, identity) = (queue_entry.slots_key(), queue_entry.class().identity);
        let slots = self.slots.entry(key).or_default();
        slots.block(turn, queue_entry, since);
        if slots.has_room_for(1, self.most) {
            self.open.insert(key);
        }
        self.list(key, identity);
    }

    /// Takes what leaves next: for a free slot, or because it is held long enough.
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

    /// What waits here is nothing any more.
    pub fn remove(&mut self, key: SlotsKey, identity: Identity, turn: Ticket) {
        if let Some(slots) = self.slots.get_mut(&key) {
            slots.remove(identity, turn);
        }
        self.list(key, identity);
        self.not_sent(key, identity);
    }

    /// A batch leaves, and is in flight until it is [`finished`](Self::finished).
    pub fn sent(&mut self, key: SlotsKey, identity: Identity) {
        let slots = self.slots.entry(key).or_default();
        slots.sent(identity);
        if slots.is_blocked() {
            self.list(key, identity);
        }
    }

    /// What was to leave is nothing any more.
    pub fn not_sent(&mut self, key: SlotsKey, identity: Identity) {
        if let Some(slots) = self.slots.get_mut(&key) {
            slots.drop_if_idle(identity);
        }
    }

    /// A batch is no longer in flight.
    pub fn finished(&mut self, key: SlotsKey, identity: Identity) {
        let Some(slots) = self.slots.get_mut(&key) else {
            debug_assert!(false, "nothing is in flight to {key:?}");
            return;
        };
        slots.finished(identity);
        if slots.is_blocked() {
            self.open.insert(key);
            self.list(key, identity);
        }
    }

    /// Takes all that waits for an upstream.
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

    /// What waits for a slot.
    pub fn blocked(&self) -> impl Iterator<Item = &QueueEntry> {
        self.slots.values().flat_map(UpstreamSlots::blocked)
    }

    /// Whether nothing is in flight and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.slots.values().all(UpstreamSlots::is_idle)
    }

    /// Whether something may leave for a slot that was freed.
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// When something is held long enough to leave without a free slot.
    pub fn deadline(&self) -> Option<Time> {
        self.waiting.first().map(|(since, ..)| since.saturating_add(self.patience))
    }

    /// Notes since when something of an identity is held.
    fn list(&mut self, key: SlotsKey, identity: Identity) {
        let Some(queue) = self.slots.get_mut(&key).and_then(|slots| slots.queue(identity)) else { return };
        let since = queue.waiting_since(self.most);
        if since == queue.listed {
            return;
        }
        if let Some(before) = std::mem::replace(&mut queue.listed, since) {
            self.waiting.remove(&(before, key, identity));
        }
        self.waiting.extend(since.map(|since| (since, key, identity)));
    }
}
