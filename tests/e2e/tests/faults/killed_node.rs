use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::load::Load;
use bulk_reshuffle_stack::wait;
use serde_json::json;

use crate::fault_scene::{FaultScene, Plan};

const LIMIT: Duration = Duration::from_secs(180);

const REFRESH: Duration = Duration::from_secs(1);

impl FaultScene {
    /// Returns the nodes with a primary of an index, as node 0 reports them, or `None` if a primary is missing.
    async fn primaries(&self, index: &str) -> Result<Option<BTreeSet<String>>> {
        let shards = self.backend.get(&format!("/_cat/shards/{index}?format=json")).await?;
        let shards = shards.as_array().context("no shards")?.iter().filter(|shard| shard["prirep"] == "p");
        Ok(shards
            .map(|shard| (shard["state"] == "STARTED").then(|| shard["node"].as_str().map(str::to_owned))?)
            .collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_survives_a_node_that_is_killed_and_restarted() -> Result<()> {
    let copied = json!({"number_of_replicas": 1});
    let plan = Plan::new("node killed").alone().index("copied", copied).index("single", json!({}));
    let mut scene = plan.config("cluster_state", json!({"refresh": "1s"})).witnessed().start().await?;
    // Small requests only, because the node must catch up with all writes made meanwhile.
    let small = |index, query| Load::start(index, scene.writers(index, query).take(5));
    // Without replicas, a write waits for the node: here one second instead of the default minute.
    let (mut copied, mut single) = (small("copied", ""), small("single", "?timeout=1s"));
    let (copied_before, single_before) = (copied.steady_rate().await?, single.steady_rate().await?);
    let primaries = scene.primaries("copied").await?.context("a primary is missing")?;
    ensure!(primaries.contains("es-1"), "{primaries:?}");

    let killed = Instant::now();
    scene.kill(1).await?;
    wait::until(LIMIT, "the copies take over", async || {
        Ok(scene.primaries("copied").await?.filter(|primaries| !primaries.contains("es-1")))
    })
    .await?;
    let promoted = Instant::now();
    // Until the node is back, a request with an operation on a shard without replicas passes through unchanged.
    let misrouted = scene.misrouted_after(&copied, promoted, REFRESH).await?;
    copied.recovers(copied_before).await?;
    println!(
        "node killed: its copies took over after {:.1?}; operations were misrouted until {misrouted:.1?} after that; the \
         throughput was normal {:.1?} after the node was killed",
        promoted - killed,
        killed.elapsed()
    );

    let restarted = Instant::now();
    scene.restart(1).await?;
    let back = Instant::now();
    let misrouted = scene.misrouted_after(&single, back, REFRESH).await?;
    println!(
        "node killed: started again, and green, after {:.1?}; operations were misrouted until {misrouted:.1?} after that",
        back - restarted
    );
    copied.recovers(copied_before).await?;
    single.recovers(single_before).await?;
    for tally in scene.end(vec![copied, single], restarted.elapsed()).await? {
        ensure!(tally.broken.get() == 0, "{tally:?}");
        // When a primary fails during a write, the coordinating node retries on the replica, which may have the document.
        tally.expect_only(&[500, 503, 504, 409])?;
    }
    Ok(())
}
