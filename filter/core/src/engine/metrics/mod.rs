//! Metrics for operators.
//!
//! Events are collected here and published together, because each metric that changes costs a call to Envoy: at once
//! while no request is pending, otherwise ten times a second.

#[macro_use]
mod metric;

mod counter;
mod family;
mod gauge;

use std::time::Duration;

use hashbrown::HashMap;

use crate::Time;

pub use counter::Counter;
pub use family::{Families, Family, Kind, Label, Workers};
pub use gauge::Gauge;

metrics! {
    /// A metric with a distribution of values.
    Histogram;
    /// Microseconds that the first request of a batch was held.
    HoldMicroseconds = HOLD_MICROSECONDS;
    /// Microseconds from sending a batch to its answer.
    UpstreamMicroseconds = UPSTREAM_MICROSECONDS;
    /// Requests with operations in a batch.
    BatchRequests = BATCH_REQUESTS;
    /// Operations in a batch.
    BatchOperations = BATCH_OPERATIONS;
    /// Bytes of a batch's body.
    BatchBytes = BATCH_BYTES;
    /// Microseconds that one step of work on the cluster state took.
    StateStepMicroseconds = STATE_STEP;
}

/// The interval at which events are published while requests are pending.
const INTERVAL: Duration = Duration::from_millis(100);

/// The number of histogram values that are published without waiting for the interval.
const MAX_SAMPLES: usize = 1000;

/// The metric events since the last call of [`Engine::take_events`](crate::engine::Engine::take_events).
#[derive(Debug, Default)]
pub struct MetricEvents {
    /// The increase of each counter.
    pub counts: HashMap<Counter, u64>,
    /// The new values of histograms.
    pub samples: Vec<(Histogram, u64)>,
}

/// The metric events that are not published yet.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    events: MetricEvents,
    /// Whether there is anything to publish, including gauges that may have changed.
    is_new: bool,
    last: Time,
}

impl Metrics {
    /// Notes that gauges may have changed.
    pub fn touch(&mut self) {
        self.is_new = true;
    }

    /// Increases a counter.
    pub fn count(&mut self, counter: Counter, by: u64) {
        self.is_new = true;
        let count = self.events.counts.entry(counter).or_default();
        *count = count.saturating_add(by);
    }

    /// Adds a value to a histogram.
    pub fn sample(&mut self, histogram: Histogram, value: u64) {
        self.is_new = true;
        self.events.samples.push((histogram, value));
    }

    /// Returns when the events are to be published while requests are pending.
    pub fn due(&self) -> Option<Time> {
        let due = if self.events.samples.len() < MAX_SAMPLES { self.last.saturating_add(INTERVAL) } else { self.last };
        self.is_new.then_some(due)
    }

    /// Moves all events into `into`, whose memory is reused.
    pub fn take(&mut self, into: &mut MetricEvents, now: Time) {
        (self.is_new, self.last) = (false, now);
        into.counts.clear();
        into.samples.clear();
        std::mem::swap(&mut self.events, into);
    }
}

/// Converts a duration to microseconds, the unit of the metrics.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
