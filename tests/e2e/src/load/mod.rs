//! Clients that write continuously and record the answers, to be compared with the cluster's documents afterwards.

mod clients;
mod ledger;
mod probe;
mod tally;
mod writer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};

pub use clients::{Clients, write};
pub use ledger::{Ledger, documents};
pub use probe::{Latency, Pace, Probe};
pub use tally::{Count, Tally};
pub use writer::Writer;

const WINDOW: Duration = Duration::from_secs(1);

const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// The time limit for the throughput to recover. On a busy machine, a node that starts again takes 80 s.
const LIMIT: Duration = Duration::from_secs(180);

#[derive(Debug)]
pub struct Load {
    pub index: String,
    pub tally: Arc<Tally>,
    /// Each writer holds a read lock while a request of it is in flight.
    way: Arc<RwLock<()>>,
    writers: Clients<Writer>,
}

impl Load {
    pub fn start(index: &str, writers: impl IntoIterator<Item = Writer>) -> Self {
        let (tally, way) = (Arc::new(Tally::default()), Arc::new(RwLock::new(())));
        let mut clients = Clients::default();
        for writer in writers {
            let (tally, way) = (Arc::clone(&tally), Arc::clone(&way));
            clients.add(writer, move |mut writer: Writer, _| {
                let (tally, way) = (Arc::clone(&tally), Arc::clone(&way));
                async move {
                    writer.wait_due().await;
                    let _way = way.read().await;
                    writer.write(&tally).await?;
                    Ok(writer)
                }
            });
        }
        Self { index: index.to_owned(), tally, way, writers: clients }
    }

    /// Returns the rate once it no longer grows much: the nodes' JIT compiles while they run.
    pub async fn steady_rate(&mut self) -> Result<f64> {
        let start = Instant::now();
        let mut rate = self.rate().await?;
        loop {
            let next = self.rate().await?;
            if rate > 0.0 && next > 0.0 && next <= rate * 1.3 {
                return Ok(next.min(rate));
            }
            ensure!(start.elapsed() < LIMIT, "{next:.0} operations per second after {LIMIT:?}");
            rate = next;
        }
    }

    /// Waits until the writers have sent this many more requests. Returns an error if a writer has failed.
    pub async fn sends(&mut self, requests: u64) -> Result<()> {
        let (start, end) = (Instant::now(), self.tally.requests.get() + requests);
        while self.tally.requests.get() < end {
            ensure!(start.elapsed() < LIMIT, "not {requests} requests after {LIMIT:?}");
            self.writers.check()?;
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        Ok(())
    }

    /// Measures the acknowledged operations per second for a while. Returns an error if a writer has failed.
    pub async fn rate(&mut self) -> Result<f64> {
        let (start, before) = (Instant::now(), self.tally.acknowledged.get());
        tokio::time::sleep(WINDOW).await;
        self.writers.check()?;
        Ok((self.tally.acknowledged.get() - before) as f64 / start.elapsed().as_secs_f64())
    }

    /// Waits until the throughput is back at half of an earlier rate. Returns how long that took.
    pub async fn recovers(&mut self, before: f64) -> Result<Duration> {
        let start = Instant::now();
        loop {
            let waited = start.elapsed();
            let rate = self.rate().await?;
            if rate >= before / 2.0 {
                return Ok(waited);
            }
            if waited > LIMIT {
                bail!("{rate:.0} operations per second after {waited:?}, {before:.0} before");
            }
        }
    }

    /// Waits until every request is answered. The writers send nothing until the returned guard is dropped.
    pub async fn pause(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.way).write_owned().await
    }

    /// Waits until every request is answered, and ends the load.
    pub async fn end(self) -> Result<(Ledger, Arc<Tally>)> {
        let mut ledger = Ledger::default();
        for writer in self.writers.end().await? {
            ledger.add(writer.into_ledger());
        }
        Ok((ledger, self.tally))
    }
}
