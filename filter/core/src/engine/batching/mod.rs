//! Holds shares for each destination and caller, and decides when they leave.
//!
//! A request has one share for each [`Destination`]. [`Holds`] collects the shares of one caller for one
//! destination, and releases them as a [`Batch`]. Each upstream has slots, which identities get in round-robin order.

mod arrival_estimate;
mod batch;
mod destination;
mod held_share;
mod hold;
mod late;
mod queue;
mod redirect;
mod shards;
mod slot_limit;
mod slots;
mod slow_shards;
mod upstream_slots;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use hashbrown::HashMap;

use crate::Time;
use crate::config::{Dispatch, Hold as HoldConfig};
use crate::engine::command::RequestId;
use crate::engine::head::{CallerId, SlotClass};
use crate::invariant::{Count, found};
use crate::routing::UpstreamId;
use arrival_estimate::{ArrivalEstimate, longest_wait};
pub use batch::Batch;
pub use destination::{Destination, Scope};
pub use held_share::{HeldShare, Positions, Waiting};
use hold::Hold;
pub use late::Moved;
pub use queue::Ticket;
use queue::{QueueEntry, ReadyQueue, SlotsKey};
pub use shards::Shards;
pub use slot_limit::Ending;
use slots::Slots;
pub use slow_shards::Apart;
use slow_shards::SlowShards;

/// The holds of all destinations and callers, and the queue of what may leave.
///
/// A hold leaves when its interval ends, when it is large enough, or at once if none of its batches is in flight. It
/// grows while its maximum number of batches is in flight.
///
/// When a batch is completed, the hold waits for a moment for the answered clients, which are about to send more.
/// Otherwise, the answered clients and the waiting clients would alternate forever, in batches of half the size.
///
/// [`Slots`] distributes the slots of an upstream.
#[derive(Debug)]
pub struct Holds {
    hold: HoldConfig,
    dispatch: Dispatch,
    /// The maximum number of bytes of an answer.
    max_answer: u64,
    holds: HashMap<Key, Hold>,
    slots: Slots,
    slow: SlowShards,
    ready: ReadyQueue,
    /// The batches that are sent again later, by time and number.
    delayed: BTreeMap<(Time, u64), Batch>,
    next_delayed: u64,
    deadlines: BinaryHeap<Reverse<(Time, Key)>>,
    /// The times from which holds may be dropped. They need no timer.
    ending: VecDeque<(Time, Key)>,
}

/// The number of holds for which memory is kept even if it is unused.
const KEPT_HOLDS: usize = 1024;

/// Why the hold of a batch is always found.
const HAS_HOLD: &str = "a hold stays while its batch is in flight";

/// The key of a hold: its destination and its caller.
pub type Key = (Destination, CallerId);

impl Holds {
    /// Starts without holds.
    pub fn new(hold: HoldConfig, dispatch: Dispatch, max_answer: u64) -> Self {
        Self {
            slots: Slots::new(dispatch.max_in_flight_per_node, hold.interval),
            slow: SlowShards::new(hold.late_after),
            hold,
            dispatch,
            max_answer,
            holds: HashMap::new(),
            ready: ReadyQueue::new(),
            delayed: BTreeMap::new(),
            next_delayed: 0,
            deadlines: BinaryHeap::new(),
            ending: VecDeque::new(),
        }
    }

    /// Applies these rules to everything that is held, from now on.
    pub fn configure(&mut self, hold: HoldConfig, dispatch: Dispatch, now: Time) {
        (self.hold, self.dispatch) = (hold, dispatch);
        let mut is_ready = |queue_entry: &QueueEntry| match queue_entry {
            QueueEntry::Again(_) => true,
            QueueEntry::Hold(key, _) => self.holds.get_mut(key).is_some_and(|found| {
                found.queued = found.queued.filter(|_| found.is_ready(&self.hold, &self.dispatch, now));
                found.queued.is_some()
            }),
        };
        self.ready.retain(&mut is_ready);
        // A bound that blocked a departure may have been raised.
        self.slots.configure(self.dispatch.max_in_flight_per_node, self.hold.interval, is_ready);
        self.slow.configure(self.hold.late_after);
        self.deadlines.clear();
        self.ending.clear();
        for hold in self.holds.values_mut() {
            (hold.interval_end, hold.arrival_estimate) = (None, ArrivalEstimate::default());
        }
        self.holds.retain(|_, hold| !hold.is_empty());
        let oldest = |(key, hold): (&Key, &Hold)| Some((hold.since()?, *key));
        let mut keys: Vec<_> = self.holds.iter().filter_map(oldest).collect();
        keys.sort_unstable();
        for (_, key) in keys {
            self.queue_or_wait(key, now);
        }
    }

