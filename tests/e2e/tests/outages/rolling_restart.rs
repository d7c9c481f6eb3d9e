//! The nodes restarted one after the other, as an operator does it who waits until the cluster is green each time.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::LIMIT;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::work::Work;
use crate::writers::{Outcome, Pace};

const PACE: Pace = Pace { writers: 4, period: Duration::from_millis(400) };

impl Stage {
    /// Restarts all nodes, one after the other.
    async fn restart_nodes(&mut self) -> Result<()> {
        for node in 0..self.cluster.len() {
            let begun = Instant::now();
            self.cluster.shut_down(node).await?;
            let ended = begun.elapsed();
            self.cluster.restart(node).await?;
            self.cluster.wait_green(LIMIT).await?;
            println!("node {node} ended after {ended:.1?}; it was back, and green, after {:.1?}", begun.elapsed());
        }
        Ok(())
    }
}

/// With the filter, only operations that must not be carried out twice may fail. A node that repeats a `create` on the
/// replica, because the primary's node has ended, may find its own document there (409).
fn check(outcome: &Outcome) -> Result<()> {
    let allowed: &[&str] = if outcome.work == Work::Index { &[] } else { &["item 409", "item 503"] };
    let is_fine = !outcome.way.has_filter || outcome.noticed.failed_except(allowed) == 0;
    ensure!(is_fine, "{}, {:?}: {}", outcome.way.name, outcome.work, outcome.noticed);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_restarted_one_after_the_other() -> Result<()> {
    let mut scene = Scene::start("restarted").await?;
    let ways: Vec<_> = scene.ways().into_iter().chain([scene.direct()]).collect();
    let writers = scene.write(&ways, &[Work::Index, Work::Create], 1, PACE).await?;
    scene.stage.restart_nodes().await?;
    let outcomes = scene.read(writers).await?;
    outcomes.iter().for_each(|outcome| outcome.print("nodes are restarted"));
    outcomes.iter().try_for_each(check)?;
    scene.end().await
}
