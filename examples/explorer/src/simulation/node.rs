use super::Settings;

/// A node: a queue. Times are in microseconds.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// When it has done what it was given.
    free: u64,
    busy: u64,
    /// How many batches it was given.
    pub batches: u64,
    /// The operations in them.
    pub operations: u64,
}

impl Node {
    /// Gives it a batch of so many operations, and says when that is done.
    pub fn carry_out(&mut self, operations: u64, now: u64, settings: &Settings) -> u64 {
        let millis = settings.batch_time + settings.operation_time * operations as f64;
        let takes = (millis * 1000.0).round() as u64;
        self.free = self.free.max(now).saturating_add(takes);
        self.busy = self.busy.saturating_add(takes);
        self.batches = self.batches.saturating_add(1);
        self.operations = self.operations.saturating_add(operations);
        self.free
    }

    /// The share of this time in which it had something to do.
    pub fn busy(&self, of: u64) -> f64 {
        if of > 0 { (self.busy as f64 / of as f64).min(1.0) } else { 0.0 }
    }
}
