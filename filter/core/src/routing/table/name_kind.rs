use serde::{Deserialize, Serialize};

/// The kind of a name that operations are written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameKind {
    /// An index.
    Index,
    /// An alias of indices.
    Alias,
    /// A data stream.
    DataStream,
    /// An alias of data streams.
    DataStreamAlias,
}

impl NameKind {
    /// Returns whether the name is an alias of either kind.
    pub fn is_alias(self) -> bool {
        matches!(self, Self::Alias | Self::DataStreamAlias)
    }

    /// Returns whether writes to the name go to a data stream.
    pub fn is_data_stream(self) -> bool {
        matches!(self, Self::DataStream | Self::DataStreamAlias)
    }
}
