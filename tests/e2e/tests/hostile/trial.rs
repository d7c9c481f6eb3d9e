use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bulk_reshuffle_e2e::{
    Answer, ClusterScript, Gate, Index, QuickItems, Reaction, Recorded, Scene, SceneOptions, raise_file_limit,
};
use bulk_reshuffle_stack::{Response, wait};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::bodies::{Ids, MIB, Operations};
use crate::neighbour::{AUTHORIZATION, Neighbour};
use crate::table::Row;

/// Who the hostile client is.
pub const HOSTILE: &str = "ApiKey hostile";

/// How much longer than alone another client may wait.
const PATIENCE: Duration = Duration::from_secs(2);

/// For a hostile client's answer.
const LIMIT: Duration = Duration::from_secs(90);

/// What a VM may take besides one and a half times `limits.memory`.
const FIXED: u64 = 4 << 20;

const ROUTES: &str =
    "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/route_config/virtual_hosts/0/routes";

const HTTP_FILTERS: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters";

/// A hostile client that is about to begin: what it sends, before which filter and which cluster.
pub struct Plan {
    sent: String,
    memory: usize,
    script: ClusterScript,
    config: Value,
    edits: Vec<Edit>,
}

type Edit = Box<dyn FnOnce(&mut Value) -> Result<()> + Send>;

/// A hostile client at work, and another client that writes all the time.
pub struct Trial {
    pub scene: Scene,
    /// Carries everything out.
    pub items: QuickItems,
    /// What a node may wait for before it answers the hostile client. It is open at the end.
    pub gate: Gate,
    neighbour: Neighbour,
    bound: u64,
}

/// What it cost the hostile client.
#[derive(Debug)]
pub struct Cost {
    /// Bytes on the wire.
    pub wire: usize,
    /// What it got.
    pub got: String,
}

impl Plan {
    /// What is sent, to three nodes with the index `books` and the index `i` of two shards.
    pub fn new(sent: impl Into<String>) -> Self {
        let script = ClusterScript::three_nodes().index(Index::new("i", [0, 1]));
        Self { sent: sent.into(), memory: 256 * MIB, script, config: json!({}), edits: Vec::new() }
    }

    /// Sets `limits.memory`, and lets no request be larger.
    pub fn memory(self, mib: usize) -> Self {
        let limits = json!({"memory": format!("{mib}mb"), "max_request": format!("{}mb", mib.min(100))});
        Self { memory: mib * MIB, ..self }.config(json!({"limits": limits}))
    }

    /// Adds an index.
    pub fn index(self, index: Index) -> Self {
        Self { script: self.script.index(index), ..self }
    }

    /// Sets fields of the filter's configuration.
    pub fn config(mut self, fields: Value) -> Self {
        if let (Value::Object(config), Value::Object(fields)) = (&mut self.config, fields) {
            config.extend(fields);
        }
        self
    }

    /// Puts routes before all others.
    pub fn routes(self, routes: Value) -> Self {
        self.insert(ROUTES, routes)
    }

    /// Puts filters before all others.
    pub fn filters(self, filters: Value) -> Self {
        self.insert(HTTP_FILTERS, filters)
    }

    fn insert(self, pointer: &'static str, new: Value) -> Self {
        self.edit(move |config| {
            let list = config.pointer_mut(pointer).and_then(Value::as_array_mut).context("no such list")?;
            list.splice(0..0, new.as_array().context("no list")?.clone());
            Ok(())
        })
    }

    /// Changes Envoy's configuration.
    pub fn edit(mut self, edit: impl FnOnce(&mut Value) -> Result<()> + Send + 'static) -> Self {
        self.edits.push(Box::new(edit));
        self
    }

    /// Lets the hostile client do this, and records what it cost.
    pub async fn run(self, attack: impl AsyncFnOnce(&Trial) -> Result<Cost>) -> Result<()> {
        let sent = self.sent.clone();
        let trial = self.start().await.with_context(|| format!("cannot begin: {sent}"))?;
        let cost = attack(&trial).await;
        let row = trial.end(sent, cost).await?;
        let faults = row.faults.clone();
        println!("\n{row:#?}");
        row.record();
        if !faults.is_empty() {
            bail!("{}", faults.join("\n"));
        }
        Ok(())
    }

