use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_bench::large_state::LargeCluster;
use bulk_reshuffle_e2e::{Answer, ClusterScript, FakeCluster, Gate, Reaction, Scene, lines};
use bulk_reshuffle_stack::{Client, Counters, wait};
use procfs::process::Process;
use serde_json::json;
use tokio::task::JoinSet;

use crate::plan::Load;

const LIMIT: Duration = Duration::from_secs(60);

/// The time that a node takes for a batch, about that of a real node.
const BATCH_TIME: Duration = Duration::from_millis(5);

/// The length of a document's text, in bytes: about 290 with the rest of the document and its action line.
const BYTES_OF_TEXT: usize = 190;

/// Envoy with the filter, one worker, and a fake cluster of any size.
pub struct LargeScene {
    pub scene: Scene,
    large: Arc<Mutex<LargeCluster>>,
    /// Whether the nodes tell their state.
    is_open: Arc<AtomicBool>,
}

/// The cost of a load.
#[derive(Debug, Clone, Copy)]
pub struct Measurement {
    /// The number of documents written, each on the node that has its primary.
    pub documents: usize,
    pub batches: u64,
    /// The number of parts of requests in these batches.
    pub shares: u64,
    /// The processor time of Envoy's worker.
    pub time: Duration,
}

impl Measurement {
    /// Returns the worker's time for a document, in microseconds.
    pub fn per_document(&self) -> f64 {
        self.time.as_secs_f64() * 1e6 / self.documents as f64
    }

    pub fn documents_of_batch(&self) -> f64 {
        self.documents as f64 / self.batches as f64
    }

    pub fn requests_of_batch(&self) -> f64 {
        self.shares as f64 / self.batches as f64
    }
}

const MERGED: &str = "requests_total.outcome.merged";

impl LargeScene {
    /// Starts Envoy and the cluster of so many nodes. Each node has an Envoy cluster of its own, or one has all of them.
    /// Unless `is_open`, the nodes do not tell their state yet.
    pub async fn start(
        large: LargeCluster,
        (nodes, one_cluster): (usize, bool),
        refresh: &str,
        is_open: bool,
    ) -> Result<Self> {
        let options = Scene::of(ClusterScript::new(nodes)).config(json!({"cluster_state": {"refresh": refresh}}));
        let options = if one_cluster { options.one_cluster() } else { options };
        let (large, is_open) = (Arc::new(Mutex::new(large)), Arc::new(AtomicBool::new(is_open)));
        let (told, door) = (Arc::clone(&large), Arc::clone(&is_open));
        let prepare = move |cluster: &FakeCluster| {
            locked(&told).set_addresses(cluster.addresses());
            cluster.react_to_state_queries(move |request| match door.load(Ordering::Relaxed) {
                true => Some(Reaction::raw(locked(&told).answer(request.node, &request.target)?)),
                false => Some(Reaction::refusal(503, "cluster_block_exception", "not yet")),
            });
        };
        let scene = options.start_with(prepare).await?;
        Ok(Self { scene, large, is_open })
    }

    /// Starts them with as many nodes as the cluster has, and waits until the filter knows where each shard is. No
    /// refresh begins during a measurement.
    pub async fn start_known(large: LargeCluster, one_cluster: bool) -> Result<Self> {
        let nodes = large.nodes();
        let site = Self::start(large, (nodes, one_cluster), "10m", true).await?;
        site.scene.envoy.wait_for_state(LIMIT).await?;
        Ok(site)
    }

