use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::dice::Dice;
use crate::ledger::CallKey;

/// What is going to happen, and when. What happens in the same millisecond happens in any order.
#[derive(Debug, Default)]
pub struct Agenda {
    times: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: BTreeMap<usize, Event>,
    next: usize,
}

/// What happens to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A request's headers arrive.
    Head(usize),
    /// The next piece of its body arrives.
    Body(usize),
    /// Its client leaves.
    Leave(usize),
    /// A batch arrives at its node.
    Arrive(CallKey),
    /// A call with a batch comes back.
    Return(CallKey),
    /// A question comes back.
    Answer(CallKey),
    /// An engine is woken.
    Wake(usize),
    /// The timer of an engine runs out, if it is still this one.
    Tick(usize, u64),
    /// The cluster changes.
    Change,
    /// Something changes for an engine.
    Disturb(usize),
    /// A new engine takes over.
    TakeOver,
    /// Another worker begins to ask the cluster, and stops for good after so many answers.
    Die(usize),
}

impl Event {
    /// Whether something happens to a request.
    pub fn is_of_a_request(self) -> bool {
        matches!(self, Self::Head(_) | Self::Body(_) | Self::Leave(_) | Self::Arrive(_) | Self::Return(_))
    }
}

impl Agenda {
    /// Something is going to happen at this time.
    pub fn add(&mut self, at: u64, event: Event, dice: &mut Dice) {
        // Events of one request or call never overtake one another, as each is planned by the one before.
        self.times.push(Reverse((at, dice.up_to(u64::MAX - 1), self.next)));
        self.events.insert(self.next, event);
        self.next = self.next.wrapping_add(1);
    }

    /// What happens next.
    pub fn next(&mut self) -> Option<(u64, Event)> {
        let Reverse((at, _, number)) = self.times.pop()?;
        Some((at, self.events.remove(&number)?))
    }
}
