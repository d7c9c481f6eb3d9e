mod batch;
mod departure;
mod gathering;
mod held;
mod hold;
mod lane;
mod redirecting;
mod waiting;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use hashbrown::HashMap;

use super::RequestId;
use super::caller::CallerId;
use super::destination::Destination;
use crate::Time;
use crate::config::{Dispatch, Hold as HoldConfig};
use crate::routing::UpstreamId;
pub use batch::Batch;
use departure::{Departure, Turn};
use gathering::Gathering;
pub use held::Held;
use hold::Hold;
use lane::Lane;
pub use waiting::Waiting;

/// What is held for each destination and caller, and what may leave when.
///
/// A hold leaves when its interval ends, when it is large enough, or at once when nothing of it is on its way. While
/// as many of its batches are on their way as may be, it grows. When a batch has come back, the hold waits for a moment
/// for the clients that were answered, who are about to send more: else those and the ones who waited meanwhile would
/// take turns for ever, in batches of half the size. Holds of one upstream take turns.
#[derive(Debug)]
pub struct Holds {
    hold: HoldConfig,
    dispatch: Dispatch,
    holds: HashMap<Key, Hold>,
    lanes: HashMap<UpstreamId, Lane>,
    ready: BTreeMap<Turn, Departure>,
    /// What is queued next, and what is sent again next.
    next_turn: Turn,
    next_first: Turn,
    /// Batches that are sent again later, by time and number.
    delayed: BTreeMap<(Time, u64), Batch>,
    next_delayed: u64,
    deadlines: BinaryHeap<Reverse<(Time, Key)>>,
    /// Holds that may be over from then on, and for which nobody is woken.
    ending: VecDeque<(Time, Key)>,
}

/// One hold: of a destination and a caller.
pub type Key = (Destination, CallerId);

impl Holds {
    /// Nothing is held.
    pub fn new(hold: HoldConfig, dispatch: Dispatch) -> Self {
        Self {
            hold,
            dispatch,
            holds: HashMap::new(),
            lanes: HashMap::new(),
            ready: BTreeMap::new(),
            next_turn: 0,
            next_first: -1,
            delayed: BTreeMap::new(),
            next_delayed: 0,
            deadlines: BinaryHeap::new(),
            ending: VecDeque::new(),
        }
    }

    /// Lets what is held leave by these rules from now on.
    pub fn configure(&mut self, hold: HoldConfig, dispatch: Dispatch, now: Time) {
        (self.hold, self.dispatch) = (hold, dispatch);
        // A bound that was in the way may be no more.
        self.lanes.values_mut().for_each(|lane| self.ready.append(&mut lane.blocked));
        self.ready.retain(|_, departure| match departure {
            Departure::Again(_) => true,
            Departure::Hold(key) => self.holds.get_mut(key).is_some_and(|found| {
                found.queued = found.is_ready(&self.hold, &self.dispatch, now);
                found.queued
            }),
        });
        self.deadlines.clear();
        self.ending.clear();
        self.holds.values_mut().for_each(|hold| hold.gathering = Gathering::default());
        self.holds.retain(|_, hold| !hold.is_empty());
        let oldest = |(key, hold): (&Key, &Hold)| Some((hold.shares.front()?.since, *key));
        let mut keys: Vec<_> = self.holds.iter().filter_map(oldest).collect();
        keys.sort_unstable();
        for (_, key) in keys {
            if !self.queue_if_ready(key, now) {
                self.wait_for_interval(key);
            }
        }
    }

    /// Holds a share.
    pub fn add(&mut self, key: Key, held: Held) {
        let hold = self.holds.entry(key).or_default();
        let now = held.since;
        hold.gathering.arrived(now);
        hold.push(held);
        if !self.queue_if_ready(key, now) {
            self.wait_for_interval(key);
        }
    }

    /// A held share will not be sent. It stays in its hold, where `is_here` tells it apart, but no longer counts.
    pub fn forget(&mut self, key: Key, bytes: u64, operations: u64) {
        if let Some(hold) = self.holds.get_mut(&key) {
            hold.forget(bytes, operations);
        }
    }

    /// Sends a batch again, before whatever else waits.
    pub fn add_again(&mut self, batch: Batch) {
        self.ready.insert(self.next_first, Departure::Again(batch));
        self.next_first = self.next_first.saturating_sub(1);
    }

    /// Sends a batch again at this time.
    pub fn add_later(&mut self, batch: Batch, at: Time) {
        self.delayed.insert((at, self.next_delayed), batch);
        self.next_delayed = self.next_delayed.wrapping_add(1);
    }

    /// What waits to be sent, or to be sent again, piece by piece with its upstream.
    pub fn waiting(&self) -> impl Iterator<Item = (UpstreamId, Waiting)> {
        let held = self.holds.iter().map(|((to, _), hold)| (to.upstream, hold.waiting()));
        let queued = self.ready.values().chain(self.lanes.values().flat_map(|lane| lane.blocked.values()));
        let again = queued.filter_map(Departure::again).chain(self.delayed.values());
        held.filter(|(_, waiting)| waiting.operations > 0).chain(again.map(|batch| (batch.upstream, batch.waiting())))
    }

    /// Whether nothing is held and nothing on its way.
    pub fn is_empty(&self) -> bool {
        let waiting = self.ready.len().saturating_add(self.delayed.len());
        self.holds.values().all(Hold::is_empty) && waiting == 0 && self.lanes.values().all(|lane| lane.in_flight == 0)
    }

