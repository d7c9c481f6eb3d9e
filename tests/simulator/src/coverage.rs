use std::collections::BTreeMap;

/// How often each thing happened, so that one sees that the scenarios are real.
#[derive(Debug, Default, Clone)]
pub struct Coverage(BTreeMap<String, u64>);

impl Coverage {
    /// It happened once more.
    pub fn count(&mut self, what: &str) {
        self.add(what, 1);
    }

    /// It happened so many times more.
    pub fn add(&mut self, what: &str, times: u64) {
        match self.0.get_mut(what) {
            Some(count) => *count = count.saturating_add(times),
            None => {
                self.0.insert(what.to_owned(), times);
            }
        }
    }

    /// Takes over what another run saw.
    pub fn merge(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            self.add(what, *times);
        }
    }

    /// How often it happened.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }

    /// All that happened, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(what, times)| (what.as_str(), *times))
    }
}
