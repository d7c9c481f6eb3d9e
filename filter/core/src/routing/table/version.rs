use serde::{Deserialize, Serialize};

/// Tells one cluster state from another. The number alone does not: it falls when an older state is restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Grows with each change.
    pub version: u64,
    /// Another for each state.
    pub state_uuid: String,
    /// Another for each cluster.
    #[serde(default)]
    pub cluster_uuid: String,
}

impl Version {
    /// Where to ask for the version alone: about 100 bytes.
    pub const PATH: &str = "/_cluster/state/version?filter_path=version,state_uuid,cluster_uuid";

    /// Whether no cluster goes from the other state to this one by itself: it is an older one, or another cluster's.
    pub fn is_before(&self, other: &Self) -> bool {
        self.version < other.version || self.cluster_uuid != other.cluster_uuid
    }

    /// Reads a cluster's answer.
    pub fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }
}
