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

/// The hostile client's value of `authorization`.
pub const HOSTILE: &str = "ApiKey hostile";

/// How much longer the other client may wait than when alone.
const PATIENCE: Duration = Duration::from_secs(2);

/// The timeout of a hostile client's request.
const LIMIT: Duration = Duration::from_secs(90);

/// The memory that a VM may use in addition to one and a half times `limits.memory`.
const FIXED: u64 = 4 << 20;

/// The setup of a trial: a description of the hostile requests, the filter's configuration and the cluster.
pub struct Plan {
    sent: String,
    memory: usize,
    options: SceneOptions,
}

/// A hostile client, and another client that writes continuously.
pub struct Trial {
    pub scene: Scene,
    /// Answers that carry out every operation.
    pub items: QuickItems,
    /// A gate for reactions to the hostile client. It is opened at the end.
    pub gate: Gate,
    neighbour: Neighbour,
    bound: u64,
}

/// The cost to the hostile client, and its result.
pub struct Cost {
    /// The number of bytes on the wire.
    pub wire: usize,
    /// The answers that it got.
    pub got: String,
}

impl Plan {
    /// Creates a plan with this description and three nodes with the index `books` and the index `i` of two shards.
    pub fn new(sent: impl Into<String>) -> Self {
        let options = Scene::of(ClusterScript::three_nodes()).index(Index::new("i", [0, 1]));
        Self { sent: sent.into(), memory: 256 * MIB, options }
    }

    /// Sets `limits.memory`, and limits `max_request` to at most that.
    pub fn memory(self, mib: usize) -> Self {
        let limits = json!({"memory": format!("{mib}mb"), "max_request": format!("{}mb", mib.min(100))});
        Self { memory: mib * MIB, ..self }.config(json!({"limits": limits}))
    }

    pub fn index(self, index: Index) -> Self {
        Self { options: self.options.index(index), ..self }
    }

    /// Sets fields of the filter's configuration.
    pub fn config(self, fields: Value) -> Self {
        Self { options: self.options.config(fields), ..self }
    }

    /// Changes Envoy's configuration.
    pub fn edit(self, edit: impl FnOnce(&mut Value) -> Result<()> + Send + 'static) -> Self {
        Self { options: self.options.edit(edit), ..self }
    }

    /// Runs an attack, and records its result.
    pub async fn run(self, attack: impl AsyncFnOnce(&Trial) -> Result<Cost>) -> Result<()> {
        let sent = self.sent.clone();
        let trial = self.start().await.with_context(|| format!("cannot start: {sent}"))?;
        let cost = attack(&trial).await;
        let row = trial.end(sent.clone(), cost).await?;
        let faults = row.faults.clone();
        println!("\n{row:#?}");
        row.record();
        if !faults.is_empty() {
            bail!("{sent}: {}", faults.join("\n"));
        }
        Ok(())
    }

    async fn start(self) -> Result<Trial> {
        raise_file_limit(11_000)?;
        let bound = (self.memory + self.memory / 2) as u64 + FIXED;
        let mut scene = self.options.start().await?;
        scene.client = scene.client.with_timeout(LIMIT);
        let neighbour = Neighbour::start(&scene).await?;
        let trial = Trial { scene, items: QuickItems::default(), gate: Gate::closed(), neighbour, bound };
        let items = trial.items.clone();
        trial.react(move |batch| items.answer(batch));
        Ok(trial)
    }
}

impl Trial {
    /// Sets the nodes' reaction to the hostile client's requests. They carry out the other client's requests.
    pub fn react(&self, react: impl Fn(&Recorded) -> Result<Reaction> + Send + Sync + 'static) {
        self.scene.cluster.react(move |batch| match batch.header("authorization") {
            Some(AUTHORIZATION) => Reaction::items(),
            // The reaction may take a second to compute.
            _ => tokio::task::block_in_place(|| react(batch)).unwrap_or_else(|error| {
                println!("no answer to a batch: {error:#}");
                Reaction::Reset
            }),
        });
    }

    /// Makes the nodes carry out the hostile client's requests only once the gate is open.
    pub fn hold(&self) {
        let (gate, items) = (self.gate.clone(), self.items.clone());
        self.react(move |batch| Ok(items.answer(batch)?.after(&gate)));
    }

    pub fn begin(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        let mut all = vec![("authorization", HOSTILE)];
        if headers.iter().any(|(name, _)| *name == "authorization") {
            all.clear();
        }
        all.extend(headers);
        self.scene.begin_bulk(path, &all, body)
    }

