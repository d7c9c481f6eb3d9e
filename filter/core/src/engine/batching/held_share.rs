use std::ops::Range;
use std::rc::Rc;

use super::shards::Shards;
use crate::Time;
use crate::engine::command::RequestId;
use crate::invariant::Count;

/// A selection of a share's operations, by their place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All operations.
    All,
    /// A range of operations: a part.
    Part(Range<u32>),
    /// These operations, in order, all of one part.
    Places(Rc<[u32]>),
}

/// A share of a request, on hold or in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldShare {
    /// The request to which it belongs.
    pub request: RequestId,
    /// The number of the share in the request.
    pub share: u16,
    /// The selected operations of the share.
    pub selection: Selection,
    /// The shards to which the share's operations belong.
    pub shards: Shards,
    /// Bytes of the selected operations.
    pub bytes: u64,
    /// The number of selected operations.
    pub operations: u64,
    /// Bytes of the longest possible answer to them.
    pub answer: u64,
    /// The time since which it is held.
    pub since: Time,
}

impl Selection {
    /// Returns how many operations are selected, out of `count`.
    pub fn len(&self, count: usize) -> usize {
        match self {
            Self::All => count,
            Self::Part(places) => places.len(),
            Self::Places(places) => places.len(),
        }
    }

    /// Returns the places of the selected operations, out of `count`.
    pub fn places(&self, count: usize) -> impl Iterator<Item = u32> {
        (0..self.len(count)).filter_map(|number| match self {
            Self::All => u32::try_from(number).ok(),
            Self::Part(places) => places.start.checked_add(number as u32),
            Self::Places(places) => places.get(number).copied(),
        })
    }

    /// Returns the number of a place within the selection.
    pub fn number(&self, place: u32) -> Option<usize> {
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

/// The amounts that wait to be sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The number of shares.
    pub requests: u64,
    /// The number of operations in them.
    pub operations: u64,
    /// The bytes of these operations.
    pub bytes: u64,
}

impl Waiting {
    /// Adds further amounts.
    pub fn add(&mut self, more: &Self) {
        const WHY: &str = "memory bounds what waits";
        self.requests = self.requests.plus(more.requests, WHY);
        self.operations = self.operations.plus(more.operations, WHY);
        self.bytes = self.bytes.plus(more.bytes, WHY);
    }
}
