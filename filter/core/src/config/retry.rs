use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::field::DurationText;

/// When a batch is retried: after a refusal with 429, or if its connection was lost and its operations may be executed
/// twice. No retry begins later than `dispatch.timeout` after the first attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// The maximum number of retries. Zero means none.
    pub attempts: u32,
    /// The pause before the first retry. It doubles with each further retry.
    #[serde(with = "DurationText")]
    pub backoff: Duration,
    /// The longest pause.
    #[serde(with = "DurationText")]
    pub max_backoff: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 8, backoff: Duration::from_millis(50), max_backoff: Duration::from_secs(2) }
    }
}

impl Retry {
    /// Returns the pause before the next attempt, after `retries` retries. Up to half of it depends on `spread`, so
    /// that batches that were refused together do not return together.
    pub fn backoff(&self, retries: u32, spread: u32) -> Duration {
        let doubled = self.backoff.saturating_mul(1_u32.checked_shl(retries).unwrap_or(u32::MAX));
        let half = doubled.min(self.max_backoff) / 2;
        // Fibonacci hashing: adjacent values end up far apart.
        let share = f64::from(spread.wrapping_mul(0x9e37_79b9)) / f64::from(u32::MAX);
        half.saturating_add(half.mul_f64(share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_limit_and_spreads() {
        let retry = Retry::default();
        for (retries, longest) in [(0, 50), (1, 100), (5, 1600), (6, 2000), (40, 2000)] {
            for spread in 0..100 {
                let backoff = retry.backoff(retries, spread).as_millis();
                assert!((longest / 2..=longest).contains(&backoff), "{retries}: {backoff}");
            }
        }
        let (first, second) = (retry.backoff(3, 1), retry.backoff(3, 2));
        assert!(first.abs_diff(second) > Duration::from_millis(50));
    }
}
