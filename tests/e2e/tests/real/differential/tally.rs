use std::collections::BTreeMap;

use crate::shared_scene::SharedScene;

/// The numbers of compared requests, operations, items and documents.
#[derive(Debug, Default)]
pub struct Tally {
    pub requests: usize,
    pub operations: usize,
    pub items: usize,
    pub documents: usize,
    pub failures: usize,
    pub changes: usize,
    /// The number of changes of the pipeline of the index `late`. The filter's knowledge of it may outlast a seed.
    pub pipelines: usize,
    /// The number of seeds that were not compared to their end, because the master was too busy to create an index.
    pub ended_early: usize,
    /// The number of requests by the status of both sides' answers.
    pub statuses: BTreeMap<u16, usize>,
}

/// The growth of the filter's counters of requests and batches, summed over upstreams.
pub type Counters = BTreeMap<String, u64>;

const COUNTED: [&str; 5] =
    ["requests_total", "single_documents_total", "batches_total", "batch_requests_total", "batches_separated_total"];

impl SharedScene {
    pub async fn counters_since(&self, before: &Counters) -> Counters {
        let mut counters = Counters::new();
        for (name, count) in self.envoy.stats_with("bulk_reshuffle").await.unwrap() {
            let name = name.trim_start_matches("wasmcustom.bulk_reshuffle_").split(".upstream.").next().unwrap();
            if COUNTED.iter().any(|counted| name.starts_with(counted)) {
                *counters.entry(name.to_owned()).or_default() += count;
            }
        }
        counters.iter_mut().for_each(|(name, count)| *count -= before.get(name).copied().unwrap_or_default());
        counters
    }
}
