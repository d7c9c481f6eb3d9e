//! Waiting for a condition, with a deadline.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

const BETWEEN_PROBES: Duration = Duration::from_millis(50);

/// Probes until the probe yields a value, at most for `limit`.
///
/// A probe answers `Ok(Some(value))` when the condition holds, `Ok(None)` when it does not hold yet, and an error
/// when it never will; that error is returned at once.
pub async fn until<T, F>(limit: Duration, what: &str, mut probe: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = probe().await? {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            return Err(anyhow!("timed out after {} s waiting until {what}", limit.as_secs_f64()));
        }
        tokio::time::sleep(BETWEEN_PROBES).await;
    }
}
