//! The switches in Envoy, which turn the filter off without a restart while the cluster answers no poll.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::{ClusterScript, FakeCluster, Reaction, Scene, ShippedFiles, block_of_page, bulk_request};
use bulk_reshuffle_e2e::{check_filter, replace_in_file};
use bulk_reshuffle_stack::{Client, Envoy, Tools, port, wait};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(15);

/// The time within which a switch must take effect.
const AT_ONCE: Duration = Duration::from_secs(2);

/// The number in the documents of a request that nodes hold.
const HELD: usize = 77;

/// Envoy in front of nodes that refuse all polls, as nodes without a master do.
struct Bench<'a> {
    cluster: &'a FakeCluster,
    envoy: &'a Envoy,
    client: Client,
}

impl<'a> Bench<'a> {
    /// Makes polls fail, and waits until the filter has noticed.
    async fn new(cluster: &'a FakeCluster, envoy: &'a Envoy) -> Result<Self> {
        envoy.wait_for_state(LIMIT).await?;
        cluster
            .react_to_state_queries(|_| Some(Reaction::refusal(503, "master_not_discovered_exception", "no master")));
        let bench = Self { cluster, envoy, client: Client::new() };
        wait::until(LIMIT, "polls fail", async || {
            // Without requests there are no polls.
            ensure!(!bench.is_whole().await?, "a request is whole before the switch");
            Ok((envoy.counter("wasmcustom.bulk_reshuffle_state_errors_total").await? > 1).then_some(()))
        })
        .await?;
        Ok(bench)
    }

    /// Sends a request with operations for each node; returns whether one node has received all of it.
    async fn is_whole(&self) -> Result<bool> {
        self.cluster.forget();
        let body = self.cluster.write_books(0);
        let answer = self.client.post_ndjson(&self.envoy.url("/_bulk"), body.clone()).await?;
        self.cluster.check_books(0, &answer)?;
        let received: Vec<String> = self.cluster.bulks().iter().map(|request| request.text().to_string()).collect();
        ensure!(received.len() == 3 || received == [body], "the nodes have received {received:?}");
        Ok(received.len() == 1)
    }

    /// Returns the time until requests are whole, or until they are split.
    async fn until_whole(&self, is_whole: bool) -> Result<Duration> {
        let begun = Instant::now();
        loop {
            let is_done = self.is_whole().await? == is_whole;
            let took = begun.elapsed();
            ensure!(took < AT_ONCE, "{took:.1?} after the switch, requests are still as before");
            if is_done {
                return Ok(took);
            }
        }
    }

    /// Switches the filter off while nodes hold a request's batches, which must be answered, and on again. Returns the
    /// time until requests are whole.
    async fn switch(&self, off: impl AsyncFn() -> Result<()>, on: impl AsyncFn() -> Result<()>) -> Result<Duration> {
        self.cluster.forget();
        let (text, body) = (format!("\"n\":{HELD}}}"), self.cluster.write_books(HELD));
        ensure!(body.contains(&text), "{body}");
        let gate = self.cluster.hold_if(move |request| request.text().contains(&text));
        // Another user's requests do not wait for these batches.
        let request = bulk_request(&self.envoy.url("/_bulk"), &[("authorization", "Basic held")], body)?;
        let client = self.client.clone();
        let held = tokio::spawn(async move { client.send(request).await });
        self.cluster.wait_for_bulks("a batch for each node", |batches| batches.len() == 3).await?;
        off().await?;
        let took = self.until_whole(true).await?;
        ensure!(!held.is_finished(), "the held request is answered before its batches");
        gate.open();
        self.cluster.check_books(HELD, &held.await??)?;
        on().await?;
        self.until_whole(false).await?;
        Ok(took)
    }

