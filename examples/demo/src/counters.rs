//! The filter's counters in Envoy's statistics.

use std::collections::BTreeMap;

use anyhow::Result;
use bulk_reshuffle_stack::Envoy;

/// The coordinator, which gets operations that cannot be routed.
pub const COORDINATOR: &str = "es";

/// The filter's counters at one time, or their growth between two times.
#[derive(Debug, Clone, Default)]
pub struct Counters(BTreeMap<String, u64>);

/// The traffic of one upstream.
#[derive(Debug, Clone, Copy, Default)]
pub struct Upstream {
    pub batches: u64,
    pub operations: u64,
    /// The shares of requests: one for each request with operations in a batch.
    pub requests: u64,
    pub bytes: u64,
}

impl Counters {
    pub async fn read(envoy: &Envoy) -> Result<Self> {
        Ok(Self(envoy.stats_with("bulk_reshuffle").await?))
    }

    /// Returns the growth since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        let growth = |(name, value): (&String, &u64)| {
            (name.clone(), value.saturating_sub(earlier.0.get(name).copied().unwrap_or(0)))
        };
        Self(self.0.iter().map(growth).collect())
    }

    /// Returns the number of requests that the filter split and answered.
    pub fn merged(&self) -> u64 {
        self.get("requests_total.outcome.merged")
    }

    /// Returns the number of operations in merged requests.
    pub fn operations(&self) -> u64 {
        self.get("operations_total")
    }

    /// Returns the number of requests that passed through unchanged, by reason.
    pub fn passed_through(&self) -> BTreeMap<&str, u64> {
        let prefix = format!("{PREFIX}requests_total.outcome.passed_through.reason.");
        let counted = self.0.iter().filter(|(_, count)| **count > 0);
        counted.filter_map(|(name, count)| Some((name.strip_prefix(&prefix)?, *count))).collect()
    }

    /// Returns the traffic of an upstream.
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
