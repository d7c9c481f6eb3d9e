use std::collections::VecDeque;

use super::arrival_estimate::ArrivalEstimate;
use super::queue::{ReadyQueue, Ticket};
use super::{HeldShare, Key, Waiting};
use crate::Time;
use crate::config::Dispatch;
use crate::config::Hold as HoldConfig;
use crate::engine::command::RequestId;
use crate::engine::head::SlotClass;
use crate::invariant::Count;

/// The number of shares for which a hold keeps memory even if it is unused.
const KEPT_SHARES: usize = 256;

/// The number of shares of requests that are gone which may stay in a hold. More may stay if they are at most half of
/// the shares.
const MAX_GONE_SHARES: usize = 4;

/// The shares of one caller that wait for one destination.
#[derive(Debug)]
pub struct Hold {
    /// The slots that its batches take.
    pub class: SlotClass,
    /// The shares, oldest first. Some may belong to requests that are gone.
    pub shares: VecDeque<HeldShare>,
    bytes: u64,
    operations: u64,
    /// The number of its batches in flight.
    pub in_flight: usize,
    /// Its ticket, if it is queued to leave.
    pub queued: Option<Ticket>,
    /// The end of the interval of its oldest share, if a deadline is set for it.
    pub interval_end: Option<Time>,
    /// The number of shares whose requests are gone.
    gone: usize,
    /// The estimate of the requests for which it waits.
    pub arrival_estimate: ArrivalEstimate,
}

impl Hold {
    /// Creates an empty hold.
    pub fn new(class: SlotClass) -> Self {
        Self {
            class,
            shares: VecDeque::new(),
            bytes: 0,
            operations: 0,
            in_flight: 0,
            queued: None,
            interval_end: None,
            gone: 0,
            arrival_estimate: ArrivalEstimate::default(),
        }
    }

    /// Returns whether nothing is held, queued or in flight.
    pub fn is_empty(&self) -> bool {
        self.shares.is_empty() && self.in_flight == 0 && self.queued.is_none()
    }

    /// Returns whether it is empty, and no requests are expected soon.
    pub fn is_over(&self, now: Time) -> bool {
        self.is_empty() && self.arrival_estimate.is_over(now)
    }

    /// Returns the amounts that wait.
    pub fn waiting(&self) -> Waiting {
        Waiting { requests: self.shares.len() as u64, operations: self.operations, bytes: self.bytes }
    }

    /// Appends a share.
    pub fn push(&mut self, held: HeldShare) {
        self.bytes = self.bytes.plus(held.bytes, "memory bounds what is held");
        self.operations = self.operations.plus(held.operations, "memory bounds what is held");
        self.shares.push_back(held);
    }

    /// Takes out the shares that `is_wanted` selects, which are of requests that still exist.
    pub fn take_out(&mut self, is_wanted: impl Fn(&HeldShare) -> bool) -> Vec<HeldShare> {
        let (mut wanted, mut rest) = (Vec::new(), VecDeque::new());
        for held in std::mem::take(&mut self.shares) {
            match is_wanted(&held) {
                true => wanted.push(held),
                false => rest.push_back(held),
            }
        }
        self.shares = rest;
        self.count_out(wanted.iter().map(|held| held.bytes).sum(), wanted.iter().map(|held| held.operations).sum());
        wanted
    }

    /// Discounts shares of a request that is gone. Returns whether any other shares are left.
    ///
    /// Such shares are dropped together once there are many, because searching for each would take long. All shares of
    /// the request are discounted at once: `is_here` denies all of them when they are dropped.
    pub fn forget(&mut self, gone: Waiting, is_here: impl Fn(RequestId) -> bool) -> bool {
        self.count_out(gone.bytes, gone.operations);
        self.gone = self.gone.plus(gone.requests as usize, "every share that is gone is in the hold");
        self.drop_gone(is_here)
    }

