use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_bench::envoy_worker;
use bulk_reshuffle_bench::large_state::LargeCluster;
use bulk_reshuffle_e2e::{Answer, ClusterScript, Gate, Reaction, Scene, lines};
use bulk_reshuffle_stack::{Client, wait};
use serde_json::json;
use tokio::task::JoinSet;

use crate::measurement::Measurement;
use crate::plan::Load;

const LIMIT: Duration = Duration::from_secs(60);

/// The time that a node takes for a batch, about that of a real node.
const BATCH_TIME: Duration = Duration::from_millis(5);

/// The length of a document's text, in bytes: about 290 with the rest of the document and its action line.
const BYTES_OF_TEXT: usize = 190;

/// Envoy with the filter and a fake cluster of any size.
pub struct LargeScene {
    scene: Scene,
    large: Arc<LargeCluster>,
}

const MERGED: &str = "requests_total.outcome.merged";

impl LargeScene {
    /// Starts Envoy and the cluster, and waits until the filter knows where each shard is.
    pub async fn start(large: LargeCluster) -> Result<Self> {
        let large = Arc::new(large);
        // There is no refresh during a measurement.
        let config = json!({"cluster_state": {"refresh": "10m"}});
        let scene = Scene::of(ClusterScript::new(large.nodes())).config(config).start_cold().await?;
        let answering = Arc::clone(&large);
        scene.cluster.react_to_state_queries(move |request| Some(Reaction::raw(answering.answer(&request.target)?)));
        let site = Self { scene, large };
        site.scene.bulk("/_bulk", "\n").await?;
        wait::until(
            LIMIT,
            "the state is read",
            async || Ok((site.count("state_loads_total").await? > 0).then_some(())),
        )
        .await?;
        Ok(site)
    }

    /// Sends a load twice, and measures the second run. Fails if a document is not written, or is written on a wrong
    /// node.
    pub async fn measure(&self, load: Load) -> Result<Measurement> {
        let gate = Gate::closed();
        let waiting = self.let_wait(load.waiting, &gate).await?;
        let bodies = Arc::new(self.bodies(load));
        let merged = self.count(MERGED).await?;
        self.send(load, &bodies).await?;
        self.wait_for_merged(merged + load.requests as u64).await?;
        self.scene.cluster.forget();
        let (batches, shares) = (self.count("batches_total").await?, self.count("batch_requests_total").await?);
        let pid = self.scene.envoy.process().pid();
        let before = envoy_worker::processor_time(pid)?;
        self.send(load, &bodies).await?;
        let time = envoy_worker::processor_time(pid)?.saturating_sub(before);
        self.wait_for_merged(merged + 2 * load.requests as u64).await?;
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

    /// Stops Envoy. Fails if the filter reported problems.
    pub async fn finish(self) -> Result<()> {
        self.scene.finish().await
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
        let documents = self.documents(1, |owner| owner == 0).take(requests);
        let waiting = documents.map(|document| self.scene.begin_bulk("/_bulk", &[], document)).collect();
        self.scene.wait_for_operations(before + requests as u64).await?;
        Ok(waiting)
    }

    fn bodies(&self, load: Load) -> Vec<String> {
        let mut documents = self.documents(load.indices, |owner| load.waiting == 0 || owner > 0);
        (0..load.requests).map(|_| documents.by_ref().take(load.documents).collect()).collect()
    }

    /// Returns documents for the chosen nodes, spread over `indices` indices round robin.
    fn documents(&self, indices: usize, is_chosen: impl Fn(usize) -> bool) -> impl Iterator<Item = String> {
        let names = self.large.names().iter().take(indices).cycle();
        let documents = names.zip(0..).map(|(index, number): (_, usize)| (index, format!("document-{number:09}")));
        documents
            .filter(move |(index, id)| self.large.owner(index, id).is_some_and(&is_chosen))
            .map(|(index, id)| lines::large(index, &id, BYTES_OF_TEXT))
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

    /// Waits until `requests` requests, and thus their batches, are counted. This takes longer while others wait.
    async fn wait_for_merged(&self, requests: u64) -> Result<()> {
        let counted = async || Ok((self.count(MERGED).await? >= requests).then_some(()));
        wait::until(LIMIT, "all requests are counted", counted).await
    }

    /// Returns how many documents the nodes have received. Fails if one is not on the node that has its primary.
    fn count_documents_at_home(&self) -> Result<usize> {
        let mut count = 0;
        for bulk in self.scene.cluster.bulks() {
            for operation in bulk.operations()? {
                let id = operation.id.context("a document without an id")?;
                let owner = self.large.owner(&operation.index, &id);
                ensure!(owner == Some(bulk.node), "{id} is on es-{}, and its primary on {owner:?}", bulk.node);
                count += 1;
            }
        }
        Ok(count)
    }

    /// Returns a counter of the filter, summed over all upstreams.
    async fn count(&self, name: &str) -> Result<u64> {
        let name = format!("wasmcustom.bulk_reshuffle_{name}");
        let all = self.scene.envoy.stats_with(&name).await?;
        Ok(all.iter().filter(|(found, _)| found.starts_with(&name)).map(|(_, count)| count).sum())
    }
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
        let site = LargeScene::start(LargeCluster::with(30, 30, 10)).await?;
        // This fails unless all of them arrive, each on its node.
        let large = site.measure(Load { clients: 2, requests: 4, documents: 200, indices: 30, waiting: 0 }).await?;
        assert_eq!(large.documents, 800);
        assert!((1..=120).contains(&large.batches) && large.shares <= 120, "{large:?}");
        let small = site.measure(Load { clients: 40, requests: 200, documents: 1, indices: 1, waiting: 0 }).await?;
        assert_eq!((small.documents, small.shares), (200, 200));
        assert!(small.batches <= 200 && small.per_document() > 0.0, "{small:?}");
        site.finish().await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn others_are_served_while_requests_wait_for_one_node() -> Result<()> {
        let site = LargeScene::start(LargeCluster::with(3, 1, 6)).await?;
        let beside = site.measure(Load { clients: 8, requests: 100, documents: 1, indices: 1, waiting: 50 }).await?;
        assert_eq!((beside.documents, beside.shares), (100, 100));
        site.finish().await
    }
}
