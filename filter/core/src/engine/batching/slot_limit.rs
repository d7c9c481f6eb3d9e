use crate::Time;

/// The number of slots of an upstream, by additive increase and multiplicative decrease.
///
/// It begins low. It rises by one after as many quick batches as there are slots, while all slots are in use. It halves
/// when a batch is refused because the node is overloaded, or when a batch times out. Batches that were sent before that
/// do not halve it again, because they say nothing about the new number.
#[derive(Debug)]
pub struct SlotLimit {
    slots: usize,
    /// The number of quick batches since the last change.
    quick: usize,
    /// The time that batches take while all slots are in use, smoothed; `None` if none was answered.
    usual: Option<Time>,
    /// The time at which it halved last.
    halved: Option<Time>,
}

/// How a call with a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The node answered.
    Answered,
    /// The node refused some of the batch because it was overloaded, or did not answer in time.
    Overloaded,
    /// There was no answer for another reason, or it was a refusal.
    Failed,
}

/// The end of a batch.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// The time at which it was sent.
    pub sent: Time,
    /// The time at which it has ended.
    pub now: Time,
    /// How it has ended.
    pub ending: Ending,
}

/// A change of the number of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// There is one more.
    Raised,
    /// There are half as many.
    Halved,
}

/// The number of slots at the start.
pub const INITIAL_SLOTS: usize = 4;

/// A batch is quick if it takes at most this many times what batches usually take. Batches of different sizes differ by
/// less.
const QUICK_FACTOR: u32 = 2;

/// Each batch moves the usual time by this part of the difference.
const SMOOTHING_DIVISOR: u32 = 8;

impl Default for SlotLimit {
    fn default() -> Self {
        Self { slots: INITIAL_SLOTS, quick: 0, usual: None, halved: None }
    }
}

impl SlotLimit {
    /// Returns the number of slots, of which there may be `most`.
    pub fn slots(&self, most: usize) -> usize {
        self.slots.min(most)
    }

    /// Learns from a batch that has ended, while all slots were in use or not. Returns how the number of slots changes.
    pub fn learn(&mut self, end: End, is_full: bool, most: usize) -> Option<Change> {
        let End { sent, now, ending } = end;
        match ending {
            Ending::Answered if is_full => self.answered(now.saturating_sub(sent), most),
            Ending::Overloaded if self.halved.is_none_or(|halved| sent > halved) => {
                (self.slots, self.quick, self.halved) = ((self.slots(most) / 2).max(1), 0, Some(now));
                Some(Change::Halved)
            }
            Ending::Answered | Ending::Overloaded | Ending::Failed => None,
        }
    }

    /// Learns from a batch that took this long while all slots were in use.
    fn answered(&mut self, time: Time, most: usize) -> Option<Change> {
        let usual = *self.usual.get_or_insert(time);
        let rest = usual.saturating_sub(usual / SMOOTHING_DIVISOR);
        self.usual = Some(rest.saturating_add(time / SMOOTHING_DIVISOR));
        if self.slots >= most || time > usual.saturating_mul(QUICK_FACTOR) {
            return None;
        }
        self.quick = self.quick.saturating_add(1);
        if self.quick < self.slots {
            return None;
        }
        (self.slots, self.quick) = (self.slots.saturating_add(1), 0);
        Some(Change::Raised)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 16;

    fn millis(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    fn end(sent: u64, took: u64, ending: Ending) -> End {
        End { sent: millis(sent), now: millis(sent + took), ending }
    }

    /// Learns from batches that were all sent at `sent` and take this long.
    fn learn(limit: &mut SlotLimit, batches: usize, sent: u64, took: u64, ending: Ending) {
        for _ in 0..batches {
            limit.learn(end(sent, took, ending), true, MOST);
        }
    }

    #[test]
    fn slots_rise_by_one_after_as_many_quick_batches_as_there_are() {
        let mut limit = SlotLimit::default();
        assert_eq!(limit.slots(MOST), 4);
        learn(&mut limit, 3, 0, 10, Ending::Answered);
        assert_eq!(limit.slots(MOST), 4);
        learn(&mut limit, 1, 0, 10, Ending::Answered);
        assert_eq!(limit.slots(MOST), 5);
        learn(&mut limit, (5..16).sum(), 0, 10, Ending::Answered);
        assert_eq!(limit.slots(MOST), 16);
        learn(&mut limit, 100, 0, 10, Ending::Answered);
        assert_eq!(limit.slots(MOST), 16);
        assert_eq!(limit.slots(2), 2);
    }

    #[test]
    fn slots_stay_while_batches_are_slower_than_before_or_slots_are_free() {
        let mut limit = SlotLimit::default();
        learn(&mut limit, 3, 0, 10, Ending::Answered);
        learn(&mut limit, 1, 0, 21, Ending::Answered);
        assert_eq!(limit.slots(MOST), 4);
        for _ in 0..100 {
            limit.learn(end(0, 10, Ending::Answered), false, MOST);
        }
        learn(&mut limit, 100, 0, 10, Ending::Failed);
        assert_eq!(limit.slots(MOST), 4);
        learn(&mut limit, 1, 0, 10, Ending::Answered);
        assert_eq!(limit.slots(MOST), 5);
    }

    #[test]
    fn slots_halve_once_for_all_batches_that_were_in_flight_together() {
        let mut limit = SlotLimit::default();
        learn(&mut limit, (4..16).sum(), 0, 10, Ending::Answered);
        learn(&mut limit, 16, 10, 10, Ending::Overloaded);
        assert_eq!(limit.slots(MOST), 8);
        learn(&mut limit, 7, 21, 10, Ending::Answered);
        learn(&mut limit, 2, 21, 10, Ending::Overloaded);
        assert_eq!(limit.slots(MOST), 4);
        for sent in [40, 60, 80, 100] {
            learn(&mut limit, 3, sent, 10, Ending::Overloaded);
        }
        assert_eq!(limit.slots(MOST), 1);
        learn(&mut limit, 1, 120, 10, Ending::Answered);
        assert_eq!(limit.slots(MOST), 2);
        // A lower maximum counts from now on.
        let mut limit = SlotLimit { slots: 16, ..SlotLimit::default() };
        limit.learn(end(0, 1, Ending::Overloaded), true, 6);
        assert_eq!(limit.slots(MOST), 3);
    }
}
