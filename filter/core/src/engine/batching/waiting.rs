/// How much waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Shares of requests.
    pub requests: u64,
    /// Operations in them.
    pub operations: u64,
    /// Their bytes.
    pub bytes: u64,
}
