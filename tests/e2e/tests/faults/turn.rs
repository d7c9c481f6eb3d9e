use std::time::Instant;

use anyhow::Result;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many tests run at the same time, in addition to one that changes its cluster: more would only slow each other
/// down.
const TESTS: usize = 3;

static TURNS: Semaphore = Semaphore::const_new(TESTS);

/// A test's turn. At its end, it prints how long the test took without its wait for the turn.
pub struct Turn {
    _permit: Option<SemaphorePermit<'static>>,
    begun: Instant,
}

impl Turn {
    /// Waits for a turn.
    pub async fn wait() -> Result<Self> {
        Ok(Self { _permit: Some(TURNS.acquire().await?), begun: Instant::now() })
    }

    /// Begins the turn of a test that has waited for something else.
    pub fn begin() -> Self {
        Self { _permit: None, begun: Instant::now() }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let test = std::thread::current();
        println!("{}: {:.0} s", test.name().unwrap_or_default(), self.begun.elapsed().as_secs_f64());
    }
}
