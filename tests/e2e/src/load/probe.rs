use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// A client that repeats a request and measures the latency, from its own thread.
///
/// The test's own threads may be busy for long, for example with the answers of scripted nodes.
#[derive(Debug)]
pub struct Probe {
    is_over: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
    thread: JoinHandle<Result<Latency>>,
}

#[derive(Debug, Default)]
pub struct Latency {
    pub longest: Duration,
    pub error: Option<anyhow::Error>,
}

/// The time of a probe's next request.
#[derive(Debug, Clone, Copy)]
pub enum Pace {
    /// This long after the last answer.
    After(Duration),
    /// At this interval, but not before the last answer.
    Every(Duration),
}

impl Probe {
    /// Starts a probe. `request` sends a request and checks the answer; its client must be new, because a client
    /// belongs to the runtime of its first request.
    pub fn start<F>(pace: Pace, request: impl Fn() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<()>>,
    {
        let (is_over, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let thread = std::thread::spawn({
            let (is_over, answers) = (Arc::clone(&is_over), Arc::clone(&answers));
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                Ok(runtime.block_on(repeat(pace, request, &is_over, &answers)))
            }
        });
        Self { is_over, answers, thread }
    }

    /// Returns how many requests were answered or failed.
    pub fn answers(&self) -> usize {
        self.answers.load(Ordering::Relaxed)
    }

    /// Stops the probe after its current request, and returns its results.
    pub async fn end(self) -> Result<Latency> {
        self.is_over.store(true, Ordering::Relaxed);
        let thread = tokio::task::spawn_blocking(|| self.thread.join()).await?;
        thread.map_err(|_| anyhow!("the probe panicked"))?
    }
}

async fn repeat<F>(pace: Pace, request: impl Fn() -> F, is_over: &AtomicBool, answers: &AtomicUsize) -> Latency
where
    F: Future<Output = Result<()>>,
{
    let (Pace::After(period) | Pace::Every(period)) = pace;
    let mut ticks = tokio::time::interval(period);
    let mut latency = Latency::default();
    while !is_over.load(Ordering::Relaxed) {
        ticks.tick().await;
        let begun = Instant::now();
        if let Err(error) = request().await {
            latency.error.get_or_insert(error);
        }
        latency.longest = latency.longest.max(begun.elapsed());
        answers.fetch_add(1, Ordering::Relaxed);
        if let Pace::After(_) = pace {
            ticks.reset();
        }
    }
    latency
}

#[cfg(test)]
mod tests {
    use anyhow::bail;
    use bulk_reshuffle_stack::wait;

    use super::*;

    #[tokio::test]
    async fn a_probe_measures_the_longest_latency_and_keeps_the_first_error() {
        const SLOW: Duration = Duration::from_millis(50);
        for pace in [Pace::After(Duration::from_millis(1)), Pace::Every(Duration::from_millis(1))] {
            let requests = Arc::new(AtomicUsize::new(0));
            let probe = Probe::start(pace, move || {
                let number = requests.fetch_add(1, Ordering::Relaxed);
                async move {
                    match number {
                        1 => tokio::time::sleep(SLOW).await,
                        2 | 3 => bail!("request {number} failed"),
                        _ => {}
                    }
                    Ok(())
                }
            });
            let limit = Duration::from_secs(10);
            wait::until(limit, "five answers", async || Ok((probe.answers() >= 5).then_some(()))).await.unwrap();
            let latency = probe.end().await.unwrap();
            assert!(latency.longest >= SLOW, "{latency:?}");
            assert_eq!(latency.error.unwrap().to_string(), "request 2 failed");
        }
    }
}
