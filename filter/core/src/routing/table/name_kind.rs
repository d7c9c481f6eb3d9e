use serde::{Deserialize, Serialize};

/// What a name that operations are for stands for.
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
    /// Whether it is an alias, of whatever.
    pub fn is_alias(self) -> bool {
        matches!(self, Self::Alias | Self::DataStreamAlias)
    }

    /// Whether what is written to it goes to a data stream.
    pub fn is_data_stream(self) -> bool {
        matches!(self, Self::DataStream | Self::DataStreamAlias)
    }
}
