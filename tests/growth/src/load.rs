/// What clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Each has one request at a time.
    pub clients: usize,
    /// Requests of all clients together.
    pub requests: usize,
    /// Documents of each.
    pub documents: usize,
    /// How many indices they are for, in turn.
    pub indices: usize,
    /// Further requests of one document, which wait for the first node all the time. The others go to other nodes then.
    pub waiting: usize,
}

impl Load {
    /// Documents that are measured.
    pub fn all_documents(self) -> usize {
        self.requests.saturating_mul(self.documents)
    }
}
