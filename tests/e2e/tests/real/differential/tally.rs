use std::collections::BTreeMap;

use crate::shared_scene::SharedScene;

/// The numbers of compared requests, operations, items and documents.
#[derive(Debug, Default)]
pub struct Tally {
    pub requests: usize,
    pub operations: usize,
    pub items: usize,
    pub documents: usize,
    /// The number of documents in failure stores.
    pub failures: usize,
    /// The number of changes between requests.
    pub changes: usize,
    /// The number of requests by the status of both sides' answers.
    pub statuses: BTreeMap<u16, usize>,
}

/// The filter's counters of requests and batches.
#[derive(Debug)]
pub struct Counters {
    pub merged: u64,
    pub passed: BTreeMap<String, u64>,
    pub batches: u64,
    pub batch_requests: u64,
    pub separated: u64,
}

impl SharedScene {
    pub async fn counters(&self) -> Counters {
        let stats = self.envoy.stats_with("bulk_reshuffle").await.unwrap();
        let sum = |what: &str| {
            let start = format!("wasmcustom.bulk_reshuffle_{what}");
            stats.iter().filter(|(name, _)| name.starts_with(&start)).map(|(_, count)| count).sum()
        };
        let passed = "wasmcustom.bulk_reshuffle_requests_total.outcome.passed_through.reason.";
        let reason = |(name, count): (&String, &u64)| Some((name.strip_prefix(passed)?.to_owned(), *count));
        Counters {
            merged: sum("requests_total.outcome.merged"),
            passed: stats.iter().filter_map(reason).collect(),
            batches: sum("batches_total"),
            batch_requests: sum("batch_requests_total"),
            separated: sum("batches_separated_total"),
        }
    }
}

impl Counters {
    /// Returns the growth since earlier values.
    pub fn since(self, before: &Self) -> Self {
        let passed = self.passed.into_iter().map(|(reason, count)| {
            let earlier = before.passed.get(&reason).copied().unwrap_or(0);
            (reason, count - earlier)
        });
        Self {
            merged: self.merged - before.merged,
            passed: passed.filter(|(_, count)| *count > 0).collect(),
            batches: self.batches - before.batches,
            batch_requests: self.batch_requests - before.batch_requests,
            separated: self.separated - before.separated,
        }
    }
}
