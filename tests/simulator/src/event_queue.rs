use std::collections::BTreeMap;

use crate::ledger::CallKey;
use crate::rng::Rng;

/// The future events and their times. Events of the same millisecond happen in random order.
#[derive(Debug, Default)]
pub struct EventQueue {
    /// The events by their time, a random number and their own number.
    events: BTreeMap<(u64, u64, usize), Event>,
    next: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A request's headers arrive.
    Head(usize),
    /// The next piece of a request's body arrives.
    Body(usize),
    /// A request's client leaves.
    Leave(usize),
    /// A batch arrives at its node.
    Arrive(CallKey),
    /// A call with a batch returns.
    Return(CallKey),
    /// A query returns.
    Answer(CallKey),
    Wake(usize),
    /// The timer of an engine fires, unless it has been replaced.
    Tick(usize, u64),
    Change,
    /// A disturbance happens to an engine.
    Disturb(usize),
    /// A new engine takes over.
    TakeOver,
    /// Another worker begins to poll the cluster, and stops for good after this many answers.
    Die(usize),
}

impl Event {
    pub fn is_of_a_request(self) -> bool {
        matches!(self, Self::Head(_) | Self::Body(_) | Self::Leave(_) | Self::Arrive(_) | Self::Return(_))
    }
}

impl EventQueue {
    pub fn add(&mut self, at: u64, event: Event, rng: &mut Rng) {
        // Events of one request or call keep their order, because each one schedules the next.
        self.events.insert((at, rng.up_to(u64::MAX - 1), self.next), event);
        self.next += 1;
    }

    pub fn next(&mut self) -> Option<(u64, Event)> {
        self.events.pop_first().map(|((at, ..), event)| (at, event))
    }
}
