use std::cmp::Reverse;

use super::outcome::{ItemNumbers, NodeAnswer, Outcome};
use crate::Time;
use crate::engine::batching::{Destination, HeldShare, Key, Positions, Shards};

/// The operations of a request for one destination.
///
/// A share is sent in one batch, unless the answer would be too large to read. Then it is sent in parts, one after the
/// other.
#[derive(Debug)]
pub struct Share {
    /// Its destination.
    pub destination: Destination,
    /// The positions of its operations in the request.
    pub operations: Vec<u32>,
    /// The shards to which they belong.
    pub shards: Shards,
    /// Bytes of their lines.
    pub bytes: u64,
    /// The recorded outcomes of its operations, part by part. The last outcome of an operation counts.
    pub outcomes: Vec<Recorded>,
    /// The position at which the next part begins.
    pub next: u32,
}

/// The outcome of some operations of a share.
#[derive(Debug)]
pub struct Recorded {
    /// Some operations of one part.
    pub selection: Positions,
    /// Their outcome.
    pub outcome: Outcome,
    /// The position at which that part begins.
    part: u32,
}

impl Share {
    /// The approximate number of bytes that a share uses while it is held and with its outcome, without its operations.
    pub const MEMORY: usize = size_of::<Self>()
        + 2 * size_of::<(Destination, u16)>()
        + 2 * size_of::<(Key, HeldShare)>()
        + size_of::<Reverse<(Time, Key)>>()
        + size_of::<Recorded>()
        + 4 * size_of::<u32>();

    /// Creates a share without operations.
    pub fn new(destination: Destination) -> Self {
        Self { destination, operations: Vec::new(), shards: Shards::NONE, bytes: 0, outcomes: Vec::new(), next: 0 }
    }

    /// Adds the operation at this position of the request, with this many bytes.
    pub fn push(&mut self, position: u32, bytes: u64) {
        self.operations.push(position);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Returns the positions of the selected operations in the request.
    pub fn positions<'a>(&'a self, selection: &'a Positions) -> impl Iterator<Item = u32> + 'a {
        selection
            .positions(self.operations.len())
            .filter_map(|position| self.operations.get(position as usize).copied())
    }

    /// Records the outcome of some operations of the part that was held last.
    pub fn record(&mut self, selection: Positions, outcome: Outcome) {
        let part = match &selection {
            Positions::All => 0,
            Positions::Part(positions) => positions.start,
            Positions::List(_) => self.outcomes.last().map_or(0, |last| last.part),
        };
        // Most shares have a single outcome.
        if self.outcomes.is_empty() {
            self.outcomes.reserve_exact(1);
        }
        self.outcomes.push(Recorded { selection, outcome, part });
    }

    /// Returns the answer with the items of all operations, and the number of the first item, if the items are
    /// consecutive.
    pub fn row(&self) -> Option<(&NodeAnswer, usize)> {
        match self.outcomes.as_slice() {
            [
                Recorded {
                    selection: Positions::All,
                    outcome: Outcome::Items { answer, items: ItemNumbers::From(first) },
                    ..
                },
            ] => Some((answer, *first)),
            _ => None,
        }
    }

    /// Returns the last outcome of the operation at a position, and the operation's number in the selection of that
    /// outcome.
    pub fn outcome(&self, position: u32) -> Option<(usize, &Outcome)> {
        // Most shares have a single outcome, for all operations.
        if let [Recorded { selection: Positions::All, outcome, .. }] = self.outcomes.as_slice() {
            return Some((position as usize, outcome));
        }
        let end = self.outcomes.partition_point(|recorded| recorded.part <= position);
        let recorded = self.outcomes.get(..end)?.iter().rev();
        let mut found = recorded.filter_map(|recorded| Some((recorded.selection.number(position)?, &recorded.outcome)));
        found.next()
    }

    /// Takes the last outcome of the first part.
    pub fn take_first(&mut self) -> Option<Outcome> {
        let first = self.outcomes.first()?.part;
        let end = self.outcomes.partition_point(|recorded| recorded.part == first);
        Some(self.outcomes.swap_remove(end.checked_sub(1)?).outcome)
    }

    /// Returns the last outcome of each part; `None` for a part whose last outcome does not apply to the whole part.
    pub fn part_outcomes(&self) -> impl Iterator<Item = Option<&Outcome>> {
        let parts = self.outcomes.chunk_by(|one, next| one.part == next.part);
        parts.map(|part| match part.last()? {
            Recorded { selection: Positions::List(_), .. } => None,
            Recorded { outcome, .. } => Some(outcome),
        })
    }
}
