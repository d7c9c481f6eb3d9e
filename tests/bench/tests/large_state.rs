//! The cost of a state of 10,000 indices and 100,000 shards inside Envoy: `make bench-state`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_bench::envoy_worker;
use bulk_reshuffle_bench::large_state::LargeCluster;
use bulk_reshuffle_e2e::load::{Pace, Probe};
use bulk_reshuffle_e2e::{ClusterScript, Reaction, Scene};
use bulk_reshuffle_stack::{Client, wait};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

/// How often each measurement is repeated.
const ROUNDS: usize = 5;

/// Starts a probe that sends small requests through the only worker during a refresh, up to one per millisecond.
fn probe(scene: &Scene) -> Probe {
    let (client, url) = (Client::new(), scene.envoy.url("/"));
    Probe::start(Pace::Every(Duration::from_millis(1)), move || {
        let (client, url) = (client.clone(), url.clone());
        async move { client.get(&url).await?.ok().map(|_| ()) }
    })
}

/// Ends a probe, and returns its highest latency in milliseconds, or its first error.
async fn longest(probe: Probe) -> Result<f64> {
    let latency = probe.end().await?;
    latency.error.map_or_else(|| Ok(latency.longest.as_secs_f64() * 1e3), Err)
}

/// The cost of one refresh, in milliseconds.
#[derive(Debug, Default, Clone)]
struct Cost {
    /// The wall time that the filter has measured.
    busy: f64,
    /// The CPU time of Envoy's worker. It includes Envoy's own work for the answers, but nothing else on the machine.
    processor: f64,
    /// The highest latency of the probe.
    longest: f64,
}

/// A scripted cluster with a large state, and Envoy with one worker in front of it.
struct LargeScene {
    scene: Scene,
    large: Arc<Mutex<LargeCluster>>,
}

impl LargeScene {
    async fn start(indices: usize) -> Result<Self> {
        let large = Arc::new(Mutex::new(LargeCluster::new(indices)));
        let config = json!({"cluster_state": {"refresh": "1s"}});
        let scene = Scene::of(ClusterScript::new(3)).config(config).start_cold().await?;
        let answering = Arc::clone(&large);
        scene.cluster.react_to_state_queries(move |request| {
            Some(Reaction::raw(answering.lock().unwrap().answer(&request.target)?))
        });
        Ok(Self { scene, large })
    }

    /// Returns the CPU time of Envoy's worker so far, in milliseconds.
    fn processor(&self) -> Result<f64> {
        Ok(envoy_worker::processor_time(self.scene.envoy.process().pid())?.as_secs_f64() * 1e3)
    }

    async fn count(&self, name: &str) -> Result<u64> {
        let name = format!("wasmcustom.bulk_reshuffle_{name}");
        Ok(self.scene.envoy.stats_with(&name).await?.get(&name).copied().unwrap_or_default())
    }

    /// Makes a change after which the filter reloads the state, and measures the reload: its cost on an idle worker, or
    /// the latency of requests meanwhile.
    async fn measure(&self, is_probed: bool, change: impl AsyncFnOnce() -> Result<()>) -> Result<Cost> {
        let busy = self.count("state_busy_microseconds_total").await?;
        let loads = self.count("state_loads_total").await?;
        let processor = self.processor()?;
        let probe = is_probed.then(|| probe(&self.scene));
        change().await?;
        wait::until(LIMIT, "the state is read", async || {
            Ok((self.count("state_loads_total").await? > loads).then_some(()))
        })
        .await?;
        let longest = match probe {
            Some(probe) => longest(probe).await?,
            None => 0.0,
        };
        let busy = (self.count("state_busy_microseconds_total").await? - busy) as f64 / 1e3;
        Ok(Cost { busy, processor: self.processor()? - processor, longest })
    }

    /// Returns the highest latency of the probe without a refresh.
    async fn rest(&self) -> Result<f64> {
        let probe = probe(&self.scene);
        tokio::time::sleep(Duration::from_secs(1)).await;
        longest(probe).await
    }

    /// Returns the quantiles of the steps so far, in microseconds.
    async fn steps(&self) -> Result<Value> {
        // Envoy merges histograms every five seconds.
        tokio::time::sleep(Duration::from_secs(6)).await;
        let url = self.scene.envoy.admin_url("/stats?format=json&histogram_buckets=summary&filter=state_step");
        let stats = Client::new().get_json(&url).await?;
        Ok(stats["stats"][0]["histograms"].clone())
    }
}

fn spread(mut numbers: Vec<f64>) -> String {
    numbers.sort_by(f64::total_cmp);
    format!("{:.1} ({:.1} to {:.1})", numbers[numbers.len() / 2], numbers[0], numbers[numbers.len() - 1])
}

fn tell(what: &str, costs: &[Cost]) {
    let of = |number: fn(&Cost) -> f64| spread(costs.iter().map(number).collect());
    println!(
        "{what:<26} VM {:<24} longest request {:<24} worker {}",
        of(|cost| cost.busy),
        of(|cost| cost.longest),
        of(|cost| cost.processor)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cost_of_a_large_state_is_measured() -> Result<()> {
    println!("milliseconds: median (minimum to maximum) of {ROUNDS}");
    let mut first = Vec::new();
    for _ in 0..ROUNDS {
        let state = LargeScene::start(10_000).await?;
        first.push(state.measure(false, async || state.scene.bulk("/_bulk", "\n").await.map(|_| ())).await?);
        state.scene.finish().await?;
    }
    tell("first load", &first);

    let state = LargeScene::start(10_000).await?;
    state.measure(false, async || state.scene.bulk("/_bulk", "\n").await.map(|_| ())).await?;
    let mut rests = Vec::new();
    for _ in 0..ROUNDS {
        rests.push(state.rest().await?);
    }
    println!("{:<26} {:<27} longest request {}", "no refresh", "", spread(rests));
    for changed in [0, 1, 100, 1_000] {
        let mut costs = Vec::new();
        for _ in 0..ROUNDS {
            let change = async || {
                state.large.lock().unwrap().change(changed);
                Ok(())
            };
            let quiet = state.measure(false, change).await?;
            let longest = state.measure(true, change).await?.longest;
            costs.push(Cost { longest, ..quiet });
        }
        tell(&format!("{changed} of 10,000 changed"), &costs);
    }
    println!("steps: {}", state.steps().await?);
    state.scene.finish().await
}
