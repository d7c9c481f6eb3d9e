use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::load::Clients;
use bulk_reshuffle_stack::{Client, wait};
use serde_json::{Value, json};

use crate::fault_scene::{FaultScene, Plan};

/// How many clients write to the slow index, and how many to the other one: a list of numbers, for a table.
const WRITERS: &str = "WRITERS";

/// How long the cluster waits for what is missing.
const WAIT: Duration = Duration::from_secs(4);

/// How long each measurement takes.
const MEASUREMENT: Duration = Duration::from_secs(8);

/// A request of the other index that takes longer was caught: it waited for the slow index.
const CAUGHT: Duration = Duration::from_secs(2);

const LIMIT: Duration = Duration::from_secs(60);

/// What makes the cluster wait before it answers.
#[derive(Debug, Clone, Copy)]
enum Slow {
    /// The index asks for a copy that is missing.
    MissingCopy,
    /// A primary is not assigned.
    Red,
    /// A replica's node has stopped, and the cluster has not noticed yet.
    FrozenReplica,
}

impl Slow {
    const ALL: [Self; 3] = [Self::MissingCopy, Self::Red, Self::FrozenReplica];

    fn index(self) -> &'static str {
        match self {
            Self::MissingCopy => "copies",
            Self::Red => "red",
            Self::FrozenReplica => "mirrored",
        }
    }
}

/// A client that writes small requests to one index, one after the other.
struct Writer {
    client: Client,
    url: String,
    body: String,
    times: Vec<Duration>,
}

impl Writer {
    fn new(url: &str, index: &str, number: usize) -> Self {
        let line = |n| format!("{{\"index\":{{\"_index\":\"{index}\",\"_id\":\"{number}-{n}\"}}}}\n{{\"n\":{n}}}\n");
        let client = Client::sequential().with_timeout(LIMIT);
        Self { client, url: url.to_owned(), body: (0..10).map(line).collect(), times: Vec::new() }
    }

    async fn write(mut self) -> Result<Self> {
        let begun = Instant::now();
        let answer = self.client.post_ndjson(&self.url, self.body.clone()).await?;
        self.times.push(begun.elapsed());
        ensure!(answer.status.is_success() || answer.status.is_server_error(), "{}", answer.text());
        Ok(self)
    }
}

/// Starts this many writers of an index.
fn start(url: &str, index: &str, writers: usize) -> Clients<Writer> {
    let mut clients = Clients::default();
    for number in 0..writers {
        clients.add(Writer::new(url, index, number), |writer: Writer, _| writer.write());
    }
    clients
}

/// Returns the sorted latencies of these writers, after their current requests.
async fn times(clients: Clients<Writer>) -> Result<Vec<Duration>> {
    let mut times: Vec<_> = clients.end().await?.into_iter().flat_map(|writer| writer.times).collect();
    times.sort();
    Ok(times)
}

/// Makes the slow indices and one other, with primaries on one node, so that their operations could share batches.
async fn make_indices(scene: &FaultScene, home: &str, frozen: &str) -> Result<()> {
    let on = |node: &str, more: Value| -> Value {
        let mut settings = json!({"number_of_shards": 2, "routing.allocation.include._name": node});
        settings.as_object_mut().into_iter().for_each(|all| all.extend(more.as_object().cloned().unwrap_or_default()));
        settings
    };
    let backend = &scene.backend;
    backend.make_index("quick", &on(home, json!({}))).await?;
    backend.make_index(Slow::FrozenReplica.index(), &on(home, json!({}))).await?;
    backend.wait_green().await?;
    let replica = json!({"routing.allocation.include._name": format!("{home},{frozen}"), "number_of_replicas": 1});
    backend.put(&format!("/{}/_settings", Slow::FrozenReplica.index()), json!({"index": replica})).await?;
    backend.wait_green().await?;
    let copies = json!({"number_of_replicas": 1, "write.wait_for_active_shards": "2"});
    backend.make_index(Slow::MissingCopy.index(), &on(home, copies)).await?;
    backend.make_index(Slow::Red.index(), &on("nowhere", json!({}))).await
}

