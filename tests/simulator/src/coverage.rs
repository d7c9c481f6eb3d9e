use std::collections::BTreeMap;

use bulk_reshuffle::engine::Step;

/// The number of times that each event happened, to show that the scenarios are realistic.
#[derive(Debug, Default, Clone)]
pub struct Coverage {
    counts: BTreeMap<String, u64>,
    /// The step with the most allocated bytes for each counted byte.
    pub largest_ratio: Step,
}

impl Coverage {
    pub fn count(&mut self, what: &str) {
        self.add(what, 1);
    }

    pub fn add(&mut self, what: &str, times: u64) {
        match self.counts.get_mut(what) {
            Some(count) => *count = count.saturating_add(times),
            None => {
                self.counts.insert(what.to_owned(), times);
            }
        }
    }

    pub fn merge(&mut self, other: &Self) {
        for (what, times) in &other.counts {
            self.add(what, *times);
        }
        self.step(other.largest_ratio);
    }

    /// Keeps the step with the most allocated bytes for each counted byte.
    pub fn step(&mut self, step: Step) {
        if step.ratio() > self.largest_ratio.ratio() {
            self.largest_ratio = step;
        }
    }

    pub fn of(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or_default()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(what, times)| (what.as_str(), *times))
    }
}
