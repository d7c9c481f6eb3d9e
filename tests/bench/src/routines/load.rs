use std::fmt;

use serde::{Deserialize, Serialize};

/// The work of one run of a routine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The number of requests that arrive at the same time and are merged.
    pub requests: usize,
    /// The number of operations in each request.
    pub documents: usize,
    /// The size of each operation in bytes: action line and document, with their newlines.
    pub bytes: usize,
}

impl Load {
    /// The measured numbers of requests and documents, from one small request to one of 10,000 documents, and many
    /// small ones at once.
    pub const REQUESTS: [(usize, usize); 6] = [(1, 1), (256, 1), (1, 10), (1, 100), (1, 1_000), (1, 10_000)];

    /// The measured sizes of an operation, in bytes.
    pub const BYTES: [usize; 2] = [290, 650];

    /// Returns all measured loads.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_bytes = |bytes| Self::REQUESTS.map(|(requests, documents)| Self { requests, documents, bytes });
        Self::BYTES.into_iter().flat_map(of_bytes)
    }

    /// Returns the number of operations of all requests.
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
