use std::time::Duration;

/// What a load has cost.
#[derive(Debug, Clone, Copy)]
pub struct Measurement {
    /// Documents that were written, each on the node that has its primary.
    pub documents: usize,
    /// Batches in which the nodes received them.
    pub batches: u64,
    /// Parts of requests in these batches.
    pub shares: u64,
    /// Processor time of Envoy's worker.
    pub time: Duration,
}

impl Measurement {
    /// Microseconds of the worker for a document.
    pub fn per_document(&self) -> f64 {
        self.time.as_secs_f64() * 1e6 / self.documents as f64
    }

    /// Documents of a batch, on average.
    pub fn documents_of_batch(&self) -> f64 {
        self.documents as f64 / self.batches as f64
    }
}
