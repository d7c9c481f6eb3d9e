use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::field::{DurationOrZeroText, DurationText, SizeText};

/// When the operations held for a node and a caller leave.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Hold {
    /// The longest time that they are held, unless `dispatch.max_in_flight` batches are in flight.
    #[serde(with = "DurationText")]
    pub interval: Duration,
    /// The size, in bytes, at which they leave at once. A batch that has reached it takes no further request.
    #[serde(with = "SizeText")]
    pub flush_threshold_size: u64,
    /// The number of operations at which they leave at once. Zero means no limit.
    pub flush_threshold_docs: u64,
    /// Whether they leave at once when no batch for the node and the caller is in flight.
    pub early_release: bool,
    /// The shortest time after which a batch in flight is late. Operations for its shards are then held apart from all
    /// others.
    #[serde(with = "DurationText")]
    pub late_after: Duration,
    /// The longest time that early release waits after a batch returns, or a quarter of the time that the batch took, if
    /// that is longer. The wait ends sooner if as many requests have arrived as usual at such a moment. It is no longer
    /// than the batch took, and no longer than `interval`. Zero means no wait.
    #[serde(with = "DurationOrZeroText")]
    pub gather: Duration,
}

impl Default for Hold {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(50),
            flush_threshold_size: 1 << 20,
            flush_threshold_docs: 0,
            early_release: true,
            late_after: Duration::from_millis(500),
            gather: Duration::from_millis(2),
        }
    }
}
