use crate::Time;
use crate::engine::RequestId;
use crate::engine::share::Selection;

/// A share of a request, on hold or on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Whose it is.
    pub request: RequestId,
    /// Which of its shares.
    pub share: u16,
    /// How much of it.
    pub selection: Selection,
    /// Bytes.
    pub bytes: u64,
    /// Operations.
    pub operations: u64,
    /// Since when it is held.
    pub since: Time,
}
