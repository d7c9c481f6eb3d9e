use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// What is going to happen, and at which microsecond. What happens at the same time happens in the order in which it was
/// planned.
#[derive(Debug)]
pub struct Agenda<E> {
    times: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, E>,
    planned: u64,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self { times: BinaryHeap::new(), events: BTreeMap::new(), planned: 0 }
    }
}

impl<E> Agenda<E> {
    /// Something is going to happen at this time.
    pub fn add(&mut self, at: u64, event: E) {
        self.times.push(Reverse((at, self.planned)));
        self.events.insert(self.planned, event);
        self.planned = self.planned.saturating_add(1);
    }

    /// What happens next, and when.
    pub fn next(&mut self) -> Option<(u64, E)> {
        let Reverse((at, number)) = self.times.pop()?;
        Some((at, self.events.remove(&number)?))
    }
}
