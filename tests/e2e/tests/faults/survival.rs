//! Faults of nodes and of Envoy under load, after which the throughput recovers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::check_filter;
use bulk_reshuffle_e2e::load::{Load, Writer};
use bulk_reshuffle_stack::wait;
use serde_json::{Value, json};

use crate::LIMIT;
use crate::backend::Backend;
use crate::cutter::Cutter;
use crate::fault_scene::{FaultScene, Plan, counted, writers_to};

const REFRESH: Duration = Duration::from_secs(1);

/// If nothing of an answer arrived, operations that may be carried out twice are retried. Otherwise their outcome is
/// unknown.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_survives_connections_reset_before_and_within_answers() -> Result<()> {
    let plan = ["mixed", "idempotent", "single"].into_iter();
    let plan = plan.fold(Plan::new("answers broken off"), |plan, index| plan.index(index, json!({})));
    let scene = plan.config("single_documents", json!(true)).cut().start().await?;
    let mut mixed = scene.load("mixed", "");
    let mut idempotent = Load::start("idempotent", scene.writers("idempotent", "").map(Writer::idempotent));
    let mut single = Load::start("single", scene.writers("single", "").map(Writer::appending).map(Writer::single));
    let (mixed_before, idempotent_before) = (mixed.steady_rate().await?, idempotent.steady_rate().await?);
    let single_before = single.steady_rate().await?;
    scene.cutters.iter().for_each(|cutter| cutter.cut(7));
    let cuts = || scene.cutters.iter().map(Cutter::cuts).sum::<usize>();
    wait::until(LIMIT, "answers to both loads are broken off", async || {
        let retried = scene.counted("batches_retried_total").await?;
        let unknown = [&mixed, &single].into_iter().all(|load| load.tally.failed().contains_key(&503));
        Ok((cuts() >= 60 && unknown && retried >= 10).then_some(()))
    })
    .await?;
    scene.cutters.iter().for_each(|cutter| cutter.cut(0));
    let recovered = mixed.recovers(mixed_before).await?.max(idempotent.recovers(idempotent_before).await?);
    let recovered = recovered.max(single.recovers(single_before).await?);
    ensure!(scene.counted("single_documents_total").await? > 100, "no single documents were merged");
    let retried = scene.counted("batches_retried_total").await?;
    println!("answers broken off: {} connections reset, {retried} batches retried", cuts());
    for tally in scene.end(vec![mixed, idempotent, single], recovered).await? {
        tally.check(&[503])?;
    }
    Ok(())
}

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

/// The node's operations time out with an unknown outcome, since the node may carry them out when it resumes.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_survives_a_node_that_hangs_and_resumes() -> Result<()> {
    let elsewhere = json!({"number_of_shards": 1, "routing.allocation.require._name": "es-0"});
    let plan = Plan::new("node hung").alone().index("spread", json!({})).index("elsewhere", elsewhere);
    let mut scene = plan.config("dispatch", json!({"timeout": "10s"})).start().await?;
    let mut spread = scene.load("spread", "");
    // No documents without an id: those go to any node, including the hung one. Small requests only, because a large one
    // may itself take longer than the time-out on a slow machine.
    let mut elsewhere = Load::start("elsewhere", scene.writers("elsewhere", "").take(8).map(Writer::idempotent));
    let (spread_before, elsewhere_before) = (spread.steady_rate().await?, elsewhere.steady_rate().await?);
    scene.backend.cluster()?.pause(1)?;
    let time_out = async || Ok(spread.tally.failed().contains_key(&504).then_some(()));
    wait::until(LIMIT, "requests time out", time_out).await?;
    // A client that writes nothing to the hung node is not affected.
    let meanwhile = elsewhere.recovers(elsewhere_before).await?;
    scene.backend.cluster()?.resume(1)?;
    let recovered = spread.recovers(spread_before).await?;
    println!(
        "node hung: {elsewhere_before:.0} operations per second to another node, also {meanwhile:.1?} after a time-out"
    );
    let tallies = scene.end(vec![spread, elsewhere], recovered).await?;
    tallies[0].check(&[504])?;
    tallies[1].check(&[])
}

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

impl Backend {
    /// Makes the nodes refuse every body larger than this with 429.
    async fn limit_requests(&self, limit: Value) -> Result<()> {
        self.set(json!({"network.breaker.inflight_requests.limit": limit})).await
    }
}

/// The nodes refuse for longer than the shipped configuration retries.
#[tokio::test(flavor = "multi_thread")]
async fn while_nodes_refuse_every_request_a_patient_filter_retries_and_other_clients_get_429() -> Result<()> {
    let plan = Plan::new("all refused").alone().index("refused", json!({})).index("retried", json!({}));
    let scene = plan.start().await?;
    let retry = json!({"coordinator": "es", "retry": {"attempts": 40, "max_backoff": "1s"}});
    let patient = scene.start_beside("patient", &retry).await?;
    let mut refused = scene.load("refused", "");
    let mut retried = Load::start("retried", writers_to(&patient, "retried", ""));
    let (refused_before, retried_before) = (refused.steady_rate().await?, retried.steady_rate().await?);
    scene.backend.limit_requests(json!("100b")).await?;
    wait::until(LIMIT, "the shipped filter gives up, and the patient one retries", async || {
        let retries = counted(&patient, "batches_retried_total").await?;
        Ok((retries > 0 && refused.tally.failed().contains_key(&429)).then_some(()))
    })
    .await?;
    scene.backend.limit_requests(Value::Null).await?;
    let end = Instant::now();
    retried.recovers(retried_before).await?;
    refused.recovers(refused_before).await?;
    let recovered = end.elapsed();
    println!("all refused: {} batches retried", counted(&patient, "batches_retried_total").await?);
    let tallies = scene.verify(vec![refused, retried]).await?;
    check_filter(&patient).await?;
    patient.stop().await?;
    scene.stop(recovered).await?;
    ensure!(tallies[0].failed().contains_key(&429), "no request was refused");
    tallies[0].check(&[429])?;
    tallies[1].check(&[])
}