/// Returns the number of a node that is not the master: the cluster would not answer without it.
async fn frozen(scene: &FaultScene) -> Result<usize> {
    let master = scene.backend.get("/_cat/master?format=json").await?;
    let master = master[0]["node"].as_str().context("no master")?.to_owned();
    scene.backend.nodes.iter().rposition(|(name, _)| *name != master).context("there is another node")
}

/// Waits until a node answers that all nodes are in the cluster.
async fn wait_joined(scene: &FaultScene, node: usize) -> Result<()> {
    let path = format!("/_cluster/health?wait_for_nodes={}&timeout=1s", scene.backend.nodes.len());
    let (client, url) = (Client::new().with_timeout(Duration::from_secs(5)), scene.backend.direct(node, &path)?);
    let answer = async || Ok(client.get_json(&url).await.ok().filter(|health| health["timed_out"] == false));
    wait::until(LIMIT, "the node is back", answer).await.map(|_| ())
}

/// Prints how long the writers of the other index wait while the index is slow. Returns how many of their requests were
/// caught.
async fn measure(scene: &mut FaultScene, slow: Slow, frozen: usize, writers: usize, url: &str) -> Result<usize> {
    let others = start(url, "quick", writers);
    tokio::time::sleep(Duration::from_secs(1)).await;
    if let Slow::FrozenReplica = slow {
        scene.backend.cluster()?.pause(frozen)?;
    }
    let own = start(url, slow.index(), writers);
    tokio::time::sleep(MEASUREMENT).await;
    if let Slow::FrozenReplica = slow {
        scene.backend.cluster()?.resume(frozen)?;
    }
    let (others, own) = (times(others).await?, times(own).await?);
    let part = |times: &[Duration], part: f64| times[((times.len() - 1) as f64 * part) as usize];
    println!(
        "slow index, {slow:?}, {writers} writers each: others {} requests, median {:.1?}, 99 % {:.1?}, longest {:.1?}; own \
         median {:.1?}",
        others.len(),
        part(&others, 0.5),
        part(&others, 0.99),
        part(&others, 1.0),
        part(&own, 0.5)
    );
    ensure!(part(&own, 1.0) > CAUGHT, "the index is not slow");
    wait_joined(scene, frozen).await?;
    Ok(others.iter().filter(|time| **time > CAUGHT).count())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_index_delays_only_its_own_writers() -> Result<()> {
    let writers = std::env::var(WRITERS).unwrap_or_else(|_| "8".to_owned());
    let numbers: Vec<usize> = writers.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let mut scene = Plan::new("slow index").alone().start().await?;
    let frozen = frozen(&scene).await?;
    let home = usize::from(frozen == 0);
    let names = [home, frozen].map(|node| scene.backend.nodes[node].0.clone());
    make_indices(&scene, &names[0], &names[1]).await?;
    let query = format!("/_bulk?timeout={}s", WAIT.as_secs());
    let (through, direct) = (scene.envoy.url(&query), scene.backend.direct(home, &query)?);
    let client = Client::new();
    let is_split = async || {
        let before = scene.counted("requests_total.outcome.merged").await?;
        client.post_ndjson(&through, Writer::new(&through, "quick", 0).body).await?;
        Ok((scene.counted("requests_total.outcome.merged").await? > before).then_some(()))
    };
    wait::until(LIMIT, "the filter knows the index", is_split).await?;
    for slow in Slow::ALL {
        for number in &numbers {
            let caught = measure(&mut scene, slow, frozen, *number, &through).await?;
            // Each writer has one connection, and so one worker. What is known before catches no request.
            let most = if let Slow::FrozenReplica = slow { *number } else { 0 };
            ensure!(caught <= most, "{slow:?}: {caught} requests of {number} other writers were caught");
            if numbers.len() > 1 {
                print!("directly: ");
                measure(&mut scene, slow, frozen, *number, &direct).await?;
            }
        }
    }
    println!("slow index: {} batches were late", scene.counted("batches_late_total").await?);
    for slow in [Slow::MissingCopy, Slow::Red] {
        scene.backend.delete(&format!("/{}", slow.index())).await?;
    }
    scene.stop(Duration::ZERO).await
}
