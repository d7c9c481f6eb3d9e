//! What operators see in numbers.
//!
//! What happens is noted here as it happens, and handed out together: at once while nothing is under way, else ten times
//! a second, for each number that is moved is a call to Envoy.

mod counter;
mod family;
mod gauge;
mod histogram;

use std::time::Duration;

use hashbrown::HashMap;

use crate::Time;

pub use counter::{Counter, RetryCause};
pub use family::{Families, Family, Kind, Label, Workers};
pub use gauge::Gauge;
pub use histogram::Histogram;

/// From one time that numbers are handed out to the next, while something is under way.
const INTERVAL: Duration = Duration::from_millis(100);

/// So many values of histograms are handed out at once, however soon that is.
const MANY: usize = 1000;

/// What has happened since the last time.
#[derive(Debug, Default)]
pub struct Happened {
    /// By how much each counter has grown.
    pub counts: HashMap<Counter, u64>,
    /// Values for histograms.
    pub samples: Vec<(Histogram, u64)>,
}

/// What has happened, until it is handed out.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    happened: Happened,
    /// Whether something is new, if only that something is held or on its way.
    is_new: bool,
    last: Time,
}

impl Metrics {
    /// Something may be held or on its way that was not.
    pub fn touch(&mut self) {
        self.is_new = true;
    }

    /// Counts.
    pub fn count(&mut self, counter: Counter, by: u64) {
        self.is_new = true;
        let count = self.happened.counts.entry(counter).or_default();
        *count = count.saturating_add(by);
    }

    /// Notes a value for a histogram.
    pub fn sample(&mut self, histogram: Histogram, value: u64) {
        self.is_new = true;
        self.happened.samples.push((histogram, value));
    }

    /// When this is to be handed out, while something is under way.
    pub fn due(&self) -> Option<Time> {
        let due = if self.happened.samples.len() < MANY { self.last.saturating_add(INTERVAL) } else { self.last };
        self.is_new.then_some(due)
    }

    /// All of it, in place of what was taken before, whose memory is used again.
    pub fn take(&mut self, into: &mut Happened, now: Time) {
        (self.is_new, self.last) = (false, now);
        into.counts.clear();
        into.samples.clear();
        std::mem::swap(&mut self.happened, into);
    }
}

/// A duration in the unit that metrics have.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A metric's name with its labels, which Envoy's `stats_tags` take out of it again. Each label in the family's order.
fn metric_name(family: &Family, labels: &[(Label, String)]) -> String {
    labels.iter().fold(family.name.to_owned(), |name, (label, value)| format!("{name}.{}.{value}", label.name()))
}
