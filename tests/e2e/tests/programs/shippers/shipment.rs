//! The log entries that every shipper sends, and their expected outcomes.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bulk_reshuffle_e2e::{FakeCluster, Reaction, Recorded};
use bulk_reshuffle_stack::{Client, Distribution, Lifetime, Process, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::counts::Counts;
use crate::documents::documents;
use crate::execution::LIMIT;
use crate::shared_scene::SharedScene;

/// The number of log entries, enough for several requests of each shipper.
pub const ENTRIES: u64 = 3_000;

/// Returns whether the index refuses an entry, because its `n` is not a number.
pub fn is_bad(n: u64) -> bool {
    n % 500 == 123
}

/// Returns a log entry.
pub fn document(n: u64) -> Value {
    let number = if is_bad(n) { json!("many") } else { json!(n) };
    json!({"id": format!("entry-{n}"), "n": number, "text": format!("line {n} of “app”")})
}

/// A test of a shipper that sends log entries through the filter, to an index with six shards on three nodes.
pub struct Shipment {
    pub scene: SharedScene,
    /// The relay that records the requests to the nodes.
    pub nodes: FakeCluster,
    index: String,
    folder: TempDir,
    before: Counts,
    refuses: Arc<AtomicBool>,
}

impl Shipment {
    /// Prepares an index, a folder and a filter that leaves retries of 429 to clients.
    pub async fn start_in_front_of(distribution: Distribution, index: &str) -> Self {
        Self::start_with(distribution, index, json!({"retry": {"attempts": 0}})).await
    }

    /// Prepares an index, a folder and a filter with these fields in its configuration.
    pub async fn start_with(distribution: Distribution, index: &str, config: Value) -> Self {
        let (scene, nodes) = SharedScene::start_recorded_in_front_of(distribution, index, config, |to| to).await;
        scene.index(index, json!({})).await;
        let refuses = refuse_on_demand(&nodes, &scene);
        nodes.forget();
        let before = scene.counts().await;
        Self { scene, nodes, index: index.to_owned(), folder: TempDir::new().unwrap(), before, refuses }
    }

    /// Returns the shipper's folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the pattern of the files with log entries.
    pub fn log_files(&self) -> PathBuf {
        self.folder().join("app*.json")
    }

    /// Writes all entries to one of these files, one per line.
    pub fn write(&self) {
        let lines: String = (0..ENTRIES).map(|n| format!("{}\n", document(n))).collect();
        fs::write(self.folder().join("app.json"), lines).unwrap();
    }

    /// Starts a program, whose log is in the folder.
    pub fn start(&self, name: &str, command: Command) -> Process {
        Process::start(name, command, &self.folder().join(format!("{name}.log")), Lifetime::WithParent).unwrap()
    }

    /// Makes a node refuse its next batch with 429.
    pub fn refuse_next(&self) {
        self.refuses.store(true, Ordering::Relaxed);
    }

    /// Returns the numbers of the entries that the index refuses.
    pub fn bad(&self) -> impl Iterator<Item = u64> + use<> {
        (0..ENTRIES).filter(|n| is_bad(*n))
    }

    /// Waits until all valid entries are indexed.
    pub async fn wait_indexed(&self, process: &Process) {
        let expected = ENTRIES - self.bad().count() as u64;
        let waited = wait::until(LIMIT, "all valid entries are indexed", async || {
            process.ensure_running()?;
            Ok((self.scene.documents(&self.index).await >= expected).then_some(()))
        });
        if let Err(error) = waited.await {
            let indexed = self.scene.documents(&self.index).await;
            let counted = self.counted().await;
            panic!("{error}: {indexed} are\n{}\n{counted:?}\n{}", process.log_extract(), self.folder_extract());
        }
    }

    /// Returns the first lines of each file that the shipper has written.
    fn folder_extract(&self) -> String {
        let files = fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap().path());
        let extract = |path: PathBuf| {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let first: String = text.lines().take(5).map(|line| format!("  {line:.1000}\n")).collect();
            format!("{} has {} lines:\n{first}", path.display(), text.lines().count())
        };
        files.map(extract).collect()
    }

    /// Waits until a file of the folder satisfies a condition, and returns its text.
    pub async fn wait_file(&self, name: &str, is_so: impl Fn(&str) -> bool) -> String {
        let path = self.folder().join(name);
        let read = || fs::read_to_string(&path).unwrap_or_default();
        let waited = wait::until(LIMIT, name, async || Ok(Some(read()).filter(|text| is_so(text))));
        waited.await.unwrap_or_else(|error| panic!("{error}\n{}", read()))
    }

    /// Checks that the index has every valid entry, with its id and content.
    pub async fn check_documents(&self) {
        self.check_documents_with(|id, _| id.to_owned()).await;
    }

    /// Does the same as [`check_documents`](Self::check_documents), with this function from a document's id and source
    /// to the entry's id.
    pub async fn check_documents_with(&self, id_of: impl Fn(&str, &Value) -> String) {
        // Some shippers add fields, and some remove the id.
        let bare = |mut source: Value| {
            source.as_object_mut().unwrap().retain(|name, _| ["n", "text"].contains(&name.as_str()));
            source
        };
        let sources = self.scene.sources(&self.index).await;
        let count = sources.len();
        let found: BTreeMap<_, _> =
            sources.into_iter().map(|(id, source)| (id_of(&id, &source), bare(source))).collect();
        assert_eq!(found.len(), count, "an entry was indexed twice");
        let good = (0..ENTRIES).filter(|n| !is_bad(*n));
        let expected: BTreeMap<_, _> = good.map(|n| (format!("entry-{n}"), bare(document(n)))).collect();
        assert_eq!(found, expected);
    }

    /// Checks that concurrent requests have shared batches.
    pub async fn check_merged(&self) {
        let sum = async |name| self.scene.by_upstream(name).await.values().sum::<u64>();
        let (batches, requests) = (sum("batches").await, sum("batch_requests").await);
        assert!(batches * 2 < requests, "{requests} requests' shares in {batches} batches");
    }

    /// Returns what the filter has counted.
    pub async fn counted(&self) -> Counts {
        self.scene.counts().await.since(&self.before)
    }

    /// Ends the test. Checks that every bulk request was split, that a requested refusal has happened, and that no VM
    /// has died.
    pub async fn end(self) {
        assert!(!self.refuses.load(Ordering::Relaxed), "no batch was refused");
        let counted = self.counted().await;
        counted.check_split(&self.index);
        let good = ENTRIES - self.bad().count() as u64;
        assert!(counted.operations >= good, "{counted:?}");
        self.scene.end().await;
    }
}