    /// Switches by Envoy's runtime. Envoy must not even call the filter.
    async fn switch_at_run_time(&self) -> Result<Duration> {
        let commands = block_of_page("envoy/operations.md", "sh", "runtime_modify")?;
        let path = commands.split("127.0.0.1:9901").nth(1).and_then(|rest| rest.split('\'').next());
        let path = path.context("the page has no command")?;
        let (off, on) = (path.to_owned(), path.replace("=100", "=0"));
        ensure!(off.ends_with("bulk_reshuffle.off=100"), "{off}");
        let set = async |path: &str| {
            self.client.post(&self.envoy.admin_url(path), "text/plain", "").await?.ok()?;
            Ok(())
        };
        let counted = async || -> Result<u64> {
            Ok(self.envoy.stats_with("bulk_reshuffle_requests_total.*passed_through").await?.values().sum())
        };
        let before = counted().await?;
        let took = self.switch(async || set(&off).await, async || set(&on).await).await?;
        ensure!(counted().await? == before, "the filter has counted requests while it was off");
        Ok(took)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn envoys_runtime_switches_the_filter_off_and_on_without_the_cluster() -> Result<()> {
    // Its subject is a setting of the whole process.
    let config = json!({"cluster_state": {"refresh": "200ms"}});
    let scene = Scene::of(ClusterScript::three_nodes()).config(config).workers(2).own_envoy().start().await?;
    let took = Bench::new(&scene.cluster, &scene.envoy).await?.switch_at_run_time().await?;
    println!("envoy.yaml: the first request passes {took:.1?} after the change of the runtime");
    scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runtime_and_a_changed_part_switch_the_filter_of_the_roll_out_off_without_the_cluster() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = FakeCluster::start(ClusterScript::three_nodes()).await?;
    let files = ShippedFiles::new(folder.path())?.nodes(cluster.addresses());
    let files = files.replace("\"coordinator\"", r#""cluster_state": {"refresh": "200ms"}, "coordinator""#);
    let envoy = files.port(9210, port::free()?).port(8125, port::free()?).start("rollout.yaml").await?;
    let bench = Bench::new(&cluster, &envoy).await?;
    let took = bench.switch_at_run_time().await?;
    println!("rollout.yaml: the first request passes {took:.1?} after the change of the runtime");

    let part = folder.path().join("envoy/parts/filter.yaml");
    let (off, on) = ("\"enabled\": false, \"coordinator\"", "\"coordinator\"");
    let switch_on = async || {
        // A new configuration begins without a state.
        cluster.react_to_state_queries(|_| None);
        replace_in_file(&part, off, on)?;
        wait::until(LIMIT, "requests are split again", async || Ok((!bench.is_whole().await?).then_some(()))).await
    };
    let took = bench.switch(async || replace_in_file(&part, on, off), switch_on).await?;
    println!("rollout.yaml: the first request passes {took:.1?} after the change of the part");
    check_filter(&envoy).await?;
    envoy.stop().await
}

/// Returns a configuration's first route, and its last layer of the runtime.
fn switch_of(root: &Path, file: &str, routes: &str) -> Result<(Value, Value)> {
    let read = |file: &str| -> Result<Value> { Ok(serde_saphyr::from_str(&fs::read_to_string(root.join(file))?)?) };
    let (config, others) = (read(file)?, read("envoy/parts/routes.yaml")?);
    let manager = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/route_config";
    let shared = config.pointer(manager).or(others.pointer("/resources/0"));
    let route = shared.and_then(|config| config.pointer(routes)).with_context(|| format!("{file} has no route"))?;
    let layers = config.pointer("/layered_runtime/layers").and_then(Value::as_array);
    let layer = layers.and_then(|layers| layers.last()).with_context(|| format!("{file} has no runtime"))?;
    Ok((route.clone(), layer.clone()))
}

#[test]
fn every_shipped_configuration_of_envoy_has_the_switch() -> Result<()> {
    const FIRST: &str = "/virtual_hosts/0/routes/0";
    let root = Tools::find()?.root;
    let shipped = switch_of(&root, "envoy/envoy.yaml", FIRST)?;
    assert_eq!(shipped.1, json!({"name": "admin", "admin_layer": {}}));
    for name in ["one-cluster", "tls", "gateway", "rollout", "buffer"] {
        assert_eq!(switch_of(&root, &format!("envoy/{name}.yaml"), FIRST)?, shipped, "{name}");
    }
    assert_eq!(switch_of(&root, "examples/kubernetes/envoy.yaml", FIRST)?, shipped);
    Ok(())
}