    /// Holds a share of a caller with these slots.
    pub fn add(&mut self, key: Key, class: SlotClass, held: HeldShare) {
        let hold = self.holds.entry(key).or_insert_with(|| Hold::new(class));
        let now = held.since;
        hold.arrival_estimate.arrived(now);
        hold.push(held);
        let is_queued = hold.queue_if_ready(key, &mut self.ready, (&self.hold, &self.dispatch), now);
        let since = hold.since();
        self.wait_for_interval(key, since.filter(|_| !is_queued), now);
    }

    /// Discounts the held shares of a request that is gone, all that have this destination at once. They stay in their
    /// hold for a while, where `is_here` identifies them. A hold with only such shares is dropped.
    pub fn forget(&mut self, key: Key, gone: Waiting, now: Time, is_here: impl Fn(RequestId) -> bool) {
        let Some(hold) = found(self.holds.get_mut(&key), "the shares are held") else { return };
        if hold.forget(gone, is_here) {
            return;
        }
        self.dequeue(key);
        self.drop_if_over(key, now);
    }

    /// Takes a hold out of the queue.
    fn dequeue(&mut self, key: Key) {
        let Some(hold) = self.holds.get_mut(&key) else { return };
        let class = hold.class;
        if let Some(ticket) = hold.queued.take() {
            self.withdraw(key.0.upstream, class, ticket);
        }
    }

    /// Queues a batch to be sent again, before everything else of its identity. Returns its ticket.
    pub fn add_again(&mut self, batch: Batch) -> Ticket {
        self.ready.push_first(batch)
    }

    /// Takes an entry out of the queue that is not to be sent. Otherwise it would take memory until a slot is free.
    pub fn withdraw(&mut self, upstream: UpstreamId, class: SlotClass, ticket: Ticket) {
        if !self.ready.remove(ticket) {
            self.slots.remove(SlotsKey::new(upstream, class), class.identity, ticket);
        }
    }

    /// Schedules a batch to be sent again at this time.
    pub fn add_later(&mut self, batch: Batch, at: Time) {
        self.delayed.insert((at, self.next_delayed), batch);
        self.next_delayed = self.next_delayed.wrapping_add(1);
    }

    /// Returns the amounts that wait to be sent or to be sent again, each with its upstream.
    pub fn waiting(&self) -> impl Iterator<Item = (UpstreamId, Waiting)> {
        let held = self.holds.iter().map(|((to, _), hold)| (to.upstream, hold.waiting()));
        let queued = self.ready.entries().chain(self.slots.blocked());
        let again = queued.filter_map(QueueEntry::again).chain(self.delayed.values());
        held.filter(|(_, waiting)| waiting.operations > 0).chain(again.map(|batch| (batch.upstream, batch.waiting())))
    }

    /// Returns the number of slots of each upstream that has been used, for requests that do not ask the cluster to wait.
    pub fn slots(&self) -> impl Iterator<Item = (UpstreamId, usize)> {
        self.slots.limits()
    }

    /// Returns whether nothing is held or in flight.
    pub fn is_empty(&self) -> bool {
        let waiting = self.ready.len().saturating_add(self.delayed.len());
        self.holds.values().all(Hold::is_empty) && waiting == 0 && self.slots.is_idle()
    }

    /// Returns whether [`next_batch`](Self::next_batch) may return a batch.
    pub fn has_ready(&self) -> bool {
        self.ready.len() > 0 || self.slots.is_open()
    }

    /// Returns the next time at which a hold's interval ends, a batch is to be sent again, or a queue entry may leave
    /// without a free slot.
    pub fn deadline(&self) -> Option<Time> {
        let interval = self.deadlines.peek().map(|Reverse((deadline, _))| *deadline);
        let delayed = self.delayed.keys().next().map(|(at, _)| *at);
        [interval, delayed, self.slots.deadline()].into_iter().flatten().min()
    }

