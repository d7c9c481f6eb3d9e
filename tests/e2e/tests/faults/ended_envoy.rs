use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::site::{Plan, expect_only};

/// A client whose answer was on its way gets it, or a broken connection, and never a false one.
#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_that_is_told_to_end_under_load_and_started_again() -> Result<()> {
    const TIMES: usize = 3;
    let mut site = Plan::new("Envoy ended").index("ended", json!({})).start().await?;
    let mut load = site.load("ended", "");
    let before = load.steady_rate().await?;
    let mut recovered = Duration::ZERO;
    for _ in 0..TIMES {
        let asked = Instant::now();
        site.restart_envoy().await?;
        load.recovers(before).await?;
        recovered = recovered.max(asked.elapsed());
    }
    let tally = load.tally.clone();
    site.end(vec![load], recovered).await?;
    ensure!(tally.broken.get() > 0, "nobody noticed");
    ensure!(tally.conflicts.get() == 0, "{tally:?}");
    expect_only(&tally, &[])
}
