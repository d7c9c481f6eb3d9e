use std::collections::VecDeque;

use super::gathering::Gathering;
use super::{Held, Waiting};
use crate::Time;
use crate::config::{Dispatch, Hold as HoldConfig};
use crate::engine::RequestId;

/// What waits for one destination, of one caller.
#[derive(Debug, Default)]
pub struct Hold {
    /// The oldest first. Some may be of requests that have gone.
    pub shares: VecDeque<Held>,
    bytes: u64,
    operations: u64,
    /// Batches that left it and are on their way.
    pub in_flight: usize,
    /// Whether it is queued to leave.
    pub queued: bool,
    /// Whom it waits for.
    pub gathering: Gathering,
}

impl Hold {
    /// Whether nothing is held and nothing on its way.
    pub fn is_empty(&self) -> bool {
        self.shares.is_empty() && self.in_flight == 0 && !self.queued
    }

    /// How much waits.
    pub fn waiting(&self) -> Waiting {
        Waiting { requests: self.shares.len() as u64, operations: self.operations, bytes: self.bytes }
    }

    /// Takes a share in, behind the others.
    pub fn push(&mut self, held: Held) {
        self.bytes = self.bytes.saturating_add(held.bytes);
        self.operations = self.operations.saturating_add(held.operations);
        self.shares.push_back(held);
    }

    /// So much of what is held will not be sent.
    pub fn forget(&mut self, bytes: u64, operations: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.operations = self.operations.saturating_sub(operations);
    }

    /// Takes everything out; it is not queued any more.
    pub fn empty(&mut self) -> VecDeque<Held> {
        (self.bytes, self.operations, self.queued) = (0, 0, false);
        std::mem::take(&mut self.shares)
    }

    /// Takes out what leaves in one batch: at least one share, and further ones up to the thresholds.
    pub fn take(&mut self, config: &HoldConfig, is_here: impl Fn(RequestId) -> bool) -> Vec<Held> {
        let (mut shares, mut bytes, mut operations) = (Vec::new(), 0_u64, 0_u64);
        while let Some(held) = self.shares.front() {
            if !is_here(held.request) {
                self.shares.pop_front();
                continue;
            }
            let (more_bytes, more_operations) =
                (bytes.saturating_add(held.bytes), operations.saturating_add(held.operations));
            let fits = more_bytes <= config.flush_threshold_size
                && (config.flush_threshold_docs == 0 || more_operations <= config.flush_threshold_docs);
            if !shares.is_empty() && !fits {
                break;
            }
            (bytes, operations) = (more_bytes, more_operations);
            shares.extend(self.shares.pop_front());
        }
        self.forget(bytes, operations);
        shares
    }

    /// Whether a batch may leave it now.
    pub fn is_ready(&self, hold: &HoldConfig, dispatch: &Dispatch, now: Time) -> bool {
        let Some(oldest) = self.shares.front() else { return false };
        let idle = hold.early_release && self.in_flight == 0 && self.gathering.is_enough(self.shares.len(), now);
        let large = self.bytes >= hold.flush_threshold_size
            || (hold.flush_threshold_docs > 0 && self.operations >= hold.flush_threshold_docs);
        let due = oldest.since.saturating_add(hold.interval) <= now;
        self.in_flight < dispatch.max_in_flight && (idle || large || due)
    }
}
