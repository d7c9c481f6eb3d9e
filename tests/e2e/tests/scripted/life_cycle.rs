//! Listeners that change, drain or are removed while requests are held.

use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_e2e::{Answer, ClusterScript, Gate, Item, ListenerFile, Recorded, Scene, SceneOptions};
use bulk_reshuffle_stack::{Client, Tools, wait};
use serde_json::{Value, json};

/// The drain time, longer than any of these tests waits for answers. The old root context ends only after it.
const DRAIN: Duration = Duration::from_secs(8);

const LIMIT: Duration = Duration::from_secs(15);

/// The number of VMs, including that of Envoy's main thread.
const VMS: &str = "wasm.envoy.wasm.runtime.v8.active";

const REQUESTS: usize = 20;

/// Returns a configuration that is identified by a header of its state queries.
fn config(name: &str) -> Value {
    json!({
        "coordinator": "es", "credentials": {"x-asked-by": name}, "cluster_state": {"refresh": "200ms"},
        "hold": {"late_after": "1h"},
    })
}

/// Returns a configuration that sends the second node's operations to the third.
fn changed_config() -> Value {
    let mut config = config("new");
    config["nodes"] = json!({"upstreams": {"es-1": "es-2"}});
    config
}

/// Returns whether a request is not one of those that only wake a new root context.
fn is_write(request: &&Recorded) -> bool {
    request.body.len() > 1
}

fn asked_by(name: &str) -> impl Fn(&&Recorded) -> bool {
    move |request| request.header("x-asked-by") == Some(name)
}

fn scene() -> SceneOptions {
    Scene::of(ClusterScript::three_nodes()).whole_config(config("old"))
}

/// A scene with a listener that can change, and requests that wait for the gate.
struct Held {
    scene: Scene,
    gate: Gate,
    answers: Vec<Answer>,
}

impl Held {
    /// Starts a scene in which bulk requests to the nodes before this one wait for the gate.
    async fn start(options: SceneOptions, first_open: usize) -> Result<Self> {
        let scene = options.start().await?;
        let gate = scene.cluster.hold_if(move |request| is_write(&request) && request.node < first_open);
        Ok(Self { scene, gate, answers: Vec::new() })
    }

    /// Starts a scene with one batch in flight to each node, and the other requests' operations held behind it.
    async fn begin(options: SceneOptions) -> Result<Self> {
        let mut held = Self::start(options, 3).await?;
        let scene = &held.scene;
        let begin = |number| scene.begin_bulk("/_bulk", &[], scene.cluster.write_books(number));
        held.answers = (0..REQUESTS).map(begin).collect();
        scene.wait_for_operations(3 * REQUESTS as u64).await?;
        scene.cluster.wait_for_bulks("a batch for each node", |batches| batches.len() == 3).await?;
        Ok(held)
    }

    /// Opens the gate. Checks that each client gets its own items, and that each operation was carried out once, on the
    /// node of the old configuration.
    async fn end(&mut self) -> Result<()> {
        self.gate.open();
        for (number, answer) in self.answers.drain(..).enumerate() {
            self.scene.cluster.check_books(number, &answer.get().await?)?;
        }
        for node in 0..3 {
            let batches = self.scene.cluster.bulks_at(node);
            let batches = batches.iter().filter(is_write).filter(|batch| batch.header("x-new").is_none());
            let mut ids: Vec<_> =
                batches.flat_map(|batch| batch.operations().unwrap()).map(|operation| operation.id.unwrap()).collect();
            ids.sort_unstable();
            let mut expected: Vec<_> =
                (0..REQUESTS).map(|number| self.scene.cluster.book(node, number).unwrap()).collect();
            expected.sort_unstable();
            assert_eq!(ids, expected, "at es-{node}");
        }
        Ok(())
    }

    /// Changes the listener, and returns when it serves with its new configuration and knows the cluster state.
    async fn change(&self, change: impl FnOnce(&ListenerFile) -> Result<()>) -> Result<()> {
        let learnt = self.scene.envoy.state_loads().await?;
        change(&ListenerFile::of(&self.scene.envoy)?)?;
        wait::until(LIMIT, "the listener changes", async || {
            // A connection stays with the listener that accepted it.
            Client::new().post_ndjson(&self.scene.envoy.url("/_bulk"), "\n").await?;
            Ok((self.scene.envoy.state_loads().await? > learnt.saturating_add(1)).then_some(()))
        })
        .await
    }

    /// Waits until the old configuration no longer sends queries, while the new one does.
    async fn old_is_gone(&self) -> Result<()> {
        let only_new = |requests: &[Recorded]| {
            let last_old = requests.iter().rposition(|request| asked_by("old")(&request));
            requests[last_old.map_or(0, |position| position + 1)..].iter().filter(asked_by("new")).count() >= 10
        };
        self.scene.cluster.forget();
        self.scene.cluster.wait_for_others("the old root context ends", only_new).await.map(|_| ())
    }

