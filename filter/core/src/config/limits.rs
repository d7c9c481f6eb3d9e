use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::field::SizeText;

/// The largest memory limit that a VM can be given, in bytes. Envoy limits a VM's memory to 1 GiB. Small requests take
/// 1.4 times their accounted size, and outgoing batches need room too.
const MAX_MEMORY: u64 = 640 << 20;

/// Limits on what the filter takes in. A request beyond them passes through, streamed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The size of all requests held or in flight, in bytes for each VM (Envoy has one per worker).
    #[serde(with = "SizeText")]
    pub memory: u64,
    /// The size of one request's body, in bytes.
    #[serde(with = "SizeText")]
    pub max_request: u64,
    /// The size of an answer to one batch, in bytes. A batch holds only as many operations as can be answered within
    /// it.
    #[serde(with = "SizeText")]
    pub max_answer: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 256 << 20, max_request: 100 << 20, max_answer: 32 << 20 }
    }
}

impl Limits {
    /// Checks the constraints that involve several fields.
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
