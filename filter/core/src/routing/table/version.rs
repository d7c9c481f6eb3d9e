use serde::{Deserialize, Serialize};

/// The version of a cluster state. The number alone is not unique: it falls when an older state is restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// A counter that increases with each change.
    pub version: u64,
    /// A unique id of the state.
    pub state_uuid: String,
    /// A unique id of the cluster.
    #[serde(default)]
    pub cluster_uuid: String,
}

impl Version {
    /// The path of the query for the version alone: about 100 bytes of answer.
    pub const PATH: &str = "/_cluster/state/version?filter_path=version,state_uuid,cluster_uuid";

    /// Returns whether this is an older state of the same cluster.
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.version < other.version && self.cluster_uuid == other.cluster_uuid
    }

    /// Returns whether this state cannot follow the other one: it is an older state, or another cluster's.
    pub fn is_before(&self, other: &Self) -> bool {
        self.version < other.version || self.cluster_uuid != other.cluster_uuid
    }
}
