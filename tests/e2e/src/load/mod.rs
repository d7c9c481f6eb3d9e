//! Clients that write all the time and remember what they were told, and what is in the cluster afterwards.

mod contents;
mod ledger;
mod tally;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use tokio::task::JoinSet;

pub use contents::documents;
pub use ledger::Ledger;
pub use tally::{Count, Tally};
pub use writer::Writer;

/// How long the throughput is measured.
const WINDOW: Duration = Duration::from_secs(2);

/// How long the throughput may take to come back.
const LIMIT: Duration = Duration::from_secs(90);

/// Writers that write all the time.
#[derive(Debug)]
pub struct Load {
    /// The index that they write to.
    pub index: String,
    /// What became of their requests so far.
    pub tally: Arc<Tally>,
    is_over: Arc<AtomicBool>,
    /// Each writer has it as long as a request of his is on its way.
    way: Arc<RwLock<()>>,
    writers: JoinSet<Result<Ledger>>,
}

impl Load {
    /// Lets all of them write at once.
    pub fn start(index: &str, writers: impl IntoIterator<Item = Writer>) -> Self {
        let (tally, is_over) = (Arc::new(Tally::default()), Arc::new(AtomicBool::new(false)));
        let way = Arc::new(RwLock::new(()));
        let mut set = JoinSet::new();
        for mut writer in writers {
            let (tally, is_over, way) = (Arc::clone(&tally), Arc::clone(&is_over), Arc::clone(&way));
            set.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let _way = way.read().await;
                    writer.write(&tally).await?;
                }
                Ok(writer.into_ledger())
            });
        }
        Self { index: index.to_owned(), tally, is_over, way, writers: set }
    }

    /// The rate once it no longer grows much: the nodes' code is compiled while it runs.
    pub async fn steady_rate(&mut self) -> Result<f64> {
        let start = Instant::now();
        let mut rate = self.rate().await?;
        loop {
            let next = self.rate().await?;
            if rate > 0.0 && next > 0.0 && next <= rate * 1.3 {
                return Ok(next.min(rate));
            }
            ensure!(start.elapsed() < LIMIT, "{next:.0} operations in a second after {LIMIT:?}");
            rate = next;
        }
    }

    /// Acknowledged operations in a second, from now on for a while. An error if a writer has given up.
    pub async fn rate(&mut self) -> Result<f64> {
        let (start, before) = (Instant::now(), self.tally.acknowledged.get());
        tokio::time::sleep(WINDOW).await;
        if let Some(ended) = self.writers.try_join_next() {
            ended?.context("a writer gave up")?;
        }
        Ok((self.tally.acknowledged.get() - before) as f64 / start.elapsed().as_secs_f64())
    }

    /// Waits until half of an earlier throughput is back; says how long that took.
    pub async fn recovers(&mut self, before: f64) -> Result<Duration> {
        let start = Instant::now();
        loop {
            let waited = start.elapsed();
            let rate = self.rate().await?;
            if rate >= before / 2.0 {
                return Ok(waited);
            }
            if waited > LIMIT {
                bail!("{rate:.0} operations in a second after {waited:?}, {before:.0} before");
            }
        }
    }

    /// Waits until every request is answered; none is sent until what this returns is dropped.
    pub async fn pause(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.way).write_owned().await
    }

    /// Ends it, once every request is answered.
    pub async fn end(mut self) -> Result<(Ledger, Arc<Tally>)> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut ledger = Ledger::default();
        while let Some(writer) = self.writers.join_next().await {
            ledger.add(writer?.context("a writer gave up")?);
        }
        Ok((ledger, self.tally))
    }
}