    async fn vms(&self) -> Result<u64> {
        self.scene.envoy.counter(VMS).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_configuration_serves_while_the_old_one_answers_its_requests() -> Result<()> {
    let mut held = Held::begin(scene().drain_time(DRAIN)).await?;
    let vms = held.vms().await?;
    held.change(|file| file.set_config(&changed_config())).await?;
    held.scene.client = Client::new();
    let write = held.scene.cluster.write_book(1, REQUESTS)?;
    let new = held.scene.begin_bulk("/_bulk", &[("x-new", "1")], write);
    let is_new = |request: &&Recorded| request.header("x-new").is_some();
    let batches =
        held.scene.cluster.wait_for_bulks("the new request", |batches| batches.iter().any(|batch| is_new(&batch)));
    assert_eq!(batches.await?.iter().find(is_new).map(|batch| batch.node), Some(2));
    assert!(held.answers.iter().all(|answer| !answer.is_there()));
    held.end().await?;
    assert_eq!(Item::read_all(&new.get().await?)?[0].number(), Some(REQUESTS as u64));
    held.old_is_gone().await?;
    assert_eq!(held.vms().await?, vms, "the same code needs no new VM");
    held.scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_code_serves_while_the_old_code_answers_its_requests() -> Result<()> {
    let mut held = Held::begin(scene().drain_time(DRAIN)).await?;
    let vms = held.vms().await?;
    let folder = tempfile::tempdir()?;
    let wasm = folder.path().join("other.wasm");
    std::fs::copy(Tools::find()?.wasm()?, &wasm)?;
    held.change(|file| file.set_code(&wasm, &config("new"))).await?;
    assert!(held.vms().await? > vms);
    held.end().await?;
    held.old_is_gone().await?;
    held.scene.wait_for_stat(VMS, |now| now == vms).await?;
    held.scene.finish().await
}

/// Envoy closes connections that outlast the drain. A partly sent request must still be sent completely. The old root
/// context lives until then, and no longer.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_root_context_lives_until_partly_sent_requests_are_complete() -> Result<()> {
    let held = Held::start(scene().drain_time(Duration::from_secs(1)), 1).await?;
    let scene = &held.scene;
    let write = |node, number| scene.cluster.write_book(node, number).unwrap();
    let first = scene.begin_bulk("/_bulk", &[], write(0, 0));
    scene.cluster.wait_for_bulks("the first batch", |batches| batches.len() == 1).await?;
    // One share is sent immediately; the other is held behind the first batch.
    let second = scene.begin_bulk("/_bulk", &[], format!("{}{}", write(0, 1), write(1, 1)));
    scene.cluster.wait_for_bulks("the second batch", |batches| batches.len() == 2).await?;
    held.change(|file| file.set_config(&changed_config())).await?;
    for answer in [first, second] {
        assert!(answer.get().await.is_err(), "its connection outlived the drain");
    }
    scene.cluster.forget();
    let is_alive = |requests: &[Recorded]| requests.iter().filter(asked_by("old")).count() >= 3;
    scene.cluster.wait_for_others("the old root context lives on", is_alive).await?;
    assert_eq!(scene.cluster.bulks().len(), 0);
    held.gate.open();
    let rest = scene.cluster.wait_for_bulks("the held share", |batches| batches.len() == 1).await?;
    assert_eq!((rest[0].node, rest[0].text()), (0, write(0, 1)));
    held.old_is_gone().await?;
    held.scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_listener_answers_held_requests_and_leaves_no_vm_behind() -> Result<()> {
    let mut held = Held::begin(scene().drain_time(DRAIN)).await?;
    ListenerFile::of(&held.scene.envoy)?.remove_listener()?;
    held.scene.wait_for_stat("listener_manager.total_listeners_draining", |draining| draining == 1).await?;
    held.end().await?;
    let kept = held.scene.envoy.kept_vms();
    held.scene.wait_for_stat(VMS, |vms| vms == kept).await?;
    held.scene.cluster.forget();
    assert!(Client::new().get(&held.scene.envoy.url("/")).await.is_err());
    assert_eq!(held.scene.cluster.others().len(), 0, "an old timer is still running");
    held.scene.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_by_the_operator_loses_no_held_request() -> Result<()> {
    for command in ["/drain_listeners?graceful", "/drain_listeners", "/healthcheck/fail"] {
        println!("{command}:");
        // Its subject is a process that drains.
        let mut held = Held::begin(scene().own_envoy().drain_time(DRAIN)).await?;
        held.scene.client.post(&held.scene.envoy.admin_url(command), "text/plain", "").await?.ok()?;
        held.end().await?;
        held.scene.finish().await?;
    }
    Ok(())
}
