use serde::Deserialize;

/// What a bulk operation does to its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
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
    /// The word that stands for it in action lines and in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    /// The action of this word.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Index, Self::Create, Self::Update, Self::Delete].into_iter().find(|action| action.name() == name)
    }

    /// Whether a source line follows the action line.
    pub fn has_source(self) -> bool {
        self != Self::Delete
    }
}
