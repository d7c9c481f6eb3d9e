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
