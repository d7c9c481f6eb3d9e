use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_e2e::load::{Load, Writer};
use serde_json::json;

use crate::fault_scene::Plan;

/// An Envoy that gets no CPU for a while then reads more from its sockets at once than its buffers are sized for.
#[tokio::test(flavor = "multi_thread")]
async fn large_requests_survive_an_envoy_without_cpu() -> Result<()> {
    const REQUESTS: u64 = 25;
    let scene = Plan::new("Envoy starved").index("starved", json!({})).start().await?;
    let mut small = scene.load("starved", "");
    let url = scene.envoy.url("/starved/_bulk");
    // About 3 MB each.
    let large = Load::start("starved", (0..2).map(|number| Writer::new(number, url.clone(), 1900..=2100, 1_500)));
    let before = small.steady_rate().await?;
    while large.tally.requests.get() < REQUESTS {
        scene.envoy.pause()?;
        // The duration of the starvation is part of the test.
        tokio::time::sleep(Duration::from_millis(100)).await;
        scene.envoy.resume()?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let recovered = small.recovers(before).await?;
    for tally in scene.end(vec![small, large], recovered).await? {
        // In particular, no 413.
        tally.check(&[])?;
    }
    Ok(())
}
