//! The filter's counters.

use std::collections::BTreeMap;

use anyhow::Result;
use bulk_reshuffle_stack::Envoy;

use crate::shared_scene::SharedScene;

/// The values of the filter's counters, or their growth.
#[derive(Debug)]
pub struct Counts {
    /// The number of requests that were split, or merged whole.
    pub merged: u64,
    /// The number of those that were requests for a single document, refused in a batch or not.
    pub single_documents: u64,
    pub operations: u64,
    /// The number of batches by upstream.
    pub batches: BTreeMap<String, u64>,
    /// The number of operations in batches, by upstream.
    pub batch_operations: BTreeMap<String, u64>,
    /// The number of requests that passed through, by reason.
    pub passed: BTreeMap<String, u64>,
}

impl Counts {
    /// Returns the current values.
    pub async fn of(envoy: &Envoy) -> Result<Self> {
        let stats = envoy.stats_with("bulk_reshuffle_").await?;
        let count = |name: &str| stats.get(&format!("wasmcustom.bulk_reshuffle_{name}")).copied().unwrap_or(0);
        let labelled = |name: &str| -> BTreeMap<String, u64> {
            let prefix = format!("wasmcustom.bulk_reshuffle_{name}.");
            let label = |(name, count): (&String, &u64)| Some((name.strip_prefix(&prefix)?.to_owned(), *count));
            stats.iter().filter_map(label).collect()
        };
        Ok(Self {
            merged: count("requests_total.outcome.merged"),
            single_documents: labelled("single_documents_total.outcome").values().sum(),
            operations: count("operations_total"),
            batches: labelled("batches_total.upstream"),
            batch_operations: labelled("batch_operations_total.upstream"),
            passed: labelled("requests_total.outcome.passed_through.reason"),
        })
    }

    /// Returns the growth since earlier values.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            merged: self.merged - earlier.merged,
            single_documents: self.single_documents - earlier.single_documents,
            operations: self.operations - earlier.operations,
            batches: growth(&self.batches, &earlier.batches),
            batch_operations: growth(&self.batch_operations, &earlier.batch_operations),
            passed: growth(&self.passed, &earlier.passed),
        }
    }

    /// Prints the counts, and checks that every request was split, and that each of the three nodes got a share.
    pub fn check_split(&self, what: &str) {
        println!("{what}: {self:?}");
        assert_eq!(self.passed, BTreeMap::new(), "{what}: requests that passed through");
        assert_eq!(self.batches.len(), 3, "{what}: upstreams that got a share: {self:?}");
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
        Counts::of(&self.envoy).await.unwrap()
    }
}
