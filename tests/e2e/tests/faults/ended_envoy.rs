use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::fault_scene::Plan;

/// A client with a request in flight gets its answer or a broken connection, but never a wrong answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_survives_envoys_that_are_terminated_and_restarted() -> Result<()> {
    const TIMES: usize = 3;
    let mut scene = Plan::new("Envoy ended").index("ended", json!({})).start().await?;
    let mut load = scene.load("ended", "");
    let before = load.steady_rate().await?;
    let mut recovered = Duration::ZERO;
    for _ in 0..TIMES {
        let terminated = Instant::now();
        scene.restart_envoy().await?;
        load.recovers(before).await?;
        recovered = recovered.max(terminated.elapsed());
    }
    let tally = load.tally.clone();
    scene.end(vec![load], recovered).await?;
    ensure!(tally.broken.get() > 0, "no request was interrupted");
    ensure!(tally.conflicts.get() == 0, "{tally:?}");
    tally.expect_only(&[])
}
