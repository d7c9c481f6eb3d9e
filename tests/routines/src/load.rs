use std::fmt;

use serde::{Deserialize, Serialize};

/// What is asked of a routine in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Requests that come at the same time and are merged.
    pub requests: usize,
    /// Operations of each.
    pub documents: usize,
    /// Bytes of each operation: action line and document, with their newlines.
    pub bytes: usize,
}

impl Load {
    /// The requests that are measured, from one small one to one of 10,000 documents, and many small ones at once.
    pub const REQUESTS: [(usize, usize); 6] = [(1, 1), (256, 1), (1, 10), (1, 100), (1, 1_000), (1, 10_000)];

    /// Bytes of an operation that are measured.
    pub const BYTES: [usize; 2] = [290, 650];

    /// All loads that are measured.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_bytes = |bytes| Self::REQUESTS.map(|(requests, documents)| Self { requests, documents, bytes });
        Self::BYTES.into_iter().flat_map(of_bytes)
    }

    /// Operations of all requests.
    pub fn operations(self) -> usize {
        self.requests.saturating_mul(self.documents)
    }
}

impl fmt::Display for Load {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, documents, bytes } = self;
        write!(formatter, "{requests} x {documents} of {bytes} B")
    }
}
