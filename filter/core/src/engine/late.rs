//! Keeps what is held from waiting for batches that are out for much longer than usual.

use super::batching::Key;
use super::calls::Calls;
use super::metrics::Counter;
use super::settlement::Settlement;
use crate::invariant::found;

/// The part of `hold.late_after` that passes between two checks for late batches.
const CHECKS_PER_LATE_AFTER: u32 = 16;

/// Suspects the shards of the batches that have become late. What is held for them moves to holds of their own, and what
/// is held for others no longer waits for these batches.
pub fn keep_apart(calls: &mut Calls, settlement: &mut Settlement<'_>) {
    if calls.check.is_none_or(|check| check > settlement.now) {
        return;
    }
    let earliest = settlement.now.saturating_add(settlement.config.hold.late_after / CHECKS_PER_LATE_AFTER);
    let late = calls.late(settlement.now, earliest, |batch| settlement.holds.late_at(batch));
    let before = settlement.holds.apart();
    let mut released: Vec<Key> = Vec::new();
    for call in late {
        let Some(batch) = found(calls.batch_mut(call), "a late batch is in flight") else { continue };
        let upstream = batch.upstream;
        released.extend(settlement.holds.late(batch));
        settlement.count(Counter::BatchesLate(upstream), 1);
    }
    if settlement.holds.apart() != before {
        let requests = &*settlement.requests;
        let moved = settlement.holds.keep_apart(settlement.now, |id| requests.contains(id));
        moved.into_iter().for_each(|moved| settlement.requests.moved(moved));
    }
    released.into_iter().for_each(|key| settlement.release(Some(key)));
}
