//! Keeps what is held from waiting for batches that are out for much longer than usual.

use crate::engine::Engine;
use crate::engine::batching::{Key, Moved};
use crate::engine::metrics::Counter;

/// The part of `hold.late_after` that passes between two checks for late batches.
const CHECKS: u32 = 16;

impl Engine {
    /// Suspects the shards of the batches that have become late. What is held for them moves to holds of their own, and
    /// what is held for others no longer waits for these batches.
    pub(crate) fn keep_late_apart(&mut self) {
        if self.calls.check().is_none_or(|check| check > self.now) {
            return;
        }
        let earliest = self.now.saturating_add(self.settings.current.hold.late_after / CHECKS);
        let late = self.calls.late(self.now, earliest, |batch| self.holds.late_at(batch));
        let before = self.holds.apart();
        let mut released: Vec<Key> = Vec::new();
        for call in late {
            let Some(batch) = self.calls.batch_mut(call) else { continue };
            let upstream = batch.upstream;
            released.extend(self.holds.late(batch));
            self.count(Counter::BatchesLate(upstream), 1);
        }
        if self.holds.apart() != before {
            let requests = &self.requests;
            for Moved { request, share, destination } in
                self.holds.keep_apart(self.now, |id| requests.contains_key(&id))
            {
                let share = self.requests.get_mut(&request).and_then(|found| found.shares.get_mut(usize::from(share)));
                share.into_iter().for_each(|share| share.destination = destination);
            }
        }
        released.into_iter().for_each(|key| self.release(Some(key)));
    }
}
