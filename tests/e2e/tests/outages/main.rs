//! What writers notice of an outage with the filter, and without it: three Envoys are in front of the same three
//! OpenSearch nodes at the same time.
//!
//! The kernel drops packets, in a private network: a relay that is silent would still acknowledge what it receives.

mod black_hole;
mod scene;
mod writers;

use std::time::Duration;

use anyhow::{Result, ensure};

use scene::Scene;

/// How long an outage lasts: longer than a request may take.
const OUTAGE: Duration = Duration::from_secs(45);

/// The longest time that a request may take: that after which a connection without acknowledgements is given up, in all
/// configurations, and time for two further attempts.
const LIMIT: Duration = Duration::from_secs(20 + 15);

/// Without a limit to unacknowledged data, requests would wait until their time-outs.
#[tokio::test(flavor = "multi_thread")]
async fn packets_to_a_node_vanish() -> Result<()> {
    let scene = Scene::start().await?;
    let writers = scene.write().await?;
    let hole = scene.lose_packets_to(1)?;
    // The duration of the outage is part of the test.
    tokio::time::sleep(OUTAGE).await;
    hole.close()?;
    for (name, noticed) in writers.end().await? {
        println!("packets to a node vanish for {OUTAGE:?}, {name}: {noticed}");
        let has_filter = name != scene::PLAIN;
        ensure!(!has_filter || noticed.failed.is_empty() && noticed.longest < LIMIT, "{name}: {noticed}");
    }
    scene.end().await
}
