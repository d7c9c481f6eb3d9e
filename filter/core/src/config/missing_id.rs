use serde::{Deserialize, Serialize};

/// How operations without a document id are routed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingId {
    /// The operations go unchanged to any node, which generates the id and forwards the document to its shard.
    Pass,
    /// The filter generates the id.
    #[default]
    Generate,
    /// All such operations of a request for one index get a routing value that leads to one shard, whose node generates
    /// the ids.
    Direct,
}
