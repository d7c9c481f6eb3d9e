//! `envoy/front.yaml`: two Envoys with the filter, which share nothing but the cluster, behind one front.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::load::{Load, Tally};
use bulk_reshuffle_e2e::{ClusterScript, FakeCluster, Reaction};
use bulk_reshuffle_stack::wait;
use serde_json::json;

use crate::fleet::{Arrangement, Fleet};
use crate::site::{Plan, expect_only};

const LIMIT: Duration = Duration::from_secs(90);

/// What a node takes for a batch where the size of batches is the subject: always the same, whatever else happens on
/// the machine.
const BATCH_TIME: Duration = Duration::from_millis(50);

fn tenant(number: u64) -> String {
    format!("tenant-{number}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_requests_meet_in_one_replica() -> Result<()> {
    const TENANTS: u64 = 16;
    let site = Plan::new("replicas").start().await?;
    let fleet = Fleet::of(&site).await?;
    let mut tenants = vec![0; fleet.replicas.len()];
    for number in 0..TENANTS {
        let homes = fleet.homes("any", &tenant(number)).await?;
        ensure!(homes.len() == 1, "{}'s requests are in {homes:?}", tenant(number));
        homes.iter().for_each(|home| tenants[*home] += 1);
    }
    println!("replicas: {tenants:?} tenants in each");
    ensure!(tenants.iter().all(|tenants| *tenants > 0), "a replica has nothing to do");
    fleet.end().await?;
    site.end(vec![], Duration::ZERO).await
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_as_large_as_in_one_replica() -> Result<()> {
    const ONE: Arrangement = Arrangement { name: "one replica", replicas: 1, ..Arrangement::SHIPPED };
    const TWO_WORKERS: Arrangement = Arrangement { name: "one replica of two workers", workers: 2, ..ONE };
    const IN_TURN: Arrangement = Arrangement {
        name: "two replicas in turn",
        change: Some(("lb_policy: RING_HASH", "lb_policy: ROUND_ROBIN")),
        ..Arrangement::SHIPPED
    };
    // As the comment in the file says.
    const BALANCED: Arrangement = Arrangement {
        name: "two replicas by caller, balanced",
        change: Some(("# consistent_hashing_lb_config", "consistent_hashing_lb_config")),
        ..Arrangement::SHIPPED
    };
    let (folder, cluster) = (tempfile::tempdir()?, FakeCluster::start(ClusterScript::three_nodes()).await?);
    cluster.react(|_| Reaction::items().late(BATCH_TIME));
    let mut sizes = BTreeMap::new();
    for arrangement in [ONE, TWO_WORKERS, IN_TURN, Arrangement::SHIPPED, BALANCED] {
        let fleet = Fleet::start(folder.path(), cluster.addresses(), arrangement).await?;
        for callers in [1, 8] {
            let (size, share) = requests_in_a_batch(&fleet, callers).await?;
            println!("{}, {callers} callers: {size:.1} requests in a batch; {share:?} answered", arrangement.name);
            sizes.insert((arrangement.name, callers), size);
        }
        fleet.end().await?;
    }
    for callers in [1, 8] {
        let [one, by_caller, in_turn] = [ONE, Arrangement::SHIPPED, IN_TURN].map(|of| sizes[&(of.name, callers)]);
        ensure!(
            by_caller >= 0.75 * one,
            "{callers} callers: {by_caller} requests in a batch, and {one} in one replica"
        );
        ensure!(by_caller >= 1.4 * in_turn, "{callers} callers: {by_caller}, and {in_turn} in turn");
    }
    Ok(())
}

/// For clients of these callers, who write single documents one after the other: how many requests share a batch, and
/// how many each replica has answered.
async fn requests_in_a_batch(fleet: &Fleet, callers: u64) -> Result<(f64, Vec<u64>)> {
    const CLIENTS: u64 = 192;
    let writers = (0..CLIENTS).map(|n| fleet.writer(n, "books", 1).of_tenant(&tenant(n % callers)).idempotent());
    let mut load = Load::start("books", writers);
    // Until everybody has got into step.
    load.rate().await?;
    let (batched, completed) = (fleet.batched().await?, fleet.completed().await?);
    load.rate().await?;
    let (requests, batches) = fleet.batched().await?;
    let share = fleet.completed().await?.iter().zip(completed).map(|(now, before)| now - before).collect();
    load.end().await?;
    Ok(((requests - batched.0) as f64 / (batches - batched.1) as f64, share))
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_are_replaced_one_after_the_other_under_load() -> Result<()> {
    const ROUNDS: usize = 3;
    let site = Plan::new("replicas replaced").index("replaced", json!({})).start().await?;
    let mut fleet = Fleet::of(&site).await?;
    let size = |n| if n % 6 == 5 { 1000 } else { 30 };
    let writers = (0..24).map(|n| fleet.writer(n, "replaced", size(n)).of_tenant(&tenant(n % 8)));
    let mut load = Load::start("replaced", writers);
    let before = load.steady_rate().await?;
    let mut recovered = Duration::ZERO;
    for round in 1..=ROUNDS {
        for number in 0..fleet.replicas.len() {
            let told = Instant::now();
            let active = fleet.replace(number).await?;
            println!("round {round}: replica {number} had {active} requests, replaced after {:.1?}", told.elapsed());
            load.recovers(before).await?;
            recovered = recovered.max(told.elapsed());
        }
    }
    let tally = load.tally.clone();
    site.verify(vec![load]).await?;
    fleet.end().await?;
    site.end(vec![], recovered).await?;
    ensure!(tally.broken.get() == 0 && tally.conflicts.get() == 0, "{tally:?}");
    expect_only(&tally, &[])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_killed_under_load() -> Result<()> {
    const ROUNDS: u64 = 3;
    const TENANTS: u64 = 8;
    const WRITERS: u64 = 3;
    let site = Plan::new("replica killed").index("killed", json!({})).start().await?;
    let mut fleet = Fleet::of(&site).await?;
    let mut homes = Vec::new();
    for number in 0..TENANTS {
        homes.push(fleet.homes("killed", &tenant(number)).await?);
    }
    let callers = |replica| homes.iter().filter(|home| home.contains(&replica)).count();
    let hit = usize::from(callers(1) > callers(0));
    let mut loads = Vec::new();
    for (number, home) in (0..).zip(&homes) {
        let writer = |n, documents| fleet.writer(WRITERS * number + n, "killed", documents).of_tenant(&tenant(number));
        let writers = [writer(0, 30), writer(1, 300), writer(2, 30).patient()];
        loads.push((home.contains(&hit), Load::start("killed", writers)));
    }
    let tallies: Vec<_> = loads.iter().map(|(is_hit, load)| (*is_hit, load.tally.clone())).collect();
    wait::until(LIMIT, "everybody writes", async || {
        Ok(tallies.iter().all(|(_, tally)| tally.acknowledged.get() > 1000).then_some(()))
    })
    .await?;
    let mut recovered = Duration::ZERO;
    for round in 1..=ROUNDS {
        wait::until(LIMIT, "something is in the replica", async || Ok((fleet.active(hit).await? > 0).then_some(())))
            .await?;
        let before: Vec<u64> = tallies.iter().map(|(_, tally)| tally.acknowledged.get()).collect();
        let killed = Instant::now();
        fleet.kill(hit)?;
        // A request of each writer may be in the replica, and the next one is answered by the other replica.
        wait::until(LIMIT, "everybody writes again", async || {
            let writes = |((_, tally), before): (&(bool, Arc<Tally>), &u64)| tally.acknowledged.get() > before + 1000;
            Ok(tallies.iter().zip(&before).all(writes).then_some(()))
        })
        .await?;
        let elsewhere = killed.elapsed();
        fleet.wait_healthy(1).await?;
        fleet.bring_up(hit).await?;
        println!("round {round}: everybody has written 1,000 documents after {elsewhere:.1?}");
        recovered = recovered.max(elsewhere);
    }
    site.verify(loads.into_iter().map(|(_, load)| load).collect()).await?;
    fleet.end().await?;
    site.end(vec![], recovered).await?;
    for (is_hit, tally) in &tallies {
        ensure!(tally.broken.get() == 0 && tally.conflicts.get() == 0, "{tally:?}");
        expect_only(tally, &[503])?;
        // Only what was in the replica is in doubt. Whoever is in the other one notices nothing.
        let in_doubt = tally.refused.get() + tally.repeated.get();
        ensure!(in_doubt <= if *is_hit { WRITERS * ROUNDS } else { 0 }, "{in_doubt} requests: {tally}");
    }
    let in_doubt: u64 = tallies.iter().map(|(_, tally)| tally.refused.get()).sum();
    ensure!(in_doubt > 0, "nobody noticed");
    Ok(())
}