    /// Queues the holds whose interval has ended, and the batches that are due to be sent again.
    pub fn tick(&mut self, now: Time) {
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let batch = entry.remove();
            self.add_again(batch);
        }
        while let Some(Reverse((deadline, key))) = self.deadlines.peek().copied() {
            if deadline > now {
                break;
            }
            self.deadlines.pop();
            if let Some(hold) = self.holds.get_mut(&key) {
                hold.interval_end = hold.interval_end.filter(|end| *end != deadline);
            }
            self.queue_or_wait(key, now);
            self.drop_if_over(key, now);
        }
        self.drop_ended(now);
    }

    /// Returns the next batch to send, with the shares of requests that still exist. It counts as in flight until
    /// [`finished`](Self::finished).
    pub fn next_batch(&mut self, now: Time, is_here: impl Fn(RequestId) -> bool) -> Option<Batch> {
        while let Some(queue_entry) = self.next_ready(now) {
            let (slots, identity) = (queue_entry.slots_key(), queue_entry.class().identity);
            let batch = match queue_entry {
                QueueEntry::Again(batch) => Some(batch),
                QueueEntry::Hold(key, _) => self.take(key, now, &is_here),
            };
            if batch.is_some() {
                self.slots.sent(slots, identity);
                return batch;
            }
            // Nothing was sent, so the slot is free for another entry.
            self.slots.not_sent(slots, identity);
        }
        None
    }

    /// Returns the next entry that may leave. All ready entries are considered before slots are assigned.
    fn next_ready(&mut self, now: Time) -> Option<QueueEntry> {
        while let Some((ticket, queue_entry)) = self.ready.pop_first() {
            if self.slots.is_free(queue_entry.slots_key(), self.ready.len().saturating_add(1)) {
                return Some(queue_entry);
            }
            let oldest = match &queue_entry {
                QueueEntry::Hold(key, _) => self.holds.get(key).and_then(|hold| hold.shares.front()),
                QueueEntry::Again(batch) => batch.shares.first(),
            };
            let since = oldest.map_or(now, |held| held.since);
            self.slots.block(ticket, queue_entry, since);
        }
        self.slots.take_next(now)
    }

    /// Settles a batch that was answered. Its clients may soon send their next requests.
    pub fn completed(&mut self, batch: &Batch, now: Time) {
        let Some(key) = batch.hold else { return };
        let Some(hold) = found(self.holds.get_mut(&key), HAS_HOLD) else { return };
        let end = now.saturating_add(longest_wait(&self.hold, now.saturating_sub(batch.first_sent)));
        hold.arrival_estimate.begin(hold.shares.len(), end);
        match hold.arrival_estimate.is_enough(hold.shares.len(), now) {
            false => self.deadlines.push(Reverse((end, key))),
            true => self.ending.push_back((end, key)),
        }
        if hold.settle(key, &mut self.ready, (&self.hold, &self.dispatch), now) {
            self.remove(key);
        }
        self.drop_ended(now);
    }

    /// Settles a batch that left this hold, so that the next one may leave.
    pub fn settled(&mut self, key: Key, now: Time) {
        let Some(hold) = found(self.holds.get_mut(&key), HAS_HOLD) else { return };
        if hold.settle(key, &mut self.ready, (&self.hold, &self.dispatch), now) {
            self.remove(key);
        }
    }

    fn drop_ended(&mut self, now: Time) {
        while let Some((_, key)) = self.ending.front().copied().filter(|(end, _)| *end <= now) {
            self.ending.pop_front();
            self.drop_if_over(key, now);
        }
    }

    fn drop_if_over(&mut self, key: Key, now: Time) {
        if self.holds.get(&key).is_some_and(|hold| hold.is_over(now)) {
            self.remove(key);
        }
    }

    /// Removes a hold. Frees memory if there were many more holds.
    fn remove(&mut self, key: Key) {
        self.holds.remove(&key);
        if self.holds.capacity() > KEPT_HOLDS && self.holds.len() < self.holds.capacity() / 8 {
            self.holds.shrink_to(self.holds.len().saturating_mul(2));
            self.deadlines.shrink_to(self.deadlines.len().saturating_mul(2));
        }
    }

    /// Takes a batch out of a hold: at least one share, and more up to the thresholds.
    fn take(&mut self, key: Key, now: Time, is_here: impl Fn(RequestId) -> bool) -> Option<Batch> {
        let hold = self.holds.get_mut(&key)?;
        let class = hold.class;
        hold.queued = None;
        let shares = hold.take(&self.hold, self.max_answer, is_here);
        if shares.is_empty() {
            if hold.in_flight == 0 {
                self.remove(key);
            }
            return None;
        }
        hold.in_flight = hold.in_flight.plus(1, "slots bound the batches");
        self.queue_or_wait(key, now);
        Some(Batch {
            upstream: key.0.upstream,
            caller: key.1,
            class,
            scope: key.0.scope,
            shares,
            hold: Some(key),
            first_sent: now,
            sent: now,
            not_sent: 0,
            retries: 0,
            lost: false,
            address: None,
            is_original: false,
            is_late: false,
        })
    }

    /// Queues a hold if it may leave, or else waits for the end of its interval.
    fn queue_or_wait(&mut self, key: Key, now: Time) {
        let Some(hold) = self.holds.get_mut(&key) else { return };
        let is_queued = hold.queue_if_ready(key, &mut self.ready, (&self.hold, &self.dispatch), now);
        let since = hold.since();
        self.wait_for_interval(key, since.filter(|_| !is_queued), now);
    }

    /// Sets the deadline at which the interval of a hold ends, if its oldest share waits for that since `since`. After
    /// its interval, it waits only for a batch in flight.
    fn wait_for_interval(&mut self, key: Key, since: Option<Time>, now: Time) {
        // With early release and a single batch in flight, the end of that batch releases the hold.
        if self.hold.early_release && self.dispatch.max_in_flight == 1 {
            return;
        }
        let end = since.map(|since| since.saturating_add(self.hold.interval)).filter(|end| *end > now);
        let (Some(hold), Some(end)) = (self.holds.get_mut(&key), end) else { return };
        if hold.interval_end.replace(end) != Some(end) {
            self.deadlines.push(Reverse((end, key)));
        }
    }
}
