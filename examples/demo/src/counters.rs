//! What the filter says that it did: its counters in Envoy's statistics.

use std::collections::BTreeMap;

use anyhow::Result;
use bulk_reshuffle_stack::Envoy;

/// The coordinating upstream, which gets what cannot be routed.
pub const COORDINATOR: &str = "es";

/// The filter's counters at one moment, or the growth between two.
#[derive(Debug, Clone, Default)]
pub struct Counters(BTreeMap<String, u64>);

/// What one upstream got.
#[derive(Debug, Clone, Copy, Default)]
pub struct Upstream {
    pub batches: u64,
    pub operations: u64,
    /// Parts of requests: one for each request that had something in a batch.
    pub requests: u64,
    pub bytes: u64,
}

impl Counters {
    pub async fn read(envoy: &Envoy) -> Result<Self> {
        Ok(Self(envoy.stats_with("bulk_reshuffle").await?))
    }

    /// What has been added since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        let growth = |(name, value): (&String, &u64)| {
            (name.clone(), value.saturating_sub(earlier.0.get(name).copied().unwrap_or(0)))
        };
        Self(self.0.iter().map(growth).collect())
    }

    /// Requests that were split and answered by the filter.
    pub fn merged(&self) -> u64 {
        self.get("requests_total.outcome.merged")
    }

    /// Operations in merged requests.
    pub fn operations(&self) -> u64 {
        self.get("operations_total")
    }

    /// Requests that went to the cluster as they were, by reason.
    pub fn passed_through(&self) -> BTreeMap<&str, u64> {
        let prefix = format!("{PREFIX}requests_total.outcome.passed_through.reason.");
        let counted = self.0.iter().filter(|(_, count)| **count > 0);
        counted.filter_map(|(name, count)| Some((name.strip_prefix(&prefix)?, *count))).collect()
    }

    /// What the given upstream got.
    pub fn upstream(&self, name: &str) -> Upstream {
        let get = |what: &str| self.get(&format!("{what}_total.upstream.{name}"));
        Upstream {
            batches: get("batches"),
            operations: get("batch_operations"),
            requests: get("batch_requests"),
            bytes: get("batch_bytes"),
        }
    }

    fn get(&self, name: &str) -> u64 {
        self.0.get(&format!("{PREFIX}{name}")).copied().unwrap_or(0)
    }
}

const PREFIX: &str = "wasmcustom.bulk_reshuffle_";

impl std::ops::AddAssign for Upstream {
    fn add_assign(&mut self, other: Self) {
        self.batches += other.batches;
        self.operations += other.operations;
        self.requests += other.requests;
        self.bytes += other.bytes;
    }
}
