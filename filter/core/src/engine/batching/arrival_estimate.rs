use crate::Time;
use crate::config::Hold as HoldConfig;

/// An estimate of the requests that arrive at a hold just after a batch is completed.
///
/// Clients that were answered send their next request at once. If the hold did not wait for them, it would leave with
/// the requests of the other clients, and the two groups would alternate forever, in batches of half the size. The
/// estimate counts the requests that arrive after each batch, during the longest possible wait, whether or not the hold
/// waits.
#[derive(Debug, Default)]
pub struct ArrivalEstimate {
    /// The smoothed number of requests that arrive after a batch, times [`SCALE`].
    usual: usize,
    /// The number of requests that have arrived after the last batch, until `end`.
    arrived: usize,
    /// The end of the wait after the last batch.
    end: Time,
    /// The number of held requests with which the hold may leave earlier.
    enough: usize,
}

const SCALE: usize = 16;

/// The smoothing factor: each count replaces a quarter of `usual`, so that the estimate adapts within a few batches.
const SMOOTHING: usize = 4;

/// One in this many of the usual requests is not waited for, because the last of them take longest.
const STRAGGLER_DIVISOR: usize = 8;

/// The divisor of a batch's time that gives the longest wait after it, unless the configured wait is longer. Compared
/// with 2 ms, nodes that share one processor use 0.92 to 0.95 times the processor time for a document, and the 99th
/// percentile of the latency of 256 clients with single documents is 0.78 times as high (0.59 to 0.82). With a wait of
/// half a batch's time, nodes become idle.
const WAIT_DIVISOR: u32 = 4;

/// Returns the longest wait after a batch that took this long.
pub fn longest_wait(config: &HoldConfig, took: Time) -> Time {
    if config.gather.is_zero() {
        return Time::ZERO;
    }
    config.gather.max(took / WAIT_DIVISOR).min(took).min(config.interval)
}

impl ArrivalEstimate {
    /// Begins a wait after a batch, until `until` at most, with `held` requests already held.
    pub fn begin(&mut self, held: usize, until: Time) {
        let arrived = self.arrived.saturating_mul(SCALE);
        self.usual = (self.usual.saturating_mul(SMOOTHING - 1).saturating_add(arrived)) / SMOOTHING;
        let expected = self.usual.saturating_sub(self.usual / STRAGGLER_DIVISOR) / SCALE;
        // If no request is expected, no request waits, and no timer is needed at the end. This also applies to later
        // requests, should the held ones leave and their clients not return.
        let enough = if expected == 0 { 0 } else { held.saturating_add(expected) };
        *self = Self { usual: self.usual, arrived: 0, end: until, enough };
    }

    /// Counts a request that has arrived.
    pub fn arrived(&mut self, now: Time) {
        if !self.is_over(now) {
            self.arrived = self.arrived.saturating_add(1);
        }
    }

    /// Returns whether a hold with this number of requests need not wait any longer.
    pub fn is_enough(&self, held: usize, now: Time) -> bool {
        held >= self.enough || self.is_over(now)
    }

    /// Returns whether the wait is over.
    pub fn is_over(&self, now: Time) -> bool {
        self.end <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Time = Time::from_millis(2);

    /// Returns the estimate after several batches, each followed by the given number of arrivals.
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
    fn the_wait_is_in_proportion_to_the_time_of_a_slow_batch() {
        let wait = |gather, took| {
            let config = HoldConfig { gather: Time::from_millis(gather), ..HoldConfig::default() };
            longest_wait(&config, Time::from_millis(took)).as_millis()
        };
        assert_eq!([0, 1, 2, 8, 40, 200, 10_000].map(|took| wait(2, took)), [0, 1, 2, 2, 10, 50, 50]);
        assert_eq!([0, 1, 40, 10_000].map(|took| wait(20, took)), [0, 1, 20, 50]);
        assert_eq!([0, 40, 10_000].map(|took| wait(0, took)), [0; 3]);
    }

    #[test]
    fn a_hold_waits_a_moment_for_the_requests_that_usually_arrive() {
        let (usual, none) = (vec![80; 20], vec![0; 20]);
        for (name, batches, requests, later, is_enough) in [
            ("some are missing", usual.clone(), 5 + 60, Time::ZERO, false),
            ("only stragglers are missing", usual.clone(), 5 + 70, Time::ZERO, true),
            ("the moment is not over", usual.clone(), 5, MOMENT - Time::from_nanos(1), false),
            ("the moment is over", usual.clone(), 5, MOMENT, true),
            ("a lone client never waits", vec![1; 100], 5, Time::ZERO, true),
            ("none is expected", Vec::new(), 5, Time::ZERO, true),
            ("none is expected, and fewer are there", Vec::new(), 1, Time::ZERO, true),
            ("clients do not return", [usual, none].concat(), 5, Time::ZERO, true),
        ] {
            let (arrival_estimate, now) = after(&batches);
            assert_eq!(arrival_estimate.is_enough(requests, now + later), is_enough, "{name}");
        }
    }
}
