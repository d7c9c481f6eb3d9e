use serde::{Deserialize, Serialize};

/// How operations without a document id are routed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingId {
    /// They go to any node as they are: it makes the id, and forwards the document to the shard of that.
    Pass,
    /// The filter makes the id.
    #[default]
    Generate,
    /// All of a request's for one index get a routing value that leads to one shard, whose node makes the ids.
    Direct,
}