impl SharedScene {
    /// Returns a node's address.
    pub fn address(&self, node: usize) -> SocketAddr {
        self.direct(node, "").trim_start_matches("http://").parse().unwrap()
    }

    /// Returns the documents of an index by id.
    pub async fn sources(&self, index: &str) -> BTreeMap<String, Value> {
        let found = documents(&self.client, &self.direct(0, ""), index).await.unwrap();
        found.into_iter().map(|document| (document.id, document.source)).collect()
    }
}

/// Makes node 1 refuse its next batch each time the returned flag is set. The node answers late, because a shipper must
/// not drop what it cannot send meanwhile: rsyslog waits two seconds for room by default.
pub fn refuse_on_demand(nodes: &FakeCluster, to: &SharedScene) -> Arc<AtomicBool> {
    let (demand, client) = (Arc::new(AtomicBool::new(false)), Client::new());
    let addresses: Vec<_> = (0..3).map(|node| to.address(node)).collect();
    let asked = Arc::clone(&demand);
    nodes.react(move |request: &Recorded| {
        if request.node == 1 && asked.swap(false, Ordering::Relaxed) {
            let refusal = Reaction::refusal(429, "es_rejected_execution_exception", "the queue is full");
            return refusal.late(Duration::from_secs(3));
        }
        Reaction::Forward(Box::new(client.clone()), addresses[request.node])
    });
    demand
}
