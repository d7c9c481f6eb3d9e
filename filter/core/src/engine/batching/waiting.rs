use crate::invariant::Count;

/// The amounts that wait to be sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The number of shares.
    pub requests: u64,
    /// The number of operations in them.
    pub operations: u64,
    /// The bytes of these operations.
    pub bytes: u64,
}

impl Waiting {
    /// Adds further amounts.
    pub fn add(&mut self, more: &Self) {
        const WHY: &str = "memory bounds what waits";
        self.requests = self.requests.plus(more.requests, WHY);
        self.operations = self.operations.plus(more.operations, WHY);
        self.bytes = self.bytes.plus(more.bytes, WHY);
    }
}
