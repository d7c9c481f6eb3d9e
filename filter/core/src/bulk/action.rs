use serde::{Deserialize, Serialize};

use crate::json::FastReader;

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
