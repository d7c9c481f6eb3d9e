//! What the filter has counted.

use std::collections::BTreeMap;

use crate::site::Site;

/// What the filter has counted.
#[derive(Debug)]
pub struct Counts {
    pub merged: u64,
    pub operations: u64,
    /// By upstream.
    pub batches: BTreeMap<String, u64>,
    /// By reason.
    pub passed: BTreeMap<String, u64>,
}

impl Counts {
    /// What was counted in between.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            merged: self.merged - earlier.merged,
            operations: self.operations - earlier.operations,
            batches: growth(&self.batches, &earlier.batches),
            passed: growth(&self.passed, &earlier.passed),
        }
    }
}

/// Those that have grown, and by how much.
fn growth(now: &BTreeMap<String, u64>, earlier: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let growth = now.iter().map(|(name, count)| (name.clone(), count - earlier.get(name).copied().unwrap_or(0)));
    growth.filter(|(_, count)| *count > 0).collect()
}

impl Site {
    /// What it has counted so far.
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
