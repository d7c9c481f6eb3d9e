use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A queue of events by their time in microseconds. Events at the same time keep the order in which they were added.
#[derive(Debug)]
pub struct EventQueue<E> {
    times: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, E>,
    added: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { times: BinaryHeap::new(), events: BTreeMap::new(), added: 0 }
    }
}

impl<E> EventQueue<E> {
    /// Adds an event at a time.
    pub fn add(&mut self, at: u64, event: E) {
        self.times.push(Reverse((at, self.added)));
        self.events.insert(self.added, event);
        self.added = self.added.saturating_add(1);
    }

    /// Removes and returns the next event, with its time.
    pub fn next(&mut self) -> Option<(u64, E)> {
        let Reverse((at, number)) = self.times.pop()?;
        Some((at, self.events.remove(&number)?))
    }
}
