use super::Settings;

/// A node, which is a queue. Times are in microseconds.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The time at which the node completes all its batches.
    free: u64,
    busy: u64,
    /// The number of the node's batches.
    pub batches: u64,
    /// The number of operations in the batches.
    pub operations: u64,
}

impl Node {
    /// Adds a batch with this number of operations, and returns the time of its completion.
    pub fn execute(&mut self, operations: u64, now: u64, settings: &Settings) -> u64 {
        let millis = settings.batch_time + settings.operation_time * operations as f64;
        let takes = (millis * 1000.0).round() as u64;
        self.free = self.free.max(now).saturating_add(takes);
        self.busy = self.busy.saturating_add(takes);
        self.batches = self.batches.saturating_add(1);
        self.operations = self.operations.saturating_add(operations);
        self.free
    }

    /// Returns the share of a period in which the node was busy.
    pub fn busy(&self, of: u64) -> f64 {
        if of > 0 { (self.busy as f64 / of as f64).min(1.0) } else { 0.0 }
    }
}
