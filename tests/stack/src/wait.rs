//! Waits with a deadline.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

const BETWEEN_PROBES: Duration = Duration::from_millis(50);

/// Repeats a probe until it returns a value, at most for `limit`. `what` is the condition for the error message.
///
/// A probe returns `Ok(Some(value))` when the condition holds, `Ok(None)` when it does not hold yet, and an error when
/// it never will. Such an error is returned at once.
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
