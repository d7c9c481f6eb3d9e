use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::load::Load;
use bulk_reshuffle_stack::wait;
use serde_json::{Value, json};

use crate::LIMIT;
use crate::fault_scene::{FaultScene, Plan};

const REFRESH: Duration = Duration::from_secs(2);

impl FaultScene {
    /// Returns the number and the node's name of each shard of an index.
    async fn placement(&self, index: &str) -> Result<Vec<(u64, String)>> {
        let shards = self.backend.get(&format!("/_cat/shards/{index}?format=json")).await?;
        let read = |shard: &Value| Some((shard["shard"].as_str()?.parse().ok()?, shard["node"].as_str()?.to_owned()));
        shards.as_array().context("no shards")?.iter().map(|shard| read(shard).context("no shard")).collect()
    }

    /// Makes a change that moves primaries. Prints how long operations were misrouted after the last move.
    async fn print_misrouted_by(
        &self,
        load: &Load,
        what: &str,
        change: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<()> {
        let begun = Instant::now();
        change().await?;
        let moved = wait::until(LIMIT, "primaries have moved and are stable", async || {
            let health = self.backend.get("/_cluster/health").await?;
            let moving = ["relocating_shards", "initializing_shards"].iter().any(|kind| health[kind] != 0);
            Ok(if moving { None } else { self.witness()?.moved(begun) })
        })
        .await?;
        let last = self.misrouted_after(load, moved, REFRESH).await?;
        let (all, wrong) = self.witness()?.since("moved", begun);
        println!(
            "relocation, {what}: moved within {:.1?}, {wrong} of {all} operations were misrouted, until {last:.1?} after it",
            moved - begun
        );
        ensure!(wrong > 0, "no operation was misrouted: no primary has moved");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_follow_primaries_that_move_between_nodes() -> Result<()> {
    let plan = Plan::new("relocation").alone().index("moved", json!({}));
    let scene = plan.config("cluster_state", json!({"refresh": "2s"})).witnessed().start().await?;
    // Primaries stay where the test puts them.
    scene.backend.set(json!({"cluster.routing.rebalance.enable": "none"})).await?;
    // Small requests, because all documents are copied in a relocation.
    let mut load = Load::start("moved", scene.writers("moved", "").take(6));
    let before = load.steady_rate().await?;
    scene.wait_routed("moved").await?;

    scene
        .print_misrouted_by(&load, "two primaries by reroute", async || {
            let places = scene.placement("moved").await?;
            let moves = places.iter().take(2).map(|(shard, node)| {
                let to = if node == "es-0" { "es-1" } else { "es-0" };
                json!({"move": {"index": "moved", "shard": shard, "from_node": node, "to_node": to}})
            });
            let commands = json!({"commands": moves.collect::<Vec<_>>()});
            scene.backend.post("/_cluster/reroute", commands).await.map(|_| ())
        })
        .await?;
    scene
        .print_misrouted_by(&load, "a node emptied", async || {
            scene.backend.set(json!({"cluster.routing.allocation.exclude._name": "es-2"})).await
        })
        .await?;
    ensure!(scene.placement("moved").await?.iter().all(|(_, node)| node != "es-2"), "es-2 is not empty");
    let counted = async || scene.envoy.counter("wasmcustom.bulk_reshuffle_batches_total.upstream.es-2").await;
    let batches = counted().await?;
    load.rate().await?;
    ensure!(counted().await? == batches, "the empty node still gets batches");
    scene
        .print_misrouted_by(&load, "the node filled again", async || {
            let settings =
                json!({"cluster.routing.allocation.exclude._name": null, "cluster.routing.rebalance.enable": "all"});
            scene.backend.set(settings).await
        })
        .await?;

    let recovered = load.recovers(before).await?;
    scene.end(vec![load], recovered).await?.iter().try_for_each(|tally| tally.check(&[]))
}
