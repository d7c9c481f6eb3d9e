//! The cost of a state of 10,000 indices and 100,000 shards inside Envoy: `make bench-state`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use bulk_reshuffle_bench::envoy_worker;
use bulk_reshuffle_bench::large_state::LargeCluster;
use bulk_reshuffle_e2e::{ClusterScript, Reaction, Scene};
use bulk_reshuffle_stack::{Client, wait};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

/// How often each measurement is repeated.
const ROUNDS: usize = 5;

/// A probe that sends small requests through the only worker during a refresh, up to one per millisecond.
struct Probe {
    stop: Arc<AtomicBool>,
    latencies: std::thread::JoinHandle<Result<Vec<Duration>>>,
}

impl Probe {
    fn start(url: String) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let sending = async move {
            let (client, mut latencies) = (Client::new(), Vec::new());
            let mut pace = tokio::time::interval(Duration::from_millis(1));
            while !is_over.load(Ordering::Relaxed) {
                pace.tick().await;
                let begin = Instant::now();
                client.get(&url).await?.ok()?;
                latencies.push(begin.elapsed());
            }
            Ok(latencies)
        };
        // On its own thread, because the nodes take long to write large answers.
        let latencies = std::thread::spawn(|| {
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(sending)
        });
        Self { stop, latencies }
    }

    /// Ends the probe, and returns the highest latency.
    async fn longest(self) -> Result<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        let latencies = tokio::task::spawn_blocking(|| self.latencies.join()).await?;
        Ok(latencies.expect("the probe panicked")?.into_iter().max().unwrap_or_default())
    }
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

struct Site {
    scene: Scene,
    large: Arc<Mutex<LargeCluster>>,
}

impl Site {
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
        let probe = is_probed.then(|| Probe::start(self.scene.envoy.url("/")));
        change().await?;
        wait::until(LIMIT, "the state is read", async || {
            Ok((self.count("state_loads_total").await? > loads).then_some(()))
        })
        .await?;
        let longest = match probe {
            Some(probe) => probe.longest().await?.as_secs_f64() * 1e3,
            None => 0.0,
        };
        let busy = (self.count("state_busy_microseconds_total").await? - busy) as f64 / 1e3;
        Ok(Cost { busy, processor: self.processor()? - processor, longest })
    }

    /// Returns the highest latency of the probe without a refresh.
    async fn rest(&self) -> Result<f64> {
        let probe = Probe::start(self.scene.envoy.url("/"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(probe.longest().await?.as_secs_f64() * 1e3)
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
        let site = Site::start(10_000).await?;
        first.push(site.measure(false, async || site.scene.bulk("/_bulk", "\n").await.map(|_| ())).await?);
        site.scene.finish().await?;
    }
    tell("first load", &first);

    let site = Site::start(10_000).await?;
    site.measure(false, async || site.scene.bulk("/_bulk", "\n").await.map(|_| ())).await?;
    let mut rests = Vec::new();
    for _ in 0..ROUNDS {
        rests.push(site.rest().await?);
    }
    println!("{:<26} {:<27} longest request {}", "no refresh", "", spread(rests));
    for changed in [0, 1, 100, 1_000] {
        let mut costs = Vec::new();
        for _ in 0..ROUNDS {
            let change = async || {
                site.large.lock().unwrap().change(changed);
                Ok(())
            };
            let quiet = site.measure(false, change).await?;
            let longest = site.measure(true, change).await?.longest;
            costs.push(Cost { longest, ..quiet });
        }
        tell(&format!("{changed} of 10,000 changed"), &costs);
    }
    println!("steps: {}", site.steps().await?);
    site.scene.finish().await
}
