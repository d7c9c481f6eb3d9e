//! `envoy/front.yaml`: two Envoys with the filter behind one front proxy. The two share only the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::load::{Load, Tally};
use bulk_reshuffle_e2e::{ClusterScript, FakeCluster, Reaction};
use bulk_reshuffle_stack::wait;
use serde_json::json;

use crate::LIMIT;
use crate::backend::Backend;
use crate::fault_scene::{Plan, paced};
use crate::fleet::{Arrangement, Fleet};
use crate::turn::Turn;

/// How long a node takes for a batch in the test of batch sizes: constant, whatever else the machine does.
const BATCH_TIME: Duration = Duration::from_millis(150);

fn tenant(number: u64) -> String {
    format!("tenant-{number}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_requests_all_go_to_one_replica() -> Result<()> {
    const TENANTS: u64 = 16;
    let (backend, folder) = (Backend::shared().await?, tempfile::tempdir()?);
    let fleet = Fleet::of(&backend, folder.path()).await?;
    let mut tenants = vec![0; fleet.replicas.len()];
    for number in 0..TENANTS {
        let homes = fleet.homes("any", &tenant(number)).await?;
        ensure!(homes.len() == 1, "the requests of {} go to {homes:?}", tenant(number));
        homes.iter().for_each(|home| tenants[*home] += 1);
    }
    println!("replicas: {tenants:?} tenants in each");
    ensure!(tenants.iter().all(|tenants| *tenants > 0), "a replica has no tenants");
    fleet.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_as_large_as_in_one_replica() -> Result<()> {
    const ONE: Arrangement = Arrangement { name: "one replica", replicas: 1, ..Arrangement::SHIPPED };
    const TWO_WORKERS: Arrangement = Arrangement { name: "one replica of two workers", workers: 2, ..ONE };
    const ROUND_ROBIN: Arrangement = Arrangement {
        name: "two replicas, round robin",
        change: Some(("lb_policy: RING_HASH", "lb_policy: ROUND_ROBIN")),
        ..Arrangement::SHIPPED
    };
    // As a comment in the file suggests.
    const BALANCED: Arrangement = Arrangement {
        name: "two replicas by caller, balanced",
        change: Some(("# consistent_hashing_lb_config", "consistent_hashing_lb_config")),
        ..Arrangement::SHIPPED
    };
    let _turn = Turn::wait().await?;
    let (folder, cluster) = (tempfile::tempdir()?, FakeCluster::start(ClusterScript::three_nodes()).await?);
    cluster.react(|_| Reaction::items().late(BATCH_TIME));
    let mut sizes = BTreeMap::new();
    for arrangement in [ONE, TWO_WORKERS, ROUND_ROBIN, Arrangement::SHIPPED, BALANCED] {
        let fleet = Fleet::start(folder.path(), cluster.addresses(), arrangement).await?;
        for callers in [1, 8] {
            let (size, share) = requests_in_a_batch(&fleet, callers).await?;
            println!("{}, {callers} callers: {size:.1} requests in a batch; {share:?} answered", arrangement.name);
            sizes.insert((arrangement.name, callers), size);
        }
        fleet.end().await?;
    }
    for callers in [1, 8] {
        let [one, by_caller, round_robin] =
            [ONE, Arrangement::SHIPPED, ROUND_ROBIN].map(|of| sizes[&(of.name, callers)]);
        ensure!(
            by_caller >= 0.75 * one,
            "{callers} callers: {by_caller} requests in a batch by caller, and {one} with one replica"
        );
        ensure!(
            by_caller >= 1.4 * round_robin,
            "{callers} callers: {by_caller} requests in a batch by caller, and {round_robin} by round robin"
        );
    }
    Ok(())
}

/// Runs clients of this many callers that write single documents one after the other. Returns how many requests share a
/// batch, and how many requests each replica has answered.
async fn requests_in_a_batch(fleet: &Fleet, callers: u64) -> Result<(f64, Vec<u64>)> {
    const CLIENTS: u64 = 192;
    /// How many requests of each client are measured.
    const EACH: u64 = 6;
    let writers = (0..CLIENTS).map(|n| fleet.writer(n, "books", 1).of_tenant(&tenant(n % callers)).idempotent());
    let mut load = Load::start("books", writers);
    // Wait for a steady state.
    load.sends(CLIENTS * EACH).await?;
    let (batched, completed) = (fleet.batched().await?, fleet.completed().await?);
    load.sends(CLIENTS * EACH).await?;
    let (requests, batches) = fleet.batched().await?;
    let share = fleet.completed().await?.iter().zip(completed).map(|(now, before)| now - before).collect();
    load.end().await?;
    Ok(((requests - batched.0) as f64 / (batches - batched.1) as f64, share))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_replicas_are_replaced() -> Result<()> {
    const ROUNDS: usize = 3;
    const NAME: &str = "replicas replaced";
    let (backend, folder) = (Plan::new(NAME).index("replaced", json!({})).backend().await?, tempfile::tempdir()?);
    let mut fleet = Fleet::of(&backend, folder.path()).await?;
    let size = |n| if n % 6 == 5 { 1000 } else { 30 };
    let writer = |n| paced(fleet.writer(n, "replaced", size(n)).of_tenant(&tenant(n % 8)), size(n));
    let mut load = Load::start("replaced", (0..24).map(writer));
    let before = load.steady_rate().await?;
    for round in 1..=ROUNDS {
        for number in 0..fleet.replicas.len() {
            let begun = Instant::now();
            let active = fleet.replace(number).await?;
            println!("round {round}: replica {number} had {active} requests, replaced after {:.1?}", begun.elapsed());
            load.recovers(before).await?;
        }
    }
    let tallies = backend.verify(NAME, vec![load]).await?;
    fleet.end().await?;
    backend.end().await?;
    tallies.iter().try_for_each(|tally| tally.check(&[]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_replica_affects_only_its_own_callers() -> Result<()> {
    const ROUNDS: u64 = 3;
    const TENANTS: u64 = 8;
    const WRITERS: u64 = 3;
    const NAME: &str = "replica killed";
    let (backend, folder) = (Plan::new(NAME).index("killed", json!({})).backend().await?, tempfile::tempdir()?);
    let mut fleet = Fleet::of(&backend, folder.path()).await?;
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
    wait::until(LIMIT, "every caller writes", async || {
        Ok(tallies.iter().all(|(_, tally)| tally.acknowledged.get() > 1000).then_some(()))
    })
    .await?;
    let unknown = |tally: &Tally| tally.refused.get() + tally.repeated.get();
    let all_unknown = || tallies.iter().map(|(_, tally)| unknown(tally)).sum::<u64>();
    let mut in_rounds = 0;
    for round in 1..=ROUNDS {
        wait::until(LIMIT, "the replica has requests in flight", async || {
            Ok((fleet.active(hit).await? > 0).then_some(()))
        })
        .await?;
        let before: Vec<u64> = tallies.iter().map(|(_, tally)| tally.acknowledged.get()).collect();
        let (unknown_before, connections) = (all_unknown(), fleet.connections(hit).await?);
        let killed = Instant::now();
        fleet.kill(hit)?;
        // The other replica answers the next requests.
        wait::until(LIMIT, "every caller writes again", async || {
            let writes = |((_, tally), before): (&(bool, Arc<Tally>), &u64)| tally.acknowledged.get() > before + 1000;
            Ok(tallies.iter().zip(&before).all(writes).then_some(()))
        })
        .await?;
        let resumed = killed.elapsed();
        fleet.wait_healthy(1).await?;
        // Only a request that the replica may have got has an unknown outcome: at most one for each connection. A writer
        // may lose two requests in a round, because a process that is killed does not end at once: the kernel closes its
        // connections one after the other, and completes new ones as long as the port is open. A writer whose connection
        // closes first may send its next request on one that closes later.
        let (interrupted, most) =
            (all_unknown() - unknown_before, fleet.connections(hit).await?.usable_since(&connections));
        println!(
            "round {round}: {interrupted} requests interrupted on {most} connections; every caller has written 1,000 \
             documents after {resumed:.1?}"
        );
        ensure!(interrupted <= most, "{interrupted} requests have an unknown outcome, on {most} connections");
        in_rounds += interrupted;
        fleet.bring_up(hit).await?;
    }
    backend.verify(NAME, loads.into_iter().map(|(_, load)| load).collect()).await?;
    fleet.end().await?;
    backend.end().await?;
    for (is_hit, tally) in &tallies {
        tally.check(&[503])?;
        // The other replica's callers see no unknown outcome.
        ensure!(*is_hit || unknown(tally) == 0, "{tally}");
    }
    ensure!(in_rounds > 0, "no request was interrupted");
    ensure!(
        all_unknown() == in_rounds,
        "{} requests were interrupted while no replica ended",
        all_unknown() - in_rounds
    );
    Ok(())
}