    /// Returns the cluster, whose changes the filter sees at its next refresh.
    pub fn cluster(&self) -> MutexGuard<'_, LargeCluster> {
        locked(&self.large)
    }

    /// Lets the nodes tell their state. The worker has a request first, so that it polls before Envoy's main thread does.
    pub async fn tell(&self) -> Result<()> {
        self.scene.bulk("/_bulk", "\n").await?;
        self.is_open.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Makes a change after which the filter loads the state, and waits for that.
    pub async fn load_state(&self, change: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
        let loads = self.count("state_loads_total").await?;
        change().await?;
        self.wait_for("state_loads_total", loads + 1).await
    }

    /// Returns the processor time that the only worker of Envoy has used so far, without that of Envoy's main thread.
    pub fn worker_time(&self) -> Result<Duration> {
        for task in Process::new(self.scene.envoy.process().pid())?.tasks()? {
            let task = task?;
            if task.stat()?.comm.starts_with("wrk:worker_0") {
                return Ok(Duration::from_nanos(task.schedstat()?.sum_exec_runtime));
            }
        }
        None.context("this Envoy does not have a worker")
    }

    /// Returns a counter of the filter, summed over all labels.
    pub async fn count(&self, name: &str) -> Result<u64> {
        Ok(Counters::read(&self.scene.envoy).await?.sum(name))
    }

    /// Waits until a counter has this value. Requests are counted after their answers, and later while others wait.
    async fn wait_for(&self, name: &str, count: u64) -> Result<()> {
        let is_there = async || Ok((self.count(name).await? >= count).then_some(()));
        wait::until(LIMIT, &format!("{name} is {count}"), is_there).await
    }

    /// Sends a load twice, and measures the second run. Fails if a document is not written, or is written on a wrong
    /// node.
    pub async fn measure(&self, load: Load) -> Result<Measurement> {
        let gate = Gate::closed();
        let waiting = self.let_wait(load.waiting, &gate).await?;
        let all = self.documents(load.indices, load.all_documents(), |owner| load.waiting == 0 || owner > 0);
        let bodies = Arc::new(all.chunks(load.documents).map(<[String]>::concat).collect());
        let merged = self.count(MERGED).await?;
        self.send(load, &bodies).await?;
        self.wait_for(MERGED, merged + load.requests as u64).await?;
        self.scene.cluster.forget();
        let (batches, shares) = (self.count("batches_total").await?, self.count("batch_requests_total").await?);
        let before = self.worker_time()?;
        self.send(load, &bodies).await?;
        let time = self.worker_time()?.saturating_sub(before);
        self.wait_for(MERGED, merged + 2 * load.requests as u64).await?;
        let documents = self.count_documents_at_home()?;
        ensure!(documents == load.all_documents(), "{documents} of {} documents arrived", load.all_documents());
        let measured = Measurement {
            documents,
            batches: self.count("batches_total").await? - batches,
            shares: self.count("batch_requests_total").await? - shares,
            time,
        };
        gate.open();
        for answer in waiting {
            ensure!(answer.get().await?.text().contains(r#""errors":false"#), "a waiting request was not served");
        }
        self.scene.cluster.forget();
        Ok(measured)
    }

    /// Sends requests for the first node, which does not answer until the gate opens.
    async fn let_wait(&self, requests: usize, gate: &Gate) -> Result<Vec<Answer>> {
        let gate = gate.clone();
        let is_hung = requests > 0;
        self.scene.cluster.react(move |request| match is_hung && request.node == 0 {
            true => Reaction::items().after(&gate),
            false => Reaction::items().late(BATCH_TIME),
        });
        let before = self.scene.counted("operations_total").await?;
        let documents = self.documents(1, requests, |owner| owner == 0).into_iter();
        let waiting = documents.map(|document| self.scene.begin_bulk("/_bulk", &[], document)).collect();
        self.scene.wait_for_operations(before + requests as u64).await?;
        Ok(waiting)
    }

    /// Returns this many documents for the chosen nodes, spread over `indices` indices round robin.
    fn documents(&self, indices: usize, count: usize, is_chosen: impl Fn(usize) -> bool) -> Vec<String> {
        let large = self.cluster();
        let names = large.names().iter().take(indices).cycle();
        let documents = names.zip(0..).map(|(index, number): (_, usize)| (index, format!("document-{number:09}")));
        documents
            .filter(|(index, id)| large.owner(index, id).is_some_and(&is_chosen))
            .map(|(index, id)| lines::large(index, &id, BYTES_OF_TEXT))
            .take(count)
            .collect()
    }

    /// Sends all requests and reads all answers.
    async fn send(&self, load: Load, bodies: &Arc<Vec<String>>) -> Result<()> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut clients = JoinSet::new();
        for _ in 0..load.clients {
            let (client, url) = (self.scene.client.clone(), self.scene.envoy.url("/_bulk"));
            clients.spawn(send_round_robin(client, url, Arc::clone(bodies), Arc::clone(&next)));
        }
        while let Some(ended) = clients.join_next().await {
            ended??;
        }
        Ok(())
    }

    /// Returns how many documents the nodes have received. Fails if one is not on the node that has its primary.
    fn count_documents_at_home(&self) -> Result<usize> {
        let (bulks, mut count) = (self.scene.cluster.bulks(), 0);
        let large = self.cluster();
        for bulk in bulks {
            for operation in bulk.operations()? {
                let id = operation.id.context("a document without an id")?;
                let owner = large.owner(&operation.index, &id);
                ensure!(owner == Some(bulk.node), "{id} is on es-{}, and its primary on {owner:?}", bulk.node);
                count += 1;
            }
        }
        Ok(count)
    }
}

fn locked(large: &Mutex<LargeCluster>) -> MutexGuard<'_, LargeCluster> {
    large.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn send_round_robin(client: Client, url: String, bodies: Arc<Vec<String>>, next: Arc<AtomicUsize>) -> Result<()> {
    while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
        let answer = client.post_ndjson(&url, body.clone()).await?;
        let is_written = answer.status == 200 && answer.text().contains(r#""errors":false"#);
        ensure!(is_written, "{}: {}", answer.status, answer.text());
    }
    Ok(())
}

/// Tests of the measured cases: all documents are written, each on its node, in batches, and while requests wait.
#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn documents_reach_their_primaries_on_thirty_nodes_with_three_hundred_shards() -> Result<()> {
        for one_cluster in [false, true] {
            check_thirty_nodes(one_cluster).await.with_context(|| format!("in one Envoy cluster: {one_cluster}"))?;
        }
        Ok(())
    }

    async fn check_thirty_nodes(one_cluster: bool) -> Result<()> {
        let site = LargeScene::start_known(LargeCluster::with(30, 30, 10), one_cluster).await?;
        // This fails unless all of them arrive, each on its node.
        let large = site.measure(Load { clients: 2, requests: 4, documents: 200, indices: 30, waiting: 0 }).await?;
        assert_eq!(large.documents, 800);
        assert!((1..=120).contains(&large.batches) && large.shares <= 120, "{large:?}");
        let small = site.measure(Load { clients: 40, requests: 200, documents: 1, indices: 1, waiting: 0 }).await?;
        assert_eq!((small.documents, small.shares), (200, 200));
        assert!(small.batches <= 200 && small.per_document() > 0.0, "{small:?}");
        site.scene.finish().await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn others_are_served_while_requests_wait_for_one_node() -> Result<()> {
        let site = LargeScene::start_known(LargeCluster::with(3, 1, 6), false).await?;
        let beside = site.measure(Load { clients: 8, requests: 100, documents: 1, indices: 1, waiting: 50 }).await?;
        assert_eq!((beside.documents, beside.shares), (100, 100));
        site.scene.finish().await
    }
}
