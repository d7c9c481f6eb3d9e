//! The filter's counters in Envoy's statistics.

use std::collections::BTreeMap;

use anyhow::Result;
use bulk_reshuffle_stack::Envoy;
use serde::Serialize;

/// The filter's counters at one moment, or their growth between two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// The requests that the filter split and answered.
    pub merged: u64,
    /// The requests that went to the cluster unchanged.
    pub passed_through: u64,
    /// The batches sent.
    pub batches: u64,
    /// The parts of requests in these batches.
    pub batch_requests: u64,
}

impl Counters {
    /// Reads the sums over all workers.
    pub async fn read(envoy: &Envoy) -> Result<Self> {
        Ok(Self::of_stats(&envoy.stats_with("bulk_reshuffle").await?))
    }

    /// Returns the growth since an earlier reading.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            merged: self.merged.saturating_sub(earlier.merged),
            passed_through: self.passed_through.saturating_sub(earlier.passed_through),
            batches: self.batches.saturating_sub(earlier.batches),
            batch_requests: self.batch_requests.saturating_sub(earlier.batch_requests),
        }
    }

    fn of_stats(stats: &BTreeMap<String, u64>) -> Self {
        let sum = |name: &str| {
            let name = format!("wasmcustom.bulk_reshuffle_{name}");
            stats.iter().filter(|(found, _)| found.starts_with(&name)).map(|(_, value)| value).sum()
        };
        Self {
            merged: sum("requests_total.outcome.merged"),
            passed_through: sum("requests_total.outcome.passed_through."),
            batches: sum("batches_total."),
            batch_requests: sum("batch_requests_total."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_their_labels() {
        let stats = [
            ("wasmcustom.bulk_reshuffle_requests_total.outcome.merged", 5),
            ("wasmcustom.bulk_reshuffle_requests_total.outcome.passed_through.reason.no_state", 1),
            ("wasmcustom.bulk_reshuffle_requests_total.outcome.passed_through.reason.pipeline", 2),
            ("wasmcustom.bulk_reshuffle_batches_total.upstream.es-0", 10),
            ("wasmcustom.bulk_reshuffle_batches_total.upstream.es-1", 20),
            ("wasmcustom.bulk_reshuffle_batches_retried_total.reason.busy.upstream.es-1", 40),
            ("wasmcustom.bulk_reshuffle_batch_requests_total.upstream.es-1", 80),
        ];
        let stats = stats.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let counters = Counters::of_stats(&stats);
        assert_eq!(counters, Counters { merged: 5, passed_through: 3, batches: 30, batch_requests: 80 });
        assert_eq!(counters.since(counters), Counters::default());
    }
}
