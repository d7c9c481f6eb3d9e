use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::queue_entry::{QueueEntry, Ticket};
use crate::Time;
use crate::engine::head::Identity;

/// The slots of one upstream, whatever the shard and the caller.
#[derive(Debug, Default)]
pub struct UpstreamSlots {
    /// Batches in flight, of all identities.
    in_flight: usize,
    /// One for each identity that has a batch in flight or something blocked.
    queues: HashMap<Identity, Queue>,
    /// Identities with something blocked. The first has the next free slot.
    turns: BTreeMap<u64, Identity>,
    next_turn: u64,
}

/// What one identity has at an upstream.
#[derive(Debug, Default)]
pub struct Queue {
    /// Its batches in flight.
    in_flight: usize,
    /// What would leave if there were a slot, each with the time since when it is held.
    blocked: BTreeMap<Ticket, (Time, QueueEntry)>,
    /// The same by age.
    ages: BTreeSet<(Time, Ticket)>,
    /// Its place in [`UpstreamSlots::turns`].
    turn: Option<u64>,
    /// The time under which [`Slots`](super::slots::Slots) has listed it as waiting.
    pub listed: Option<Time>,
}

impl UpstreamSlots {
    /// Whether so many batches more may be in flight.
    pub fn has_room_for(&self, more: usize, most: usize) -> bool {
        self.in_flight.saturating_add(more) <= most
    }

    /// Whether anything waits for a slot.
    pub fn is_blocked(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Whether nothing is in flight and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.in_flight == 0 && !self.is_blocked()
    }

    /// What waits for a slot.
    pub fn blocked(&self) -> impl Iterator<Item = &QueueEntry> {
        self.queues.values().flat_map(|queue| queue.blocked.values().map(|(_, queue_entry)| queue_entry))
    }

    /// All queues, with their identities.
    pub fn queues(&mut self) -> impl Iterator<Item = (Identity, &mut Queue)> {
        self.queues.iter_mut().map(|(identity, queue)| (*identity, queue))
    }

    /// The queue of an identity.
    pub fn queue(&mut self, identity: Identity) -> Option<&mut Queue> {
        self.queues.get_mut(&identity)
    }

    /// Lets something wait for a slot that is held since then.
    pub fn block(&mut self, turn: Ticket, queue_entry: QueueEntry, since: Time) {
        let identity = queue_entry.class().identity;
        let queue = self.queues.entry(identity).or_default();
        queue.blocked.insert(turn, (since, queue_entry));
        queue.ages.insert((since, turn));
        if queue.turn.is_none() {
            queue.turn = Some(self.next_turn);
            self.turns.insert(self.next_turn, identity);
            self.next_turn = self.next_turn.saturating_add(1);
        }
    }

    /// Takes the entry that gets the next free slot: the first one of the next identity.
    pub fn take_next(&mut self) -> Option<QueueEntry> {
        let identity = *self.turns.first_key_value()?.1;
        let queue = self.queues.get_mut(&identity)?;
        let (turn, (since, queue_entry)) = queue.blocked.pop_first()?;
        queue.ages.remove(&(since, turn));
        self.end_turns(identity);
        Some(queue_entry)
    }

    /// Takes what is held longest of an identity.
    pub fn take_oldest(&mut self, identity: Identity) -> Option<QueueEntry> {
        let queue = self.queues.get_mut(&identity)?;
        let (_, turn) = queue.ages.pop_first()?;
        let (_, queue_entry) = queue.blocked.remove(&turn)?;
        self.end_turns(identity);
        Some(queue_entry)
    }

    /// Removes what waits there.
    pub fn remove(&mut self, identity: Identity, turn: Ticket) {
        if let Some(queue) = self.queues.get_mut(&identity)
            && let Some((since, _)) = queue.blocked.remove(&turn)
        {
            queue.ages.remove(&(since, turn));
            self.end_turns(identity);
        }
    }

    /// Takes all that waits.
    pub fn take_all(&mut self) -> BTreeMap<Ticket, QueueEntry> {
        self.turns.clear();
        let mut all = BTreeMap::new();
        for queue in self.queues.values_mut() {
            queue.turn = None;
            queue.ages.clear();
            let blocked = std::mem::take(&mut queue.blocked);
            all.extend(blocked.into_iter().map(|(turn, (_, queue_entry))| (turn, queue_entry)));
        }
        self.queues.retain(|_, queue| queue.in_flight > 0);
        all
    }

    /// Keeps what still is to wait.
    pub fn retain(&mut self, mut keep: impl FnMut(&QueueEntry) -> bool) {
        for queue in self.queues.values_mut() {
            queue.blocked.retain(|_, (_, queue_entry)| keep(queue_entry));
            queue.ages.retain(|(_, turn)| queue.blocked.contains_key(turn));
        }
        let identities: Vec<Identity> = self.turns.values().copied().collect();
        for identity in identities {
            self.end_turns(identity);
            self.drop_if_idle(identity);
        }
    }

    /// A batch of an identity leaves, so that all others have their turns before it has its next.
    pub fn sent(&mut self, identity: Identity) {
        self.in_flight = self.in_flight.saturating_add(1);
        let queue = self.queues.entry(identity).or_default();
        queue.in_flight = queue.in_flight.saturating_add(1);
        if let Some(turn) = queue.turn.as_mut() {
            self.turns.remove(turn);
            *turn = self.next_turn;
            self.turns.insert(*turn, identity);
            self.next_turn = self.next_turn.saturating_add(1);
        }
    }

    /// A batch of an identity is no longer in flight.
    pub fn finished(&mut self, identity: Identity) {
        let Some(queue) = self.queues.get_mut(&identity) else {
            debug_assert!(false, "nothing of {identity:?} is in flight");
            return;
        };
        debug_assert!(queue.in_flight > 0 && self.in_flight > 0, "nothing of {identity:?} is in flight");
        queue.in_flight = queue.in_flight.saturating_sub(1);
        self.in_flight = self.in_flight.saturating_sub(1);
        self.drop_if_idle(identity);
    }

    /// Forgets an identity that has nothing here, unless it is the only one: it is about to come back.
    pub fn drop_if_idle(&mut self, identity: Identity) {
        if self.queues.len() <= 1 {
            return;
        }
        if self.queues.get(&identity).is_some_and(|queue| queue.in_flight == 0 && queue.blocked.is_empty()) {
            self.queues.remove(&identity);
        }
    }

    /// Lets an identity have no turns if nothing of it waits.
    fn end_turns(&mut self, identity: Identity) {
        if let Some(queue) = self.queues.get_mut(&identity)
            && queue.blocked.is_empty()
            && let Some(turn) = queue.turn.take()
        {
            self.turns.remove(&turn);
        }
    }
}

impl Queue {
    /// Since when something is held that may leave without a free slot once it is held long enough: not while the
    /// identity has as many batches in flight as may be.
    pub fn waiting_since(&self, most: usize) -> Option<Time> {
        debug_assert_eq!(self.ages.len(), self.blocked.len(), "what is blocked is listed by age");
        self.ages.first().filter(|_| self.in_flight < most).map(|(since, _)| *since)
    }
}
