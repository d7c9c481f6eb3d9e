use std::ops::Range;
use std::rc::Rc;

use super::shards::Shards;
use crate::Time;
use crate::engine::command::RequestId;
use crate::invariant::Count;

/// A selection of a share's operations, by their position in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Positions {
    /// All operations.
    All,
    /// A range of operations: a part.
    Part(Range<u32>),
    /// These operations, in order, all of one part.
    List(Rc<[u32]>),
}

/// A share of a request, on hold or in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldShare {
    /// The request to which it belongs.
    pub request: RequestId,
    /// The number of the share in the request.
    pub share: u16,
    /// The selected operations of the share.
    pub selection: Positions,
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

impl Positions {
    /// Returns how many operations are selected, out of `count`.
    pub fn len(&self, count: usize) -> usize {
        match self {
            Self::All => count,
            Self::Part(positions) => positions.len(),
            Self::List(positions) => positions.len(),
        }
    }

    /// Returns the positions of the selected operations, out of `count`.
    pub fn positions(&self, count: usize) -> impl Iterator<Item = u32> {
        (0..self.len(count)).filter_map(|number| match self {
            Self::All => u32::try_from(number).ok(),
            Self::Part(positions) => positions.start.checked_add(number as u32),
            Self::List(positions) => positions.get(number).copied(),
        })
    }

    /// Returns the number of a position within the selection.
    pub fn number(&self, position: u32) -> Option<usize> {
        match self {
            Self::All => Some(position as usize),
            Self::Part(positions) => {
                positions.contains(&position).then(|| position.saturating_sub(positions.start) as usize)
            }
            Self::List(positions) => positions.binary_search(&position).ok(),
        }
    }
}

impl FromIterator<u32> for Positions {
    fn from_iter<I: IntoIterator<Item = u32>>(positions: I) -> Self {
        Self::List(positions.into_iter().collect())
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
