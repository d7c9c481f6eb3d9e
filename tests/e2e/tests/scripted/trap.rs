//! A VM that dies, in a filter compiled with a way to kill it (`make forced-trap`).

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::envoy_config::routes;
use bulk_reshuffle_e2e::{ClusterScript, Item, RawClient, Scene, SceneOptions, forced_trap};
use bulk_reshuffle_stack::{Client, wait};
use serde_json::Value;

/// The bulk routes' `idle_timeout` in these tests.
const IDLE: Duration = Duration::from_secs(10);

const LIMIT: Duration = Duration::from_secs(15);

const RELOADS: &str = "wasm.bulk_reshuffle.vm_reload_success";

/// Returns the shipped configuration with a shorter `idle_timeout`, the last resort for a request that a dead VM held.
fn scene() -> SceneOptions {
    Scene::of(ClusterScript::three_nodes()).edit(|config| {
        let is_bulk = |route: &&mut Value| {
            route["match"]["path"] == "/_bulk" || route["match"]["safe_regex"]["regex"] == ".*/_bulk"
        };
        let bulk: Vec<&mut Value> = routes(config).iter_mut().filter(is_bulk).collect();
        ensure!(bulk.len() == 2, "{bulk:?}");
        for route in bulk {
            let idle_timeout = &mut route["route"]["idle_timeout"];
            ensure!(idle_timeout.is_string(), "no timeout ends a request that a dead VM holds");
            *idle_timeout = Value::from(format!("{}s", IDLE.as_secs()));
        }
        Ok(())
    })
}

/// Opens connections to Envoy until each worker has accepted at least this many. Returns them by worker.
async fn connect(scene: &Scene, workers: usize, each: usize) -> Result<Vec<Vec<RawClient>>> {
    let mut clients: Vec<Vec<RawClient>> = (0..workers).map(|_| Vec::new()).collect();
    let mut accepted = accepted(scene, workers).await?;
    while clients.iter().any(|clients| clients.len() < each) {
        let client = RawClient::connect(scene.envoy.addr()).await?;
        let now = wait::until(LIMIT, "the connection is accepted", async || {
            let now = self::accepted(scene, workers).await?;
            Ok((now != accepted).then_some(now))
        })
        .await?;
        let worker = (0..workers).find(|worker| now[*worker] > accepted[*worker]).context("no worker")?;
        clients[worker].push(client);
        accepted = now;
    }
    Ok(clients)
}

/// Returns how many connections each worker has accepted.
async fn accepted(scene: &Scene, workers: usize) -> Result<Vec<u64>> {
    let stats = scene.envoy.stats_with("worker_.*downstream_cx_total").await?;
    let of = |worker| stats.iter().find(|(name, _)| name.contains(&format!("worker_{worker}.")));
    (0..workers).map(|worker| of(worker).map(|(_, count)| *count).context("no such worker")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_vm_fails_only_the_requests_that_it_held() -> Result<()> {
    const EACH: usize = 6;
    // Its subject is a VM that is killed.
    let scene = scene().own_envoy().workers(2).wasm(forced_trap(env!("CARGO_TARGET_TMPDIR"))?).start().await?;
    // All requests except those that only wake a fresh VM.
    let gate = scene.cluster.hold_if(|request| request.body.len() > 1);
    let mut clients = connect(&scene, 2, EACH + 1).await?;

    // Each VM has one batch in flight to each node, and the other requests' operations are held behind it.
    let mut held: Vec<Vec<(u64, RawClient)>> = vec![Vec::new(), Vec::new()];
    let body = |number: usize| scene.cluster.write_books(number);
    for number in 0..2 * EACH {
        let mut client = clients[number % 2].pop().context("no client")?;
        client.send_in_pieces("/_bulk", body(number).as_bytes(), &[1000]).await?;
        held[number % 2].push((number as u64, client));
    }
    scene.wait_for_operations(2 * 3 * EACH as u64).await?;
    scene.cluster.wait_for_bulks("a batch for each node from each VM", |batches| batches.len() == 6).await?;
    let bystanders = held.pop().context("no clients")?;
    let victims = held.pop().context("no clients")?;

    let learnt = scene.envoy.state_loads().await?;
    let mut killer = clients[0].pop().context("no client")?;
    let killed = Instant::now();
    killer.send("GET / HTTP/1.1\r\nhost: fake\r\nx-forced-trap: 1\r\nconnection: close\r\n\r\n").await?;
    let told = killer.read_to_end().await?;
    assert!(told.starts_with("HTTP/1.1 503 "), "{told}");

    // The worker gets a fresh VM, which splits and merges again once it knows the state. If the dead VM was young,
    // Envoy waits a second before it starts the fresh one, and answers 503 meanwhile.
    wait::until(LIMIT, "a fresh VM knows the state", async || {
        Client::new().post_ndjson(&scene.envoy.url("/_bulk"), "\n").await?;
        // The other VM may load the state too, in place of the dead one.
        let is_fresh = scene.envoy.counter(RELOADS).await? == 1;
        Ok((is_fresh && scene.envoy.state_loads().await? > learnt).then_some(()))
    })
    .await?;
    let fresh = connect(&scene, 2, 3).await?.swap_remove(0);
    gate.open();
    let after = fresh.len() as u64;
    for (number, mut client) in (100..).zip(fresh) {
        client.send_in_pieces("/_bulk", body(number).as_bytes(), &[1000]).await?;
        let items = Item::of_answer(&client.json().await?)?;
        assert_eq!(items.iter().map(Item::number).collect::<Vec<_>>(), [Some(number as u64); 3]);
    }

    // The other worker's requests are not affected.
    for (number, client) in bystanders {
        let items = Item::of_answer(&client.json().await?)?;
        let found: Vec<_> = items.iter().map(|item| (item.number(), item.status)).collect();
        assert_eq!(found, [(Some(number), 201); 3]);
    }
    scene.wait_for_count("requests_total.outcome.merged", EACH as u64 + after).await?;
    // Only requests that woke the VM passed through: before it knew the state, or because they are empty.
    assert!(scene.passed_through().await?.keys().all(|reason| ["empty", "no_state"].contains(&reason.as_str())));

    // The requests that the dead VM held fail within a bounded time.
    for (_, mut client) in victims {
        let told = client.read_to_end().await?;
        assert!(told.starts_with("HTTP/1.1 50"), "{told}");
    }
    let took = killed.elapsed();
    println!("the dead VM's requests failed within {took:?}");
    assert!(took < 3 * IDLE, "{took:?}");
    assert_eq!(scene.envoy.counter(RELOADS).await?, 1);
    assert_eq!(scene.envoy.counter("wasm.bulk_reshuffle.vm_reload_failure").await?, 0);
    scene.envoy.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_filter_ignores_the_forced_trap_header() -> Result<()> {
    let scene = scene().start().await?;
    let marked = [("x-forced-trap", "1")];
    let answer = scene.bulk_with("/_bulk", &marked, scene.cluster.write_book(0, 0)?).await?;
    assert_eq!(Item::read_all(&answer)?[0].number(), Some(0));
    assert_eq!(scene.counted("requests_total.outcome.merged").await?, 1);
    scene.finish().await
}
