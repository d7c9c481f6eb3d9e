/// The requests that clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// The number of clients. Each sends one request at a time.
    pub clients: usize,
    /// The number of requests of all clients together.
    pub requests: usize,
    /// The number of documents in each request.
    pub documents: usize,
    /// The number of indices that the documents are spread over, round robin.
    pub indices: usize,
    /// The number of further requests of one document that wait for the first node all the time. The others then go to
    /// the other nodes.
    pub waiting: usize,
}

impl Load {
    /// Returns the number of documents that are measured.
    pub fn all_documents(self) -> usize {
        self.requests.saturating_mul(self.documents)
    }
}
