use std::rc::Rc;

use super::destination::Destination;
use super::holds::{Held, Key};
use super::outcome::Outcome;

/// What one destination gets of a request: it travels in one batch.
#[derive(Debug)]
pub struct Share {
    /// Where to.
    pub destination: Destination,
    /// By their position in the request.
    pub operations: Vec<u32>,
    /// Bytes of their lines.
    pub bytes: u64,
    /// What became of it, as it was learnt: of an operation the last counts.
    pub outcomes: Vec<(Selection, Outcome)>,
}

/// Some of a share's operations, by their place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All of them.
    All,
    /// These, in order.
    Places(Rc<[u32]>),
}

impl Share {
    /// About how many bytes one takes, held and with its outcome, besides its operations.
    pub const MEMORY: usize = size_of::<Self>()
        + size_of::<(Destination, u16)>()
        + size_of::<(Key, Held)>()
        + size_of::<(Selection, Outcome)>();

    /// Without operations yet.
    pub fn new(destination: Destination) -> Self {
        Self { destination, operations: Vec::new(), bytes: 0, outcomes: Vec::new() }
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
}

impl Selection {
    /// The places of the selected, out of this many.
    pub fn places(&self, count: usize) -> impl Iterator<Item = u32> {
        let selected = match self {
            Self::All => count,
            Self::Places(places) => places.len(),
        };
        (0..selected).filter_map(|number| match self {
            Self::All => u32::try_from(number).ok(),
            Self::Places(places) => places.get(number).copied(),
        })
    }
}

impl FromIterator<u32> for Selection {
    fn from_iter<I: IntoIterator<Item = u32>>(places: I) -> Self {
        Self::Places(places.into_iter().collect())
    }
}
