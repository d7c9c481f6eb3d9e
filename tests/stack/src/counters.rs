//! The filter's counters in Envoy's statistics.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::envoy::Envoy;

const PREFIX: &str = "wasmcustom.bulk_reshuffle_";

/// The begin of the last label of each of the filter's statistics, the coordinator.
const COORDINATOR: &str = ".coordinator.";

/// Returns Envoy's statistics with those of all filters added up. Their names lose the label `coordinator`.
pub fn of_all_filters(stats: impl IntoIterator<Item = (String, u64)>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, value) in stats {
        let sum: &mut u64 = sums.entry(split(&name).0.to_owned()).or_default();
        *sum = sum.saturating_add(value);
    }
    sums
}

/// Returns the statistics of the filter with this coordinator. Their names lose the label `coordinator`.
pub fn of_filter(stats: impl IntoIterator<Item = (String, u64)>, coordinator: &str) -> BTreeMap<String, u64> {
    let own = |(name, value): (String, u64)| {
        let (name, found) = split(&name);
        (found == Some(coordinator)).then(|| (name.to_owned(), value))
    };
    stats.into_iter().filter_map(own).collect()
}

/// Splits the name of a statistic into the name without the filter's coordinator, and the coordinator.
fn split(name: &str) -> (&str, Option<&str>) {
    let parts = name.starts_with(PREFIX).then(|| name.rsplit_once(COORDINATOR)).flatten();
    parts.map_or((name, None), |(name, coordinator)| (name, Some(coordinator)))
}

/// The filter's counters at one time, or their growth between two times, summed over Envoy's workers and the filters of
/// all search clusters. A name has no prefix, and its labels at the end: `batches_total.upstream.es-0`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Reads the counters from Envoy's statistics.
    pub async fn read(envoy: &Envoy) -> Result<Self> {
        Ok(Self::of_stats(envoy.stats_with(PREFIX).await?))
    }

    /// Reads the counters of the filter with this coordinator alone.
    pub async fn read_of(envoy: &Envoy, coordinator: &str) -> Result<Self> {
        Ok(Self::of_stats(envoy.stats_of(coordinator).await?))
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
    fn the_filters_of_several_clusters_are_told_apart_or_added_up() {
        let stats = || {
            [
                ("wasmcustom.bulk_reshuffle_batches_total.upstream.es-0.coordinator.es", 1),
                ("wasmcustom.bulk_reshuffle_batches_total.upstream.es-0.coordinator.outbound|9200||any.es.internal", 2),
                ("cluster.x.coordinator.es", 4),
            ]
            .map(|(name, value)| (name.to_owned(), value))
        };
        const BATCHES: &str = "wasmcustom.bulk_reshuffle_batches_total.upstream.es-0";
        let all = of_all_filters(stats());
        assert_eq!(all, [(BATCHES.to_owned(), 3), ("cluster.x.coordinator.es".to_owned(), 4)].into());
        for (coordinator, value) in [("es", 1), ("outbound|9200||any.es.internal", 2)] {
            assert_eq!(of_filter(stats(), coordinator), [(BATCHES.to_owned(), value)].into());
        }
        assert_eq!(of_filter(stats(), "other"), BTreeMap::new());
    }

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