    async fn start(self) -> Result<Trial> {
        raise_file_limit(11_000)?;
        let bound = (self.memory + self.memory / 2) as u64 + FIXED;
        let options: SceneOptions = Scene::of(self.script)
            .config(self.config)
            .edit(move |config| self.edits.into_iter().try_for_each(|edit| edit(config)));
        let mut scene = options.start().await?;
        scene.client = scene.client.with_timeout(LIMIT);
        let neighbour = Neighbour::start(&scene).await?;
        let trial = Trial { scene, items: QuickItems::default(), gate: Gate::closed(), neighbour, bound };
        let items = trial.items.clone();
        trial.react(move |batch| items.answer(batch));
        Ok(trial)
    }
}

impl Trial {
    /// Says what the nodes do with the hostile client's requests; the other client's are carried out.
    pub fn react(&self, react: impl Fn(&Recorded) -> Result<Reaction> + Send + Sync + 'static) {
        self.scene.cluster.react(move |batch| match batch.header("authorization") {
            Some(AUTHORIZATION) => Reaction::items(),
            // It may take a second.
            _ => tokio::task::block_in_place(|| react(batch)).unwrap_or_else(|error| {
                println!("no answer to a batch: {error:#}");
                Reaction::Reset
            }),
        });
    }

    /// Lets the nodes carry the hostile client's requests out once the gate is open.
    pub fn hold(&self) {
        let (gate, items) = (self.gate.clone(), self.items.clone());
        self.react(move |batch| Ok(items.answer(batch)?.after(&gate)));
    }

    /// Begins a hostile request.
    pub fn begin(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        let mut all = vec![("authorization", HOSTILE)];
        if headers.iter().any(|(name, _)| *name == "authorization") {
            all.clear();
        }
        all.extend(headers);
        self.scene.begin_bulk(path, &all, body)
    }

