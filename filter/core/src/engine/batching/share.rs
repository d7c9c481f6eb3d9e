use std::cmp::Reverse;
use std::ops::Range;
use std::rc::Rc;

use super::Key;
use super::destination::Destination;
use crate::Time;
use crate::engine::command::RequestId;
use crate::engine::response::{ItemNumbers, NodeAnswer, Outcome};

/// What one destination gets of a request.
///
/// It travels in one batch, unless the answer to that would be too large to read: then it travels in parts, each once
/// the one before is over.
#[derive(Debug)]
pub struct Share {
    /// Its destination.
    pub destination: Destination,
    /// By their position in the request.
    pub operations: Vec<u32>,
    /// Bytes of their lines.
    pub bytes: u64,
    /// The outcomes of its operations as they were recorded, part by part; of an operation the last counts.
    pub outcomes: Vec<Recorded>,
    /// The place at which the next part begins.
    pub next: u32,
}

/// An outcome, and of which operations of a share.
#[derive(Debug)]
pub struct Recorded {
    /// Some operations of one part.
    pub selection: Selection,
    /// Their outcome.
    pub outcome: Outcome,
    /// Where that part begins.
    part: u32,
}

/// Some of a share's operations, by their place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All of them.
    All,
    /// These, one behind the other: a part.
    Part(Range<u32>),
    /// These, in order: they are of one part.
    Places(Rc<[u32]>),
}

/// A share of a request, on hold or on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldShare {
    /// Whose it is.
    pub request: RequestId,
    /// Which of its shares.
    pub share: u16,
    /// How much of it.
    pub selection: Selection,
    /// Bytes.
    pub bytes: u64,
    /// Operations.
    pub operations: u64,
    /// Bytes of the longest answer to them.
    pub answer: u64,
    /// Since when it is held.
    pub since: Time,
}

impl Share {
    /// About how many bytes one takes, held and with its outcome, besides its operations.
    pub const MEMORY: usize = size_of::<Self>()
        + 2 * size_of::<(Destination, u16)>()
        + 2 * size_of::<(Key, HeldShare)>()
        + size_of::<Reverse<(Time, Key)>>()
        + size_of::<Recorded>()
        + 4 * size_of::<u32>();

    /// Without operations yet.
    pub fn new(destination: Destination) -> Self {
        Self { destination, operations: Vec::new(), bytes: 0, outcomes: Vec::new(), next: 0 }
    }

    /// Adds the operation that stands at this position of the request, and has this many bytes.
    pub fn push(&mut self, position: u32, bytes: u64) {
        self.operations.push(position);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The positions of the selected operations in the request.
    pub fn positions<'a>(&'a self, selection: &'a Selection) -> impl Iterator<Item = u32> + 'a {
        selection.places(self.operations.len()).filter_map(|place| self.operations.get(place as usize).copied())
    }

    /// Records the outcome of some operations of the part that was held last.
    pub fn record(&mut self, selection: Selection, outcome: Outcome) {
        let part = match &selection {
            Selection::All => 0,
            Selection::Part(places) => places.start,
            Selection::Places(_) => self.outcomes.last().map_or(0, |last| last.part),
        };
        // Most shares have one.
        if self.outcomes.is_empty() {
            self.outcomes.reserve_exact(1);
        }
        self.outcomes.push(Recorded { selection, outcome, part });
    }

    /// The answer in which the items of all operations stand in a row, and the number of the first.
    pub fn row(&self) -> Option<(&NodeAnswer, usize)> {
        match self.outcomes.as_slice() {
            [
                Recorded {
                    selection: Selection::All,
                    outcome: Outcome::Items { answer, items: ItemNumbers::From(first) },
                    ..
                },
            ] => Some((answer, *first)),
            _ => None,
        }
    }

    /// The last outcome of the operation at a place, with its number among those of which that is the outcome.
    pub fn outcome(&self, place: u32) -> Option<(usize, &Outcome)> {
        // Most shares have one, for all operations.
        if let [Recorded { selection: Selection::All, outcome, .. }] = self.outcomes.as_slice() {
            return Some((place as usize, outcome));
        }
        let end = self.outcomes.partition_point(|recorded| recorded.part <= place);
        let recorded = self.outcomes.get(..end)?.iter().rev();
        let mut found = recorded.filter_map(|recorded| Some((recorded.selection.number(place)?, &recorded.outcome)));
        found.next()
    }

    /// Takes the outcome that counts for the first part.
    pub fn take_first(&mut self) -> Option<Outcome> {
        let first = self.outcomes.first()?.part;
        let end = self.outcomes.partition_point(|recorded| recorded.part == first);
        Some(self.outcomes.swap_remove(end.checked_sub(1)?).outcome)
    }

    /// The outcomes that count for all operations of a part, one for each part; `None` if a part has none.
    pub fn part_outcomes(&self) -> impl Iterator<Item = Option<&Outcome>> {
        let parts = self.outcomes.chunk_by(|one, next| one.part == next.part);
        parts.map(|part| match part.last()? {
            Recorded { selection: Selection::Places(_), .. } => None,
            Recorded { outcome, .. } => Some(outcome),
        })
    }
}

impl Selection {
    /// How many operations are selected, out of this many.
    pub fn len(&self, count: usize) -> usize {
        match self {
            Self::All => count,
            Self::Part(places) => places.len(),
            Self::Places(places) => places.len(),
        }
    }

    /// The places of the selected, out of this many.
    pub fn places(&self, count: usize) -> impl Iterator<Item = u32> {
        (0..self.len(count)).filter_map(|number| match self {
            Self::All => u32::try_from(number).ok(),
            Self::Part(places) => places.start.checked_add(number as u32),
            Self::Places(places) => places.get(number).copied(),
        })
    }

    /// The number of a place among the selected.
    fn number(&self, place: u32) -> Option<usize> {
        match self {
            Self::All => Some(place as usize),
            Self::Part(places) => places.contains(&place).then(|| place.saturating_sub(places.start) as usize),
            Self::Places(places) => places.binary_search(&place).ok(),
        }
    }
}

impl FromIterator<u32> for Selection {
    fn from_iter<I: IntoIterator<Item = u32>>(places: I) -> Self {
        Self::Places(places.into_iter().collect())
    }
}
