//! The filter's counters.

use std::collections::BTreeMap;

use crate::shared_scene::SharedScene;

/// The values of the filter's counters.
#[derive(Debug)]
pub struct Counts {
    pub merged: u64,
    pub operations: u64,
    /// The number of batches by upstream.
    pub batches: BTreeMap<String, u64>,
    /// The number of requests that passed through, by reason.
    pub passed: BTreeMap<String, u64>,
}

impl Counts {
    /// Returns the growth since earlier values.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            merged: self.merged - earlier.merged,
            operations: self.operations - earlier.operations,
            batches: growth(&self.batches, &earlier.batches),
            passed: growth(&self.passed, &earlier.passed),
        }
    }
}

/// Returns the counters that have grown, with their growth.
fn growth(now: &BTreeMap<String, u64>, earlier: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let growth = now.iter().map(|(name, count)| (name.clone(), count - earlier.get(name).copied().unwrap_or(0)));
    growth.filter(|(_, count)| *count > 0).collect()
}

impl SharedScene {
    /// Returns the current values of the filter's counters.
    pub async fn counts(&self) -> Counts {
        let stats = self.envoy.stats_with("bulk_reshuffle_").await.unwrap();
        let count = |name: &str| stats.get(&format!("wasmcustom.bulk_reshuffle_{name}")).copied().unwrap_or(0);
        let passed = "wasmcustom.bulk_reshuffle_requests_total.outcome.passed_through.reason.";
        Counts {
            merged: count("requests_total.outcome.merged"),
            operations: count("operations_total"),
            batches: self.by_upstream("batches").await,
            passed: stats
                .iter()
                .filter_map(|(name, count)| Some((name.strip_prefix(passed)?.to_owned(), *count)))
                .collect(),
        }
    }
}
