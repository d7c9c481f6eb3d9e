use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::queue::{QueueEntry, Ticket};
use super::slot_limit::{Change, End, SlotLimit};
use crate::Time;
use crate::engine::head::Identity;
use crate::invariant::{Count, found};

/// The slots of one upstream, for all shards and callers.
#[derive(Debug, Default)]
pub struct UpstreamSlots {
    /// The number of slots.
    pub limit: SlotLimit,
    /// The number of batches in flight, of all identities.
    in_flight: usize,
    /// The number of further batches in flight that are late and gave back their slots.
    late: usize,
    /// The number of late batches of each identity that still have their slots.
    late_with_slots: BTreeMap<Identity, usize>,
    /// The queue of each identity with a batch in flight or a blocked entry.
    queues: HashMap<Identity, Queue>,
    /// The identities with blocked entries, in round-robin order. The first gets the next free slot.
    round_robin: BTreeMap<u64, Identity>,
    next_place: u64,
}

/// The entries and batches of one identity at an upstream.
#[derive(Debug, Default)]
pub struct Queue {
    /// The number of its batches in flight.
    in_flight: usize,
    /// The entries that wait for a slot, each with the time since which it is held.
    blocked: BTreeMap<Ticket, (Time, QueueEntry)>,
    /// The same entries by age.
    ages: BTreeSet<(Time, Ticket)>,
    /// Its place in [`UpstreamSlots::round_robin`].
    place: Option<u64>,
    /// The time under which [`Slots`](super::slots::Slots) lists it as waiting.
    pub listed: Option<Time>,
}

impl UpstreamSlots {
    /// Returns whether `more` further batches may be in flight, if there may be `most` slots.
    pub fn has_room_for(&self, more: usize, most: usize) -> bool {
        self.in_flight.saturating_add(more) <= self.limit.slots(most)
    }

    /// Learns from the end of a batch that still counts as in flight, if there may be `most` slots. Returns how their
    /// number changes.
    pub fn learn(&mut self, end: End, most: usize) -> Option<Change> {
        let is_full = !self.has_room_for(1, most);
        self.limit.learn(end, is_full, most)
    }

    /// Returns whether any entry is blocked.
    pub fn is_blocked(&self) -> bool {
        !self.round_robin.is_empty()
    }