    pub async fn send(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Result<Response> {
        self.begin(path, headers, body).get().await
    }

    /// Returns the hostile client's requests that reached the nodes.
    pub fn arrived(&self) -> Vec<Recorded> {
        let bulks = self.scene.cluster.bulks().into_iter();
        bulks.filter(|batch| batch.header("authorization") != Some(AUTHORIZATION)).collect()
    }

    /// Returns how many requests with these operations (at least fifty) the filter has accepted or passed through.
    pub async fn requests(&self, operations: &Operations) -> Result<usize> {
        let passed = usize::try_from(self.scene.passed_through().await?.values().sum::<u64>())?;
        let whole = self.arrived().iter().filter(|batch| batch.body == operations.body).count();
        let all = usize::try_from(self.scene.counted("operations_total").await?)?;
        // The filter's counters lag behind by some of the other client's requests.
        let hostile = all.saturating_sub(self.neighbour.operations()) + operations.ids.number / 2;
        Ok(whole.min(passed) + hostile / operations.ids.number)
    }

    /// Waits until [`requests`](Self::requests) reaches this number.
    pub async fn wait_for_requests(&self, number: usize, operations: &Operations) -> Result<()> {
        let are_in = async || Ok((self.requests(operations).await? >= number).then_some(()));
        wait::until(LIMIT, "all requests have arrived", are_in).await
    }

    /// Waits until the filter has all these requests, which the nodes hold, and the other client has further answers.
    pub async fn hold_all(
        &self,
        requests: impl Iterator<Item = Answer>,
        operations: &Operations,
    ) -> Result<Vec<Answer>> {
        let answers: Vec<Answer> = requests.collect();
        self.wait_for_requests(answers.len(), operations).await?;
        self.wait_for_neighbour().await;
        Ok(answers)
    }

    /// Opens the gate, and checks the answers to these requests: see [`expect_items`]. Returns a summary.
    pub async fn release(&self, held: Vec<Answer>, ids: &Ids, statuses: &[u16]) -> Result<String> {
        self.gate.open();
        let requests = held.len();
        for answer in held {
            expect_items(&answer.get().await?, ids, statuses)?;
        }
        Ok(format!("200, {requests} × {} items, {}", ids.number, self.way().await?))
    }

    /// Waits until one of the filter's counters or gauges is at least this.
    pub async fn wait_for_count(&self, name: &str, number: usize) -> Result<()> {
        let is_there = async || Ok((self.scene.counted(name).await? >= number as u64).then_some(()));
        wait::until(LIMIT, name, is_there).await
    }

    /// Waits until the other client has got further answers, up to a limit somewhat above its permitted latency.
    pub async fn wait_for_neighbour(&self) {
        const ANSWERS: usize = 3;
        let before = self.neighbour.answers();
        let is_there = async || Ok((self.neighbour.answers() >= before + ANSWERS).then_some(()));
        // The report contains its latency, so a timeout is not an error here.
        wait::until(4 * PATIENCE, "the other client's answers", is_there).await.ok();
    }

    /// Returns whether requests were split, or for which reasons they passed through.
    pub async fn way(&self) -> Result<String> {
        let passed = self.scene.passed_through().await?;
        let reasons: Vec<String> =
            passed.iter().map(|(reason, count)| format!("{count} passed through: {reason}")).collect();
        Ok(if reasons.is_empty() { "split".into() } else { reasons.join(", ") })
    }

    async fn end(self, sent: String, cost: Result<Cost>) -> Result<Row> {
        let mut faults = Vec::new();
        self.gate.open();
        let Cost { wire, got } = cost.unwrap_or_else(|error| {
            faults.push(format!("wrong result: {}", shorten(&format!("{error:#}"))));
            Cost { wire: 0, got: "a wrong answer".into() }
        });
        let alone = self.neighbour.alone;
        let latency = self.neighbour.end().await?;
        if let Some(error) = latency.error {
            faults.push(format!("another client's answer: {}", shorten(&format!("{error:#}"))));
        }
        if latency.longest > alone + PATIENCE {
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
        let others = format!("{} ms, alone {} ms", latency.longest.as_millis(), alone.as_millis());
        let memory = format!("{} of {} MB", peak / 1_000_000, self.bound / 1_000_000);
        Ok(Row { sent, wire, sender: got, others, memory, faults })
    }
}

/// Returns the filter's last errors before its VM died.
fn last_words(scene: &Scene) -> String {
    let log = scene.envoy.log();
    let said = log.lines().filter_map(|line| line.split_once("wasm log bulk_reshuffle bulk_reshuffle: "));
    let errors = said.filter(|(head, _)| head.contains("[error]") || head.contains("[critical]"));
    // One message may be logged in several pieces.
    shorten(&errors.take(3).map(|(_, words)| words).collect::<String>())
}

/// Returns a fault if the filter still counts memory when no request is left.
async fn what_stays(scene: &Scene) -> Option<String> {
    let is_free = scene.wait_for_stat("wasmcustom.bulk_reshuffle_memory_bytes", |bytes| bytes == 0).await;
    is_free.is_err().then(|| "counted memory is not released".to_owned())
}

/// Checks that each operation has the item that a node gave it, with one of these statuses, and that the operations on
/// each document were carried out in order. Returns a summary.
pub fn expect_items(response: &Response, ids: &Ids, statuses: &[u16]) -> Result<String> {
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

/// Shortens a message to fit into the table.
fn shorten(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}
