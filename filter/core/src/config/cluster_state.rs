use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::field::{duration, show_duration};

/// How often and how long the filter polls the cluster state.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterStateConfig {
    /// The interval between polls.
    #[serde(deserialize_with = "duration", serialize_with = "show_duration")]
    pub refresh: Duration,
    /// The timeout of each call.
    #[serde(deserialize_with = "duration", serialize_with = "show_duration")]
    pub timeout: Duration,
}

impl Default for ClusterStateConfig {
    fn default() -> Self {
        Self { refresh: Duration::from_secs(5), timeout: Duration::from_secs(5) }
    }
}
