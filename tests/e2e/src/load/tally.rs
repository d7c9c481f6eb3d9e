use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counts what happens to a load's requests.
#[derive(Debug, Default)]
pub struct Tally {
    /// Requests that were sent.
    pub requests: Count,
    /// Operations that were acknowledged.
    pub acknowledged: Count,
    /// Requests whose connection broke.
    pub broken: Count,
    /// Requests that were refused as a whole.
    pub refused: Count,
    /// How often a request was sent again by its client.
    pub repeated: Count,
    /// Creations of new documents that were refused because they are there already.
    pub conflicts: Count,
    /// Operations that failed by status, also in responses that refused a request as a whole.
    failed: Mutex<BTreeMap<u16, u64>>,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Lets it grow.
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Tally {
    /// So many operations failed with this status.
    pub fn fail(&self, status: u16, operations: u64) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner).entry(status).or_default() += operations;
    }

    /// Operations that failed, by status.
    pub fn failed(&self) -> BTreeMap<u16, u64> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (requests, acknowledged) = (self.requests.get(), self.acknowledged.get());
        write!(formatter, "{requests} requests, {acknowledged} operations acknowledged")?;
        for (status, operations) in self.failed() {
            write!(formatter, ", {operations} failed with {status}")?;
        }
        let counts = [
            (&self.refused, "were refused"),
            (&self.broken, "lost their connection"),
            (&self.repeated, "were sent again by their clients"),
        ];
        for (count, what) in counts {
            if count.get() > 0 {
                write!(formatter, ", {} requests {what}", count.get())?;
            }
        }
        Ok(())
    }
}
