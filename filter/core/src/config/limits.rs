use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::field::{show_size, size};

/// The most that one VM can be given: Envoy bounds its memory at 1 GiB, of which small requests take 1.4 times what is
/// counted of them, and batches on their way out need room too.
const MAX_MEMORY: u64 = 640 << 20;

/// Bounds on what the filter takes in; what is beyond them passes through, streamed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes of all requests held or in flight, per VM (Envoy has one per worker).
    #[serde(deserialize_with = "size", serialize_with = "show_size")]
    pub memory: u64,
    /// Bytes of one request's body.
    #[serde(deserialize_with = "size", serialize_with = "show_size")]
    pub max_request: u64,
    /// Bytes of an answer to one batch: a batch has no more operations than can be answered in so many.
    #[serde(deserialize_with = "size", serialize_with = "show_size")]
    pub max_answer: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 256 << 20, max_request: 100 << 20, max_answer: 32 << 20 }
    }
}

impl Limits {
    /// What no single field can tell.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let Self { memory, max_request, .. } = self;
        if *memory > MAX_MEMORY {
            let problem = format!("expected at most 640mb, because Envoy bounds a VM at 1 GiB, found {memory} bytes");
            return Err(ConfigError::new("limits.memory", problem));
        }
        if max_request > memory {
            let problem = format!("expected at most `limits.memory`, {memory} bytes, found {max_request}");
            return Err(ConfigError::new("limits.max_request", problem));
        }
        Ok(())
    }
}