    /// Returns whether nothing is in flight or blocked.
    pub fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.late == 0 && !self.is_blocked()
    }

    /// Returns all blocked entries.
    pub fn blocked(&self) -> impl Iterator<Item = &QueueEntry> {
        self.queues.values().flat_map(|queue| queue.blocked.values().map(|(_, queue_entry)| queue_entry))
    }

    /// Returns all queues with their identities.
    pub fn queues(&mut self) -> impl Iterator<Item = (Identity, &mut Queue)> {
        self.queues.iter_mut().map(|(identity, queue)| (*identity, queue))
    }

    /// Returns the queue of an identity.
    pub fn queue(&mut self, identity: Identity) -> Option<&mut Queue> {
        self.queues.get_mut(&identity)
    }

    /// Blocks an entry, which is held since this time, until a slot is free.
    pub fn block(&mut self, ticket: Ticket, queue_entry: QueueEntry, since: Time) {
        let identity = queue_entry.class().identity;
        let queue = self.queues.entry(identity).or_default();
        queue.blocked.insert(ticket, (since, queue_entry));
        queue.ages.insert((since, ticket));
        if queue.place.is_none() {
            queue.place = Some(self.next_place);
            self.round_robin.insert(self.next_place, identity);
            self.next_place = self.next_place.plus(1, "places last longer than a process");
        }
    }

    /// Takes the entry that gets the next free slot: the first one of the next identity.
    pub fn take_next(&mut self) -> Option<QueueEntry> {
        let identity = *self.round_robin.first_key_value()?.1;
        let queue = found(self.queues.get_mut(&identity), "an identity in the order has entries")?;
        let (ticket, (since, queue_entry)) = found(queue.blocked.pop_first(), "an identity in the order has entries")?;
        queue.ages.remove(&(since, ticket));
        self.leave_round_robin(identity);
        Some(queue_entry)
    }

    /// Takes the entry of an identity that is held longest.
    pub fn take_oldest(&mut self, identity: Identity) -> Option<QueueEntry> {
        let queue = self.queues.get_mut(&identity)?;
        let (_, ticket) = queue.ages.pop_first()?;
        let (_, queue_entry) = found(queue.blocked.remove(&ticket), "every blocked entry is listed by age")?;
        self.leave_round_robin(identity);
        Some(queue_entry)
    }

    /// Removes a blocked entry.
    pub fn remove(&mut self, identity: Identity, ticket: Ticket) {
        if let Some(queue) = self.queues.get_mut(&identity)
            && let Some((since, _)) = queue.blocked.remove(&ticket)
        {
            queue.ages.remove(&(since, ticket));
            self.leave_round_robin(identity);
        }
    }

    /// Takes all blocked entries.
    pub fn take_all(&mut self) -> BTreeMap<Ticket, QueueEntry> {
        self.round_robin.clear();
        let mut all = BTreeMap::new();
        for queue in self.queues.values_mut() {
            queue.place = None;
            queue.ages.clear();
            let blocked = std::mem::take(&mut queue.blocked);
            all.extend(blocked.into_iter().map(|(ticket, (_, queue_entry))| (ticket, queue_entry)));
        }
        self.queues.retain(|_, queue| queue.in_flight > 0);
        all
    }

    /// Keeps only the blocked entries that `keep` selects.
    pub fn retain(&mut self, mut keep: impl FnMut(&QueueEntry) -> bool) {
        for queue in self.queues.values_mut() {
            queue.blocked.retain(|_, (_, queue_entry)| keep(queue_entry));
            queue.ages.retain(|(_, ticket)| queue.blocked.contains_key(ticket));
        }
        let identities: Vec<Identity> = self.round_robin.values().copied().collect();
        for identity in identities {
            self.leave_round_robin(identity);
            self.drop_if_idle(identity);
        }
    }

    /// Counts a batch of an identity as in flight, and moves the identity to the end of the round-robin order.
    pub fn sent(&mut self, identity: Identity) {
        self.in_flight = self.in_flight.plus(1, "memory bounds the batches in flight");
        let queue = self.queues.entry(identity).or_default();
        queue.in_flight = queue.in_flight.plus(1, "memory bounds the batches in flight");
        if let Some(place) = queue.place.as_mut() {
            self.round_robin.remove(place);
            *place = self.next_place;
            self.round_robin.insert(*place, identity);
            self.next_place = self.next_place.plus(1, "places last longer than a process");
        }
    }

    /// Counts a batch of an identity as no longer in flight.
    pub fn finished(&mut self, identity: Identity) {
        let Some(queue) = found(self.queues.get_mut(&identity), "a batch of the identity is in flight") else { return };
        queue.in_flight = queue.in_flight.minus(1, "a batch of the identity is in flight");
        self.in_flight = self.in_flight.minus(1, "a batch to the upstream is in flight");
        self.drop_if_idle(identity);
    }

    /// Counts a batch of an identity as late. It gives its slot back, unless `most` batches have done so already.
    pub fn late(&mut self, identity: Identity, most: usize) {
        if self.late < most {
            self.give_back(identity);
        } else {
            let kept = self.late_with_slots.entry(identity).or_default();
            *kept = kept.plus(1, "memory bounds the batches in flight");
        }
    }

    /// Counts a late batch of an identity as no longer in flight. If the identity has late batches with slots, it was
    /// one of these; otherwise another late batch gives its slot back instead. Returns whose slot is free now.
    pub fn late_is_over(&mut self, identity: Identity, most: usize) -> Option<Identity> {
        if self.forget_late_with_slot(identity) {
            self.finished(identity);
            return Some(identity);
        }
        self.late = self.late.minus(1, "a late batch to the upstream is in flight");
        let next = *self.late_with_slots.first_key_value().filter(|_| self.late < most)?.0;
        self.forget_late_with_slot(next);
        self.give_back(next);
        Some(next)
    }

    fn give_back(&mut self, identity: Identity) {
        self.late = self.late.plus(1, "it is less than the number of slots");
        self.finished(identity);
    }

    /// Returns whether an identity had a late batch with a slot.
    fn forget_late_with_slot(&mut self, identity: Identity) -> bool {
        let Some(kept) = self.late_with_slots.get_mut(&identity) else { return false };
        *kept = kept.minus(1, "only positive numbers are kept");
        if *kept == 0 {
            self.late_with_slots.remove(&identity);
        }
        true
    }

    /// Forgets an idle identity, unless it is the only one, which is likely to return soon.
    pub fn drop_if_idle(&mut self, identity: Identity) {
        if self.queues.len() <= 1 {
            return;
        }
        if self.queues.get(&identity).is_some_and(|queue| queue.in_flight == 0 && queue.blocked.is_empty()) {
            self.queues.remove(&identity);
        }
    }

    /// Removes an identity without blocked entries from the round-robin order.
    fn leave_round_robin(&mut self, identity: Identity) {
        if let Some(queue) = self.queues.get_mut(&identity)
            && queue.blocked.is_empty()
            && let Some(place) = queue.place.take()
        {
            self.round_robin.remove(&place);
        }
    }
}

impl Queue {
    /// Returns the time since which the oldest entry is held that may leave without a free slot; `None` while the
    /// identity has as many batches in flight as there are slots.
    pub fn waiting_since(&self, slots: usize) -> Option<Time> {
        debug_assert_eq!(self.ages.len(), self.blocked.len(), "every blocked entry is listed by age");
        self.ages.first().filter(|_| self.in_flight < slots).map(|(since, _)| *since)
    }
}
