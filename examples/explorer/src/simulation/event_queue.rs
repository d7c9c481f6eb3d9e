use std::collections::BTreeMap;

/// A queue of events by their time in microseconds. Events at the same time keep the order in which they were added.
#[derive(Debug)]
pub struct EventQueue<E> {
    events: BTreeMap<(u64, u64), E>,
    added: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { events: BTreeMap::new(), added: 0 }
    }
}

impl<E> EventQueue<E> {
    /// Adds an event at a time.
    pub fn add(&mut self, at: u64, event: E) {
        self.events.insert((at, self.added), event);
        self.added = self.added.saturating_add(1);
    }

    /// Removes and returns the next event, with its time.
    pub fn next(&mut self) -> Option<(u64, E)> {
        self.events.pop_first().map(|((at, _), event)| (at, event))
    }
}
