//! The traffic of one upstream, by the filter's counters.

use bulk_reshuffle_stack::Counters;

/// The coordinator, which gets operations that cannot be routed.
pub const COORDINATOR: &str = "es";

#[derive(Debug, Clone, Copy, Default)]
pub struct Upstream {
    pub batches: u64,
    pub operations: u64,
    /// The shares of requests: one for each request with operations in a batch.
    pub requests: u64,
    pub bytes: u64,
}

impl Upstream {
    /// Returns what the counters say about the upstream of this name.
    pub fn of(counters: &Counters, name: &str) -> Self {
        let get = |what: &str| counters.get(&format!("{what}_total.upstream.{name}"));
        Self {
            batches: get("batches"),
            operations: get("batch_operations"),
            requests: get("batch_requests"),
            bytes: get("batch_bytes"),
        }
    }
}

impl std::ops::AddAssign for Upstream {
    fn add_assign(&mut self, other: Self) {
        self.batches += other.batches;
        self.operations += other.operations;
        self.requests += other.requests;
        self.bytes += other.bytes;
    }
}