    /// Sends a hostile request.
    pub async fn send(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Result<Response> {
        self.begin(path, headers, body).get().await
    }

    /// The hostile client's requests that arrived at nodes.
    pub fn arrived(&self) -> Vec<Recorded> {
        let bulks = self.scene.cluster.bulks().into_iter();
        bulks.filter(|batch| batch.header("authorization") != Some(AUTHORIZATION)).collect()
    }

    /// How many requests with these operations (fifty at least) the filter has taken in or let pass.
    pub async fn requests(&self, operations: &Operations) -> Result<usize> {
        let passed = usize::try_from(self.scene.passed_through().await?.values().sum::<u64>())?;
        let whole = self.arrived().iter().filter(|batch| batch.body == operations.body).count();
        let all = usize::try_from(self.scene.counted("operations_total").await?)?;
        // The filter's counters are some of the other client's requests behind.
        let hostile = all.saturating_sub(self.neighbour.operations()) + operations.ids.number / 2;
        Ok(whole.min(passed) + hostile / operations.ids.number)
    }

    /// Waits until there are so many of them.
    pub async fn wait_for_requests(&self, number: usize, operations: &Operations) -> Result<()> {
        let are_in = async || Ok((self.requests(operations).await? >= number).then_some(()));
        wait::until(LIMIT, "all requests are in", are_in).await
    }

    /// Waits until one of the filter's counters or gauges is at least this.
    pub async fn wait_for_count(&self, name: &str, number: usize) -> Result<()> {
        let is_there = async || Ok((self.scene.counted(name).await? >= number as u64).then_some(()));
        wait::until(LIMIT, name, is_there).await
    }

    /// Waits until the other client has had further answers, though not much longer than it may wait for them.
    pub async fn wait_for_neighbour(&self) {
        const ANSWERS: usize = 3;
        let before = self.neighbour.answers();
        let is_there = async || Ok((self.neighbour.answers() >= before + ANSWERS).then_some(()));
        // What it has waited is in the report.
        wait::until(4 * PATIENCE, "the other client's answers", is_there).await.ok();
    }

    /// How requests went on: split, or whole and for which reasons.
    pub async fn way(&self) -> Result<String> {
        let passed = self.scene.passed_through().await?;
        let reasons: Vec<String> = passed.iter().map(|(reason, count)| format!("{count} whole: {reason}")).collect();
        Ok(if reasons.is_empty() { "split".into() } else { reasons.join(", ") })
    }

    async fn end(self, sent: String, cost: Result<Cost>) -> Result<Row> {
        let mut faults = Vec::new();
        self.gate.open();
        let Cost { wire, got } = cost.unwrap_or_else(|error| {
            faults.push(format!("its sender: {}", shorten(&format!("{error:#}"))));
            Cost { wire: 0, got: "not what it should".into() }
        });
        let alone = self.neighbour.alone;
        let report = self.neighbour.end()?;
        if let Some(wrong) = report.wrong {
            faults.push(format!("another client's answer: {}", shorten(&wrong)));
        }
        if report.worst > alone + PATIENCE {
            faults.push("another client waits too long".to_owned());
        }
        match self.scene.check().await {
            Err(error) => {
                faults.push(format!("the VM: {}, {}", last_words(&self.scene), shorten(&format!("{error:#}"))))
            }
            Ok(()) => faults.extend(what_stays(&self.scene).await),
        }
        let peak = self.scene.envoy.counter("wasmcustom.bulk_reshuffle_vm_memory_peak_bytes").await?;
        if peak > self.bound {
            faults.push("the VM is too large".to_owned());
        }
        self.scene.envoy.stop().await?;
        let others = format!("{} ms, alone {} ms", report.worst.as_millis(), alone.as_millis());
        let memory = format!("{} of {} MB", peak / 1_000_000, self.bound / 1_000_000);
        Ok(Row { sent, wire, sender: got, others, memory, faults })
    }
}

/// What the filter said when its VM died.
fn last_words(scene: &Scene) -> String {
    let log = scene.envoy.log();
    let said = log.lines().filter_map(|line| line.split_once("wasm log bulk_reshuffle bulk_reshuffle: "));
    let errors = said.filter(|(head, _)| head.contains("[error]") || head.contains("[critical]"));
    // One message may come in several pieces.
    shorten(&errors.take(3).map(|(_, words)| words).collect::<String>())
}

/// Memory that is still counted when no request is left.
async fn what_stays(scene: &Scene) -> Option<String> {
    let is_free = scene.wait_for_stat("wasmcustom.bulk_reshuffle_memory_bytes", |bytes| bytes == 0).await;
    is_free.is_err().then(|| "memory stays counted".to_owned())
}

/// What the hostile client gets if each operation has the item that a node gave it, and if the operations on each document
/// were carried out in their order.
pub fn expect_items(response: &Response, ids: &Ids, status: u16) -> Result<String> {
    expect_items_of(response, ids, &[status])
}

/// The same if items may have one of several statuses.
pub fn expect_items_of(response: &Response, ids: &Ids, statuses: &[u16]) -> Result<String> {
    let items = QuickItems::read(response)?;
    ensure!(items.len() == ids.number, "{} items for {} operations", items.len(), ids.number);
    let odd = items.iter().filter(|item| !statuses.contains(&item.status)).count();
    let other = items.iter().map(|item| item.status).find(|found| !statuses.contains(found));
    ensure!(odd == 0, "{odd} of {} items have another status than {statuses:?}: {other:?}", items.len());
    let mut last = HashMap::new();
    for (item, id) in items.iter().zip(ids.iter()) {
        ensure!(item.id == id, "an item for {} instead of {id}", item.id);
        ensure!(item.number.is_none() || last.insert(id, item.number) < Some(item.number), "{id} out of order");
    }
    Ok(format!("200, {} items", items.len()))
}

/// Not more of a message than a table has room for.
fn shorten(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}
