use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::invariant::Count;
use crate::json::{FastReader, Object};

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
    /// Whether it [would fail if it was carried out again](super::ActionLine::is_conditional).
    pub is_conditional: bool,
}

/// The destination of an operation, and how its answer is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The hash of the operation's id, if it has one. The item at the same position of the answer must have the same
    /// hash.
    pub id_hash: Option<u32>,
    /// The number of the request's share that the operation belongs to.
    pub share: u16,
    /// Whether the cluster runs an ingest pipeline for it. Its item may then have another id.
    pub under_pipeline: bool,
    /// Whether the node of its primary shard is known.
    pub is_located: bool,
}

impl Operation {
    /// Returns whether carrying it out twice has the same effect as once.
    pub fn is_idempotent(&self) -> bool {
        matches!(self.action, Action::Index | Action::Delete)
            && self.placement.id_hash.is_some()
            && !self.is_conditional
    }

    /// Returns the range of its lines in the body.
    pub fn range(&self) -> Range<u32> {
        self.start..self.start.plus(self.len, "a body has fewer than 4 GiB")
    }
}

/// What a bulk operation does to its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Writes the document, whether it exists or not.
    Index,
    /// Writes the document, or fails if it exists.
    Create,
    /// Changes parts of the document.
    Update,
    /// Removes the document.
    Delete,
}

/// A JSON object with exactly one key, an action: `{"index": {…}}`.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OfAction<T> {
    Index(Object<T>),
    Create(Object<T>),
    Update(Object<T>),
    Delete(Object<T>),
}

impl<T> OfAction<T> {
    pub fn into_parts(self) -> (Action, T) {
        match self {
            Self::Index(Object(value)) => (Action::Index, value),
            Self::Create(Object(value)) => (Action::Create, value),
            Self::Update(Object(value)) => (Action::Update, value),
            Self::Delete(Object(value)) => (Action::Delete, value),
        }
    }
}

impl Action {
    /// Reads an action's name as the next key, with its quotes.
    pub(super) fn plain(text: &mut FastReader<'_>) -> Option<Self> {
        if text.takes(b"\"index\"") {
            Some(Self::Index)
        } else if text.takes(b"\"create\"") {
            Some(Self::Create)
        } else if text.takes(b"\"update\"") {
            Some(Self::Update)
        } else {
            text.takes(b"\"delete\"").then_some(Self::Delete)
        }
    }

    /// Returns the action's name in action lines and in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    /// Returns whether a source line follows the action line.
    pub fn has_source(self) -> bool {
        self != Self::Delete
    }
}
