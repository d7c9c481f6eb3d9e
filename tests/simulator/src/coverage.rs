use std::collections::BTreeMap;

use bulk_reshuffle::engine::Step;

/// How often each thing happened, so that one sees that the scenarios are real.
#[derive(Debug, Default, Clone)]
pub struct Coverage {
    counts: BTreeMap<String, u64>,
    /// The step at which most was allocated for each byte counted.
    pub largest_ratio: Step,
}

impl Coverage {
    /// It happened once more.
    pub fn count(&mut self, what: &str) {
        self.add(what, 1);
    }

    /// It happened so many times more.
    pub fn add(&mut self, what: &str, times: u64) {
        match self.counts.get_mut(what) {
            Some(count) => *count = count.saturating_add(times),
            None => {
                self.counts.insert(what.to_owned(), times);
            }
        }
    }

    /// Takes over what another run saw.
    pub fn merge(&mut self, other: &Self) {
        for (what, times) in &other.counts {
            self.add(what, *times);
        }
        self.step(other.largest_ratio);
    }

    /// Keeps the step at which most was allocated for each byte counted.
    pub fn step(&mut self, step: Step) {
        if step.ratio() > self.largest_ratio.ratio() {
            self.largest_ratio = step;
        }
    }

    /// How often it happened.
    pub fn of(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or_default()
    }

    /// All that happened, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(what, times)| (what.as_str(), *times))
    }
}
