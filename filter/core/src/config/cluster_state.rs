use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::field::{duration, show_duration};

/// How the cluster state is kept fresh.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterStateConfig {
    /// From one look at the cluster's state to the next.
    #[serde(deserialize_with = "duration", serialize_with = "show_duration")]
    pub refresh: Duration,
    /// For each call.
    #[serde(deserialize_with = "duration", serialize_with = "show_duration")]
    pub timeout: Duration,
}

impl Default for ClusterStateConfig {
    fn default() -> Self {
        Self { refresh: Duration::from_secs(5), timeout: Duration::from_secs(5) }
    }
}
