use std::time::Duration;

/// The cost of a load.
#[derive(Debug, Clone, Copy)]
pub struct Measurement {
    /// The number of documents written, each on the node that has its primary.
    pub documents: usize,
    /// The number of batches in which the nodes received them.
    pub batches: u64,
    /// The number of parts of requests in these batches.
    pub shares: u64,
    /// The processor time of Envoy's worker.
    pub time: Duration,
}

impl Measurement {
    /// Returns the worker's time for a document, in microseconds.
    pub fn per_document(&self) -> f64 {
        self.time.as_secs_f64() * 1e6 / self.documents as f64
    }

    /// Returns the average number of documents in a batch.
    pub fn documents_of_batch(&self) -> f64 {
        self.documents as f64 / self.batches as f64
    }

    /// Returns the average number of requests in a batch.
    pub fn requests_of_batch(&self) -> f64 {
        self.shares as f64 / self.batches as f64
    }
}
