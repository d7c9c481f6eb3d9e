use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};

/// Counts what happens to a load's requests.
#[derive(Debug, Default)]
pub struct Tally {
    pub requests: Count,
    /// Operations that were acknowledged.
    pub acknowledged: Count,
    /// Requests whose connection broke.
    pub broken: Count,
    pub refused: Count,
    /// Requests that a client sent again.
    pub repeated: Count,
    /// Operations that had been carried out before: `create` operations on new ids that were refused because the
    /// document already exists, and updates that changed nothing.
    pub conflicts: Count,
    /// The longest time that a client waited for an answer.
    longest: Mutex<Duration>,
    /// The number of failed operations by status, including those of refused requests, each with the first item or
    /// answer that said so.
    failed: Mutex<BTreeMap<u16, (u64, String)>>,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Tally {
    /// Counts operations that failed with this status, as this item or this answer says.
    pub fn fail(&self, status: u16, operations: u64, told: impl fmt::Display) {
        let mut failed = self.failed.lock().unwrap();
        failed.entry(status).or_insert_with(|| (0, told.to_string())).0 += operations;
    }

    /// Records how long a client waited for an answer.
    pub fn took(&self, time: Duration) {
        let mut longest = self.longest.lock().unwrap();
        *longest = time.max(*longest);
    }

    pub fn longest(&self) -> Duration {
        *self.longest.lock().unwrap()
    }

    pub fn failed(&self) -> BTreeMap<u16, u64> {
        let failed = self.failed.lock().unwrap();
        failed.iter().map(|(status, (operations, _))| (*status, *operations)).collect()
    }

    /// Returns an error if operations failed with any other status than these.
    pub fn expect_only(&self, statuses: &[u16]) -> Result<()> {
        let failed = self.failed.lock().unwrap();
        match failed.iter().find(|(status, _)| !statuses.contains(status)) {
            Some((status, (operations, example))) => {
                bail!("{operations} operations failed with {status}: {example}")
            }
            None => Ok(()),
        }
    }

    /// Returns an error if a connection broke, an operation had been carried out before, or operations failed with any
    /// other status than these.
    pub fn check(&self, statuses: &[u16]) -> Result<()> {
        ensure!(self.broken.get() == 0 && self.conflicts.get() == 0, "{self:?}");
        self.expect_only(statuses)
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
