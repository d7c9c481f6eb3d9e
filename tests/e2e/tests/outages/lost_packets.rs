//! A node that vanishes: the kernel drops its packets. A relay that is silent would still acknowledge what it receives.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::black_hole::BlackHole;
use crate::scene::Scene;
use crate::work::Work;
use crate::writers::Pace;

/// How long an outage lasts: longer than a request may take.
const OUTAGE: Duration = Duration::from_secs(45);

/// The longest time that a request may take: that after which a connection without acknowledgements is given up, in all
/// configurations, and time for two further attempts.
const LONGEST: Duration = Duration::from_secs(20 + 15);

const PACE: Pace = Pace { writers: 8, period: Duration::from_millis(100) };

/// Without a limit to unacknowledged data, requests would wait until their time-outs.
#[tokio::test(flavor = "multi_thread")]
async fn packets_to_a_node_vanish() -> Result<()> {
    let mut scene = Scene::start("lost").await?;
    BlackHole::prepare()?;
    let ways = scene.ways();
    let writers = scene.write(&ways, &[Work::Index], 0, PACE).await?;
    let hole = scene.lose_packets_to(1)?;
    // The duration of the outage is part of the test.
    tokio::time::sleep(OUTAGE).await;
    hole.close()?;
    for outcome in scene.read(writers).await? {
        outcome.print("packets to a node vanish");
        let noticed = &outcome.noticed;
        let is_bounded = noticed.failed() == 0 && noticed.longest < LONGEST;
        ensure!(!outcome.way.has_filter || is_bounded, "{}: {noticed}", outcome.way.name);
    }
    scene.end().await
}
