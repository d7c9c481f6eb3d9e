use std::ops::Range;

use super::Action;

/// One operation of a request: where it stands in the body, and where it goes. Kept small, because a request
/// may have a million of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// First byte of the action line.
    pub start: u32,
    /// Bytes of its lines, with the newlines.
    pub len: u32,
    /// Where it goes.
    pub placement: Placement,
    /// What it does.
    pub action: Action,
}

/// Where an operation goes, and how its answer is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The hash of its id, if it has one: an answer's item at its place must carry the same.
    pub id_hash: Option<u32>,
    /// Which of the request's shares it belongs to.
    pub share: u16,
}

impl Operation {
    /// Its lines in the body.
    pub fn range(&self) -> Range<u32> {
        self.start..self.start.saturating_add(self.len)
    }
}
