//! An Envoy that is killed and started again at once, with its own clients.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::proxy::Kind;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::work::Work;
use crate::writers::Pace;

const PACE: Pace = Pace { writers: 4, period: Duration::from_millis(100) };

const KILLED: [Kind; 2] = [Kind::Each, Kind::Plain];

const KILLS: usize = 2;

/// The time between two kills.
const BETWEEN: Duration = Duration::from_secs(2);

impl Stage {
    /// Kills Envoys, one after the other, and starts each again at once. Returns the names of the ways through them.
    async fn kill_envoys(&mut self) -> Result<BTreeSet<&'static str>> {
        let Self { cluster, proxies, folder } = self;
        let mut killed = BTreeSet::new();
        for _ in 0..KILLS {
            for proxy in proxies.iter_mut().filter(|proxy| KILLED.contains(&proxy.kind)) {
                let begun = Instant::now();
                proxy.kill_and_restart(cluster, folder).await?;
                println!("{}: ready again after {:.1?}", proxy.way().name, begun.elapsed());
                killed.insert(proxy.way().name);
            }
            // The time without an event is part of the test.
            tokio::time::sleep(BETWEEN).await;
        }
        Ok(killed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_is_killed_and_started_again() -> Result<()> {
    let mut scene = Scene::start("killed").await?;
    let ways = scene.ways();
    let writers = scene.write(&ways, &[Work::Index, Work::Create], 1, PACE).await?;
    let killed = scene.stage.kill_envoys().await?;
    for outcome in scene.read(writers).await? {
        outcome.print("an Envoy is killed");
        let noticed = &outcome.noticed;
        let is_killed = killed.contains(&outcome.way.name);
        // A writer may lose a second request, on a connection that the kernel closes later than its first.
        let most = if is_killed { 2 * KILLS * PACE.writers } else { 0 };
        let is_its_own = noticed.failed_except(&["connection lost"]) == 0 && noticed.failed() <= most;
        ensure!(is_its_own, "{}: {noticed}", outcome.way.name);
    }
    scene.end().await
}