    /// Whether [`next_batch`](Self::next_batch) may have one.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When a hold's interval ends next, or a batch is to be sent again.
    pub fn deadline(&self) -> Option<Time> {
        let interval = self.deadlines.peek().map(|Reverse((deadline, _))| *deadline);
        let delayed = self.delayed.keys().next().map(|(at, _)| *at);
        [interval, delayed].into_iter().flatten().min()
    }

    /// Lets holds leave whose interval has ended, and batches whose time has come.
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
            self.queue_if_ready(key, now);
            self.drop_if_over(key, now);
        }
        self.drop_ended(now);
    }

    /// The next batch to send, of requests that are still here. It counts as on its way until
    /// [`finished`](Self::finished).
    pub fn next_batch(&mut self, now: Time, is_here: impl Fn(RequestId) -> bool) -> Option<Batch> {
        while let Some((turn, departure)) = self.ready.pop_first() {
            let upstream = departure.upstream();
            let lane = self.lanes.entry(upstream).or_default();
            if lane.in_flight >= self.dispatch.max_in_flight_per_node {
                lane.blocked.insert(turn, departure);
                continue;
            }
            let batch = match departure {
                Departure::Again(batch) => Some(batch),
                Departure::Hold(key) => self.take(key, now, &is_here),
            };
            let Some(lane) = self.lanes.get_mut(&upstream) else { continue };
            match batch {
                Some(batch) => {
                    lane.in_flight = lane.in_flight.saturating_add(1);
                    return Some(batch);
                }
                // Nothing left, so the place is free for another.
                None => lane.unblock(&mut self.ready),
            }
        }
        None
    }

    /// A batch is no longer on its way to this upstream. If it is not to be sent again, it is [`settled`](Self::settled) too.
    pub fn finished(&mut self, upstream: UpstreamId) {
        if let Some(lane) = self.lanes.get_mut(&upstream) {
            lane.in_flight = lane.in_flight.saturating_sub(1);
            lane.unblock(&mut self.ready);
        }
    }

    /// A batch has come back, and the clients that it answered may come back too.
    pub fn came_back(&mut self, batch: &Batch, now: Time) {
        let Some(key) = batch.hold else { return };
        let moment = self.hold.gather.min(now.saturating_sub(batch.first_sent));
        if let Some(hold) = self.holds.get_mut(&key) {
            let end = now.saturating_add(moment);
            hold.gathering.begin(hold.shares.len(), end);
            match hold.gathering.is_enough(hold.shares.len(), now) {
                false => self.deadlines.push(Reverse((end, key))),
                true => self.ending.push_back((end, key)),
            }
        }
        self.settled(key, now);
        self.drop_ended(now);
    }

    /// A batch that left this hold no longer concerns it: the next may leave.
    pub fn settled(&mut self, key: Key, now: Time) {
        if let Some(hold) = self.holds.get_mut(&key) {
            hold.in_flight = hold.in_flight.saturating_sub(1);
        }
        self.queue_if_ready(key, now);
        self.drop_if_over(key, now);
    }

    fn drop_ended(&mut self, now: Time) {
        while let Some((_, key)) = self.ending.front().copied().filter(|(end, _)| *end <= now) {
            self.ending.pop_front();
            self.drop_if_over(key, now);
        }
    }

    fn drop_if_over(&mut self, key: Key, now: Time) {
        if self.holds.get(&key).is_some_and(|hold| hold.is_empty() && hold.gathering.is_over(now)) {
            self.holds.remove(&key);
        }
    }

    /// Takes a batch out of a hold: at least one share, and further ones up to the thresholds.
    fn take(&mut self, key: Key, now: Time, is_here: impl Fn(RequestId) -> bool) -> Option<Batch> {
        let hold = self.holds.get_mut(&key)?;
        hold.queued = false;
        let shares = hold.take(&self.hold, is_here);
        if shares.is_empty() {
            if hold.in_flight == 0 {
                self.holds.remove(&key);
            }
            return None;
        }
        hold.in_flight = hold.in_flight.saturating_add(1);
        if !self.queue_if_ready(key, now) {
            self.wait_for_interval(key);
        }
        Some(Batch {
            upstream: key.0.upstream,
            caller: key.1,
            shares,
            hold: Some(key),
            first_sent: now,
            sent: now,
            not_sent: 0,
            retries: 0,
            lost: false,
        })
    }

    /// Remembers when the interval of a hold's oldest share ends.
    fn wait_for_interval(&mut self, key: Key) {
        // With early release and one batch at a time, the batch on its way lets the hold leave when it comes back.
        if self.hold.early_release && self.dispatch.max_in_flight == 1 {
            return;
        }
        let oldest = self.holds.get(&key).and_then(|hold| hold.shares.front());
        let deadline = oldest.map(|held| held.since.saturating_add(self.hold.interval));
        self.deadlines.extend(deadline.map(|deadline| Reverse((deadline, key))));
    }

    /// Queues a hold that may leave; says whether it is queued.
    fn queue_if_ready(&mut self, key: Key, now: Time) -> bool {
        let Some(hold) = self.holds.get_mut(&key) else { return false };
        if !hold.queued && hold.is_ready(&self.hold, &self.dispatch, now) {
            hold.queued = true;
            self.ready.insert(self.next_turn, Departure::Hold(key));
            self.next_turn = self.next_turn.saturating_add(1);
        }
        hold.queued
    }
}
