//! The filter's counters in Envoy's statistics.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::envoy::Envoy;

const PREFIX: &str = "wasmcustom.bulk_reshuffle_";

/// The filter's counters at one time, or their growth between two times, summed over Envoy's workers. A name has no
/// prefix, and its labels at the end: `batches_total.upstream.es-0`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Reads the counters from Envoy's statistics.
    pub async fn read(envoy: &Envoy) -> Result<Self> {
        Ok(Self::of_stats(envoy.stats_with(PREFIX).await?))
    }

    fn of_stats(stats: BTreeMap<String, u64>) -> Self {
        let own = stats.into_iter().filter_map(|(name, count)| Some((name.strip_prefix(PREFIX)?.to_owned(), count)));
        Self(own.collect())
    }

    /// Returns the growth since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        let growth = |(name, count): (&String, &u64)| (name.clone(), count.saturating_sub(earlier.get(name)));
        Self(self.0.iter().map(growth).collect())
    }

    /// Returns a counter by its full name; 0 if it does not exist (yet).
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Returns the sum of a counter over all its labels.
    pub fn sum(&self, name: &str) -> u64 {
        let is_it =
            |found: &str| found.strip_prefix(name).is_some_and(|labels| labels.is_empty() || labels.starts_with('.'));
        self.0.iter().filter(|(found, _)| is_it(found)).map(|(_, count)| count).sum()
    }

    /// Returns the number of requests that the filter split and answered.
    pub fn merged(&self) -> u64 {
        self.get("requests_total.outcome.merged")
    }

    /// Returns the number of requests that passed through unchanged, by reason.
    pub fn passed_through(&self) -> BTreeMap<&str, u64> {
        const PASSED_THROUGH: &str = "requests_total.outcome.passed_through.reason.";
        let counted = self.0.iter().filter(|(_, count)| **count > 0);
        counted.filter_map(|(name, count)| Some((name.strip_prefix(PASSED_THROUGH)?, *count))).collect()
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
        let counters = Counters::of_stats(stats.map(|(name, count)| (name.to_owned(), count)).into());
        assert_eq!((counters.merged(), counters.passed_through().values().sum()), (5, 3));
        assert_eq!((counters.sum("batches_total"), counters.sum("batch_requests_total")), (30, 80));
        let none = counters.since(&counters);
        assert_eq!((none.merged(), none.passed_through().len()), (0, 0));
        assert_eq!((none.sum("batches_total"), none.sum("batch_requests_total")), (0, 0));
    }
}
