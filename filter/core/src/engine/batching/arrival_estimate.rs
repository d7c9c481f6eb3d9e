use crate::Time;

/// What a hold waits for when a batch has come back: the requests that use to arrive just then.
///
/// Clients that were answered send their next request at once. Without waiting for them a hold leaves with what the
/// others have sent meanwhile, and the two groups take turns for ever, in batches of half the size. How many come back
/// to this hold is counted each time, for as long as the hold would wait at most, whether it does or not.
#[derive(Debug, Default)]
pub struct ArrivalEstimate {
    /// How many arrive after a batch, smoothed, times [`SCALE`].
    usual: usize,
    /// How many have arrived after the last one, until `end`.
    arrived: usize,
    /// When the moment after the last one is over.
    end: Time,
    /// With so many requests the hold may leave before that.
    enough: usize,
}

const SCALE: usize = 16;

/// The part of `usual` that is not replaced by what was counted last is three quarters: a few batches tell of a change.
const MEMORY: usize = 4;

/// Not waited for, of the usual requests: the last of them take longest.
const STRAGGLERS: usize = 8;

impl ArrivalEstimate {
    /// A batch has come back, `held` requests are here already, and the rest is waited for until then at most.
    pub fn begin(&mut self, held: usize, until: Time) {
        let arrived = self.arrived.saturating_mul(SCALE);
        self.usual = (self.usual.saturating_mul(MEMORY - 1).saturating_add(arrived)) / MEMORY;
        let expected = self.usual.saturating_sub(self.usual / STRAGGLERS) / SCALE;
        // Where nobody is expected nobody waits, and nobody is woken at the end: also not for those who come next, should
        // the ones that are held leave and not come back.
        let enough = if expected == 0 { 0 } else { held.saturating_add(expected) };
        *self = Self { usual: self.usual, arrived: 0, end: until, enough };
    }

    /// A request has arrived.
    pub fn arrived(&mut self, now: Time) {
        if !self.is_over(now) {
            self.arrived = self.arrived.saturating_add(1);
        }
    }

    /// Whether a hold of so many requests need not wait, or not any more.
    pub fn is_enough(&self, held: usize, now: Time) -> bool {
        held >= self.enough || self.is_over(now)
    }

    /// Whether all requests have arrived that were expected.
    pub fn is_over(&self, now: Time) -> bool {
        self.end <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Time = Time::from_millis(2);

    /// What a hold waits for after several batches, in the moment after each of which as many requests arrive.
    fn after(batches: &[usize]) -> (ArrivalEstimate, Time) {
        let (mut arrival_estimate, mut now) = (ArrivalEstimate::default(), Time::from_secs(1));
        for arrivals in batches {
            arrival_estimate.begin(0, now + MOMENT);
            (0..*arrivals).for_each(|_| arrival_estimate.arrived(now + MOMENT / 2));
            // Too late to count.
            arrival_estimate.arrived(now + MOMENT);
            now += MOMENT * 2;
        }
        arrival_estimate.begin(5, now + MOMENT);
        (arrival_estimate, now)
    }

    #[test]
    fn a_hold_waits_for_as_many_as_usual_but_for_stragglers() {
        let (arrival_estimate, now) = after(&[80; 20]);
        assert!(!arrival_estimate.is_enough(5 + 60, now));
        assert!(arrival_estimate.is_enough(5 + 70, now));
    }

    #[test]
    fn nobody_is_waited_for_longer_than_a_moment() {
        let (arrival_estimate, now) = after(&[80; 20]);
        assert!(!arrival_estimate.is_enough(5, now + MOMENT - Time::from_nanos(1)));
        assert!(arrival_estimate.is_enough(5, now + MOMENT));
    }

    #[test]
    fn a_client_that_is_alone_never_waits() {
        let (arrival_estimate, now) = after(&[1; 100]);
        assert!(arrival_estimate.is_enough(5, now));
    }

    #[test]
    fn where_nobody_is_expected_who_comes_next_does_not_wait_either() {
        let (arrival_estimate, now) = after(&[]);
        assert!(arrival_estimate.is_enough(5, now) && arrival_estimate.is_enough(1, now));
    }

    #[test]
    fn who_does_not_come_back_is_not_waited_for_long() {
        let mut batches = vec![80; 20];
        batches.extend([0; 20]);
        let (arrival_estimate, now) = after(&batches);
        assert!(arrival_estimate.is_enough(5, now));
    }
}
