use std::ops::Range;

use super::Action;
use crate::invariant::Count;

/// One operation of a request: its position in the body, and its destination. It is small, because a request may have a
/// million of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The offset of the action line's first byte.
    pub start: u32,
    /// The length of its lines in bytes, including the newlines.
    pub len: u32,
    /// The operation's destination.
    pub placement: Placement,
    /// The operation's action.
    pub action: Action,
}

/// The destination of an operation, and how its answer is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The hash of the operation's id, if it has one. The item at the same position of the answer must have the same
    /// hash.
    pub id_hash: Option<u32>,
    /// The number of the request's share that the operation belongs to.
    pub share: u16,
}

impl Operation {
    /// Returns the range of its lines in the body.
    pub fn range(&self) -> Range<u32> {
        self.start..self.start.plus(self.len, "a body has fewer than 4 GiB")
    }
}
