use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::load::Load;
use bulk_reshuffle_e2e::{FakeCluster, Item, Reaction, Recorded, check_filter, in_front_of};
use bulk_reshuffle_stack::{Envoy, EnvoyOptions, FilterConfig, Tools, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::LIMIT;
use crate::backend::Backend;
use crate::fault_scene::{FaultScene, Plan, query};
use crate::witness::grace;

const REFRESH: Duration = Duration::from_secs(1);

/// A hold interval that these tests set, and a limit below it, far above the duration of a request that is not held.
const LONG: &str = "2s";
const AT_ONCE: Duration = Duration::from_millis(1500);

impl Backend {
    /// Sets one of the run-time settings; `null` removes it.
    async fn switch(&self, scope: &str, name: &str, value: Value) -> Result<()> {
        let setting = format!("cluster.metadata.bulk_reshuffle.{name}");
        self.put("/_cluster/settings", json!({scope: {setting: value}})).await.map(|_| ())
    }
}

impl FaultScene {
    /// Returns how long a counter still grew after this time, or an error if that was longer than a refresh interval and
    /// the load's own slowest request, behind which others may be held.
    async fn counted_after(&self, load: &Load, then: Instant, counter: &str) -> Result<Duration> {
        let (mut count, mut last, mut slowest) = (self.counted(counter).await?, then, Duration::ZERO);
        loop {
            let begun = Instant::now();
            self.query().await;
            let now = self.counted(counter).await?;
            slowest = slowest.max(begun.elapsed());
            if now != count {
                (count, last) = (now, Instant::now());
            }
            let end = then + REFRESH + grace(slowest) + load.tally.longest();
            ensure!(last <= end, "{counter} still grows {:.1?} after the switch", last - then);
            if Instant::now() >= end + REFRESH {
                return Ok(last - then);
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }
}

fn plan(name: &'static str) -> Plan {
    Plan::new(name).alone().config("cluster_state", json!({"refresh": "1s"}))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_filter_is_switched_off_and_on_again_under_load() -> Result<()> {
    const PASSED: &str = "requests_total.outcome.passed_through";
    let scene = plan("switched off").index("switched", json!({})).start().await?;
    let mut load = scene.load("switched", "");
    let before = load.steady_rate().await?;
    let passed = scene.counted(PASSED).await?;

    let off = Instant::now();
    scene.backend.switch("persistent", "enabled", json!("false")).await?;
    let split = scene.counted_after(&load, off, "batches").await?;
    let whole = load.rate().await?;
    ensure!(scene.counted(PASSED).await? > passed, "nothing passed through");
    let by_reason = scene.envoy.stats_with("passed_through.reason.switched_off").await?;
    ensure!(by_reason.values().sum::<u64>() > 0, "no request passed for this reason: {by_reason:?}");

    let (on, batches) = (Instant::now(), scene.counted("batches_total").await?);
    scene.backend.switch("persistent", "enabled", Value::Null).await?;
    let passing = scene.counted_after(&load, on, PASSED).await?;
    ensure!(scene.counted("batches_total").await? > batches, "no request is split after the switch back");
    println!(
        "switched off: the last batch left {split:.1?} after the switch, the last request passed {passing:.1?} after \
         the switch back; {before:.0} operations per second, {whole:.0} meanwhile"
    );
    let recovered = load.recovers(before).await?;
    scene.end(vec![load], recovered).await?.iter().try_for_each(|tally| tally.check(&[]))
}

/// An Envoy with one worker in front of a cluster, and a relay that records the requests to the nodes.
struct Bench {
    backend: Backend,
    received: FakeCluster,
    envoy: Envoy,
    _folder: TempDir,
}

impl Bench {
    /// Starts a bench with an index `one` of one shard and an index `six` of six shards.
    async fn start(name: &'static str) -> Result<Self> {
        let plan = plan(name).index("one", json!({"number_of_shards": 1})).index("six", json!({}));
        let (backend, folder) = (plan.backend().await?, tempfile::tempdir()?);
        let (received, relayed) = FakeCluster::relay(&backend.nodes).await?;
        let mut options = in_front_of(EnvoyOptions::new(folder.path()), &relayed);
        // No batch is late here: requests would not wait for it.
        let hold = json!({"late_after": "1h"});
        let config = json!({"coordinator": "es", "cluster_state": {"refresh": "1s"}, "hold": hold});
        options.filter = FilterConfig::Value(config);
        let envoy = Envoy::start(&Tools::find()?, options).await?;
        let bench = Self { backend, received, envoy, _folder: folder };
        bench.soon("requests are split", async || bench.is_split("six").await).await?;
        Ok(bench)
    }

    /// Sends documents without ids; returns the duration of the request.
    async fn write(&self, index: &str, documents: usize, bytes: usize) -> Result<Duration> {
        let source = json!({"n": 1, "text": "x".repeat(bytes)});
        let body = format!("{{\"index\":{{}}}}\n{source}\n").repeat(documents);
        let begun = Instant::now();
        let answer = self.backend.client.post_ndjson(&self.envoy.url(&format!("/{index}/_bulk")), body).await?;
        let took = begun.elapsed();
        let items = Item::read_all(&answer)?;
        ensure!(items.len() == documents && items.iter().all(|item| item.status == 201), "{}", answer.text());
        Ok(took)
    }

    /// Returns whether such a request is sent immediately.
    async fn leaves(&self, index: &str, documents: usize, bytes: usize) -> Result<bool> {
        Ok(self.write(index, documents, bytes).await? < AT_ONCE)
    }

    /// Returns whether the filter splits requests for this index.
    async fn is_split(&self, index: &str) -> Result<bool> {
        const MERGED: &str = "wasmcustom.bulk_reshuffle_requests_total.outcome.merged";
        let before = self.envoy.counter(MERGED).await?;
        self.write(index, 1, 10).await?;
        Ok(self.envoy.counter(MERGED).await? > before)
    }

    /// Returns the batch that a node receives for a document without an id.
    async fn receives(&self, index: &str) -> Result<Recorded> {
        self.received.forget();
        self.write(index, 1, 10).await?;
        let batches = self.received.bulks();
        ensure!(batches.len() == 1, "{} batches", batches.len());
        Ok(batches[0].clone())
    }

    /// Waits until a condition holds; a wait longer than a refresh interval is an error.
    async fn soon(&self, what: &str, is_so: impl AsyncFn() -> Result<bool>) -> Result<()> {
        let (begun, slowest) = (Instant::now(), Cell::new(Duration::ZERO));
        wait::until(LIMIT, what, async || {
            let asked = Instant::now();
            query(&self.backend.client, &self.envoy).await;
            slowest.set(slowest.get().max(asked.elapsed()));
            let (waited, most) = (begun.elapsed(), REFRESH + grace(slowest.get()));
            // This may take as long as a hold.
            let is_so = is_so().await?;
            ensure!(is_so || waited <= most, "not after {waited:.1?}: {what}");
            Ok(is_so.then_some(()))
        })
        .await
    }

    async fn set(&self, name: &str, value: Value) -> Result<()> {
        self.backend.switch("persistent", name, value).await
    }

    async fn end(self) -> Result<()> {
        check_filter(&self.envoy).await?;
        self.envoy.stop().await?;
        self.backend.end().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runtime_settings_control_when_held_requests_are_sent() -> Result<()> {
    let bench = Bench::start("run-time settings of holds").await?;
    let (leaves, set) = (
        async |index: &str, documents, bytes| bench.leaves(index, documents, bytes).await,
        async |name: &str, value| bench.set(name, value).await,
    );
    set("interval", json!(LONG)).await?;
    set("early_release", json!("false")).await?;
    bench.soon("a lone client waits", async || Ok(!leaves("one", 1, 10).await?)).await?;
    set("interval", json!("100ms")).await?;
    bench.soon("a lone client waits only briefly", async || leaves("one", 1, 10).await).await?;
    set("interval", json!(LONG)).await?;
    bench.soon("three documents wait", async || Ok(!leaves("one", 3, 10).await?)).await?;
    set("flush_threshold_docs", json!("3")).await?;
    bench.soon("three documents are sent immediately", async || leaves("one", 3, 10).await).await?;
    ensure!(!leaves("one", 2, 10).await?, "two documents are sent immediately");
    set("flush_threshold_docs", Value::Null).await?;
    bench.soon("three documents wait again", async || Ok(!leaves("one", 3, 10).await?)).await?;
    set("flush_threshold_size", json!("2kb")).await?;
    bench.soon("three kilobytes are sent immediately", async || leaves("one", 1, 3_000).await).await?;
    ensure!(!leaves("one", 1, 1_000).await?, "one kilobyte is sent immediately");
    set("early_release", Value::Null).await?;
    bench.soon("a lone client no longer waits", async || leaves("one", 1, 10).await).await?;

    // A batch in flight delays the next one, unless `max_in_flight` allows two.
    set("interval", Value::Null).await?;
    set("flush_threshold_size", Value::Null).await?;
    let forward = Reaction::forward_to(bench.backend.nodes.iter().map(|(_, address)| *address).collect());
    let gate = bench.received.react_with_gate(move |request, gate| forward(request).after(gate));
    bench.received.forget();
    let arrive = |number| move |batches: &[Recorded]| batches.len() == number;
    let both = async {
        tokio::try_join!(bench.write("one", 1, 10), async {
            bench.received.wait_for_bulks("the first batch", arrive(1)).await?;
            bench.write("one", 1, 10).await
        })
    };
    let switched = async {
        bench.received.wait_for_bulks("the first batch", arrive(1)).await?;
        // The absence of a batch can only be observed by waiting.
        tokio::time::sleep(AT_ONCE).await;
        ensure!(bench.received.bulks().len() == 1, "a second batch was sent before the first one was answered");
        set("max_in_flight", json!("2")).await?;
        bench.received.wait_for_bulks("the second batch", arrive(2)).await?;
        gate.open();
        Ok(())
    };
    tokio::try_join!(both, switched)?;
    bench.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn runtime_settings_and_mappings_control_the_handling_of_documents_without_an_id() -> Result<()> {
    let bench = Bench::start("run-time settings of ids").await?;
    let is_generated = |batch: &Recorded| batch.operations().is_ok_and(|operations| operations[0].id.is_some());
    let is_direct = |batch: &Recorded| batch.text().contains("routing");
    let meta = async |meta: Value| {
        let mapping = json!({"_meta": {"bulk_reshuffle": meta}});
        bench.backend.put("/six/_mapping", mapping).await
    };
    ensure!(is_generated(&bench.receives("six").await?), "the configuration's `missing_id` does not apply");
    bench.set("missing_id", json!("direct")).await?;
    bench.soon("direct", async || Ok(is_direct(&bench.receives("six").await?))).await?;
    ensure!(is_direct(&bench.receives("one").await?), "the switch does not apply to another index");
    // The index's own setting takes precedence over the switch.
    meta(json!({"missing_id": "pass"})).await?;
    bench
        .soon("pass", async || {
            let batch = bench.receives("six").await?;
            Ok(!is_direct(&batch) && !is_generated(&batch))
        })
        .await?;
    ensure!(is_direct(&bench.receives("one").await?), "the switch no longer applies to another index");
    bench.set("missing_id", Value::Null).await?;
    bench.soon("generated again", async || Ok(is_generated(&bench.receives("one").await?))).await?;
    ensure!(!is_generated(&bench.receives("six").await?), "the index's own setting no longer applies");
    meta(json!({"enabled": false})).await?;
    bench.soon("requests pass through", async || Ok(!bench.is_split("six").await?)).await?;
    ensure!(bench.is_split("one").await?, "requests for another index pass through too");
    let passed = bench.envoy.stats_with("passed_through.reason.disabled").await?;
    ensure!(passed.values().sum::<u64>() > 0, "no request passed for this reason");
    meta(json!({})).await?;
    bench.soon("split again", async || bench.is_split("six").await).await?;
    bench.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn transient_runtime_settings_take_precedence_and_invalid_ones_are_ignored() -> Result<()> {
    const INVALID: &str = "wasmcustom.bulk_reshuffle_switches_invalid_total";
    let bench = Bench::start("run-time settings, odd ones").await?;
    let is_whole = async || Ok(!bench.is_split("six").await?);
    bench.backend.switch("transient", "enabled", json!("true")).await?;
    bench.set("early_release", json!("false")).await?;
    bench.set("interval", json!(LONG)).await?;
    bench.set("enabled", json!("false")).await?;
    bench.soon("the other settings apply", async || Ok(!bench.leaves("one", 1, 10).await?)).await?;
    ensure!(bench.is_split("six").await?, "the persistent switch takes precedence over the transient one");
    bench.backend.switch("transient", "enabled", Value::Null).await?;
    bench.soon("requests pass through without the transient switch", is_whole).await?;
    bench.set("enabled", Value::Null).await?;
    bench.soon("requests are split without any switch", async || bench.is_split("six").await).await?;

    ensure!(bench.envoy.counter(INVALID).await? == 0, "a switch was already invalid");
    bench.set("flush_threshold_docs", json!("many")).await?;
    bench.soon("the invalid switch is counted", async || Ok(bench.envoy.counter(INVALID).await? == 1)).await?;
    let log = bench.envoy.log();
    let named = log.lines().find(|line| line.contains("cluster.metadata.bulk_reshuffle.flush_threshold_docs"));
    ensure!(named.is_some_and(|line| line.contains("[warning]") && line.contains("ignored")), "{named:?}");
    ensure!(!bench.leaves("one", 1, 10).await?, "the other settings no longer apply");
    // After another change, the same invalid switch is not counted again.
    bench.set("interval", Value::Null).await?;
    bench.soon("the change applies", async || bench.leaves("one", 1, 10).await).await?;
    ensure!(bench.envoy.counter(INVALID).await? == 1, "the invalid switch was counted again");

    let wrong = json!({"_meta": {"bulk_reshuffle": {"missing_ids": "pass", "enabled": false}}});
    bench.backend.put("/six/_mapping", wrong).await?;
    bench.soon("the misspelled setting is counted", async || Ok(bench.envoy.counter(INVALID).await? == 2)).await?;
    bench.soon("the setting beside it applies", is_whole).await?;
    let log = bench.envoy.log();
    let named = log.lines().find(|line| line.contains("index `six`: the mapping's setting"));
    ensure!(named.is_some_and(|line| line.contains("missing_ids` is ignored: unknown, expected")), "{named:?}");
    bench.backend.put("/six/_mapping", json!({"_meta": {"bulk_reshuffle": "off"}})).await?;
    bench.soon("a text is counted too", async || Ok(bench.envoy.counter(INVALID).await? == 3)).await?;

    let misspelled = |value: Value| json!({"persistent": {"cluster.metadata.bulk_reshufle.enabled": value}});
    bench.backend.put("/_cluster/settings", misspelled(json!("false"))).await?;
    bench.soon("a misspelled name is counted", async || Ok(bench.envoy.counter(INVALID).await? == 4)).await?;
    bench.backend.put("/_cluster/settings", misspelled(Value::Null)).await?;
    bench.end().await
}