    /// Drops the shares of requests that are gone, if there are many. Returns whether any other shares are left.
    pub fn drop_gone(&mut self, is_here: impl Fn(RequestId) -> bool) -> bool {
        if self.gone >= self.shares.len() || self.gone > MAX_GONE_SHARES.max(self.shares.len() / 2) {
            let before = self.shares.len();
            self.shares.retain(|held| is_here(held.request));
            debug_assert_eq!(before, self.shares.len() + self.gone, "only shares that are gone are dropped");
            self.gone = 0;
            self.shrink();
        }
        !self.shares.is_empty()
    }

    fn count_out(&mut self, bytes: u64, operations: u64) {
        self.bytes = self.bytes.minus(bytes, "what leaves was held");
        self.operations = self.operations.minus(operations, "what leaves was held");
    }

    /// Frees memory if far fewer shares are held than before.
    fn shrink(&mut self) {
        if self.shares.capacity() > KEPT_SHARES && self.shares.len() < self.shares.capacity() / 4 {
            self.shares.shrink_to(self.shares.len().saturating_mul(2));
        }
    }

    /// Takes all shares out. The hold is no longer queued.
    pub fn empty(&mut self) -> VecDeque<HeldShare> {
        (self.bytes, self.operations, self.queued, self.gone) = (0, 0, None, 0);
        std::mem::take(&mut self.shares)
    }

    /// Takes out the shares for one batch: at least one, and more up to the thresholds and as long as the answer has
    /// room for them.
    pub fn take(
        &mut self,
        config: &HoldConfig,
        max_answer: u64,
        is_here: impl Fn(RequestId) -> bool,
    ) -> Vec<HeldShare> {
        let (mut shares, mut bytes, mut operations, mut answer) = (Vec::new(), 0_u64, 0_u64, 0_u64);
        while let Some(held) = self.shares.front() {
            if !is_here(held.request) {
                self.shares.pop_front();
                self.gone = self.gone.minus(1, "a share without a request was counted as gone");
                continue;
            }
            let (more_bytes, more_operations) =
                (bytes.saturating_add(held.bytes), operations.saturating_add(held.operations));
            let longer_answer = answer.saturating_add(held.answer);
            let fits = more_bytes <= config.flush_threshold_size
                && longer_answer <= max_answer
                && (config.flush_threshold_docs == 0 || more_operations <= config.flush_threshold_docs);
            if !shares.is_empty() && !fits {
                break;
            }
            (bytes, operations, answer) = (more_bytes, more_operations, longer_answer);
            shares.extend(self.shares.pop_front());
        }
        self.shrink();
        self.count_out(bytes, operations);
        shares
    }

    /// Queues the hold, whose key this is, if a batch may leave. Returns whether it is queued.
    pub fn queue_if_ready(
        &mut self,
        key: Key,
        queue: &mut ReadyQueue,
        rules: (&HoldConfig, &Dispatch),
        now: Time,
    ) -> bool {
        if self.queued.is_none() && self.is_ready(rules.0, rules.1, now) {
            self.queued = Some(queue.push(key, self.class));
        }
        self.queued.is_some()
    }

    /// Settles one of its batches, and queues the hold if the next one may leave. Returns whether the hold is over.
    pub fn settle(&mut self, key: Key, queue: &mut ReadyQueue, rules: (&HoldConfig, &Dispatch), now: Time) -> bool {
        self.in_flight = self.in_flight.minus(1, "a batch of the hold is in flight");
        !self.queue_if_ready(key, queue, rules, now) && self.is_over(now)
    }

    /// Returns the time since which the oldest share is held.
    pub fn since(&self) -> Option<Time> {
        self.shares.front().map(|held| held.since)
    }

    /// Returns whether a batch may leave now.
    pub fn is_ready(&self, hold: &HoldConfig, dispatch: &Dispatch, now: Time) -> bool {
        let Some(oldest) = self.shares.front() else { return false };
        let idle = hold.early_release && self.in_flight == 0 && self.arrival_estimate.is_enough(self.shares.len(), now);
        let large = self.bytes >= hold.flush_threshold_size
            || (hold.flush_threshold_docs > 0 && self.operations >= hold.flush_threshold_docs);
        let due = oldest.since.saturating_add(hold.interval) <= now;
        self.in_flight < dispatch.max_in_flight && (idle || large || due)
    }
}
