use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::load::Load;
use bulk_reshuffle_stack::wait;
use serde_json::json;

use crate::site::{Plan, Site, expect_only};

const LIMIT: Duration = Duration::from_secs(180);

/// As shipped.
const REFRESH: Duration = Duration::from_secs(5);

impl Site {
    /// The nodes that have a primary of an index, as another node sees it; none if a primary is missing.
    async fn primaries(&self, index: &str) -> Result<Option<BTreeSet<String>>> {
        let shards = self.client.get_json(&self.direct(0, &format!("/_cat/shards/{index}?format=json"))?).await?;
        let shards = shards.as_array().context("no shards")?.iter().filter(|shard| shard["prirep"] == "p");
        Ok(shards
            .map(|shard| (shard["state"] == "STARTED").then(|| shard["node"].as_str().map(str::to_owned))?)
            .collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_killed_and_started_again() -> Result<()> {
    let copied = json!({"number_of_replicas": 1});
    let plan = Plan::new("node killed").index("copied", copied).index("single", json!({}));
    let mut site = plan.witnessed().start().await?;
    // Small requests only: the node has to catch up with all that is written meanwhile.
    let small = |index, query| Load::start(index, site.writers(index, query).take(5));
    // Without copies writing has to wait for the node; not for a minute here.
    let (mut copied, mut single) = (small("copied", ""), small("single", "?timeout=1s"));
    let (copied_before, single_before) = (copied.steady_rate().await?, single.steady_rate().await?);
    let primaries = site.primaries("copied").await?.context("a primary is missing")?;
    ensure!(primaries.contains("es-1"), "{primaries:?}");

    let killed = Instant::now();
    site.kill(1).await?;
    wait::until(LIMIT, "the copies take over", async || {
        Ok(site.primaries("copied").await?.filter(|primaries| !primaries.contains("es-1")))
    })
    .await?;
    let promoted = Instant::now();
    // What has no copy passes on whole with all that comes with it, until the node is back.
    let astray = site.witness()?.astray_after("copied", promoted, REFRESH).await?;
    copied.recovers(copied_before).await?;
    println!(
        "node killed: its copies took over after {:.1?}; operations went astray until {astray:.1?} after that; writing \
         to them was normal {:.1?} after the end",
        promoted - killed,
        killed.elapsed()
    );

    let restarted = Instant::now();
    site.restart(1).await?;
    let back = Instant::now();
    let astray = site.witness()?.astray_after("single", back, REFRESH).await?;
    println!(
        "node killed: started again, and green, after {:.1?}; operations went astray until {astray:.1?} after that",
        back - restarted
    );
    copied.recovers(copied_before).await?;
    single.recovers(single_before).await?;
    let tallies = [copied.tally.clone(), single.tally.clone()];
    site.end(vec![copied, single], restarted.elapsed()).await?;
    for tally in tallies {
        ensure!(tally.broken.get() == 0, "{tally:?}");
        // When a primary fails while it writes, the coordinating node asks the copy, which may have the document.
        expect_only(&tally, &[500, 503, 504, 409])?;
    }
    Ok(())
}
