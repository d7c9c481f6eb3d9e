use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::field::{duration, duration_or_zero, show_duration, show_size, size};

/// When what is held for a node and a caller leaves.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hold {
    /// At the latest after this time, unless `dispatch.max_in_flight` batches are on their way.
    #[serde(deserialize_with = "duration", serialize_with = "show_duration")]
    pub interval: Duration,
    /// As soon as it has this many bytes. A batch takes no further request beyond them.
    #[serde(deserialize_with = "size", serialize_with = "show_size")]
    pub flush_threshold_size: u64,
    /// As soon as it has this many operations; 0: no such bound.
    pub flush_threshold_docs: u64,
    /// At once when nothing of it is on its way.
    pub early_release: bool,
    /// But when a batch has just come back, not before as many requests have arrived as usually do at such a moment,
    /// or this time is over, or as long as the batch took. Zero: without waiting.
    #[serde(deserialize_with = "duration_or_zero", serialize_with = "show_duration")]
    pub gather: Duration,
}

impl Default for Hold {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(50),
            flush_threshold_size: 1 << 20,
            flush_threshold_docs: 0,
            early_release: true,
            gather: Duration::from_millis(2),
        }
    }
}
