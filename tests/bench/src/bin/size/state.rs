//! The cost of a large state: of look-ups in its table, and of the steps that follow it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bulk_reshuffle::routing::{RoutingTable, hash};
use bulk_reshuffle_bench::large_state::{LargeCluster, Shelf, Step, Worker};
use bulk_reshuffle_bench::tables::{Spread, number, spread, table, thousands};
use bulk_reshuffle_e2e::load::{Pace, Probe};
use bulk_reshuffle_stack::Client;
use comfy_table::Table;
use serde_json::Value;

use crate::large_scene::LargeScene;

/// The sizes of the tables. Of 100,000 indices the filter loads no more than the last of these.
const SIZES: [usize; 4] = [100, 1_000, 10_000, 20_000];

/// The numbers of measurements of look-ups, and of look-ups in each.
const SAMPLES: usize = 100;
const LOOK_UPS: u32 = 20_000;

/// How often the steps are measured natively.
const ROUNDS: usize = 9;

/// A function that returns names of one kind, for a table of so many indices.
type Names = fn(usize) -> Vec<String>;

/// Returns a table of the nanoseconds of a look-up, natively, by the kind of the name and the size of the table.
pub fn look_ups() -> Table {
    let kinds: [(&str, Names); 4] = [
        ("index", |indices| LargeCluster::new(indices).names().to_vec()),
        ("alias", |indices| (0..indices / 25).map(LargeCluster::alias).collect()),
        ("data stream", |indices| (0..indices / 25).map(LargeCluster::data_stream).collect()),
        ("unknown name", |indices| {
            (0..indices).map(|number| format!("logstash-nothing-2026.11.20-{number:07}")).collect()
        }),
    ];
    let mut shown = table(&["look-up by", "indices", "ns: median (extremes)"], 1);
    for indices in SIZES {
        let mut worker = Worker::new(1, &Shelf::default());
        worker.refresh(&LargeCluster::new(indices));
        let table = worker.table.expect("a table");
        for (kind, names) in kinds {
            let times = look_up(&table, &names(indices));
            shown.add_row([kind.to_owned(), thousands(indices as f64), spread(Spread::of(times))]);
        }
    }
    shown
}

/// Looks up all names, in an order that caches cannot predict.
fn look_up(table: &RoutingTable, names: &[String]) -> Vec<f64> {
    let id_hash = Some(hash("an-id-as-clients-make-them"));
    let mut at = 0;
    let sample = |_| {
        let begin = Instant::now();
        for _ in 0..LOOK_UPS {
            at = (at + 7_919) % names.len();
            let _ = black_box(table.route(black_box(&names[at]), id_hash, None));
        }
        begin.elapsed().as_secs_f64() * 1e9 / f64::from(LOOK_UPS)
    };
    (0..SAMPLES).map(sample).collect()
}

/// Returns a table of the processor time of a refresh and of its steps, natively.
pub fn steps() -> Table {
    let header = ["medians", "queries", "read, kB", "steps", "total, ms", "longest step"];
    let mut shown = table(&header, 1);
    for indices in [1_000, 10_000, 100_000] {
        let mut cluster = LargeCluster::new(indices);
        let mut measure = |what: &str, act: &mut dyn FnMut() -> Vec<Step>| {
            let row = [format!("{} indices: {what}", thousands(indices as f64))];
            shown.add_row(row.into_iter().chain(medians(act)));
        };
        measure("first load", &mut || Worker::new(1, &Shelf::default()).refresh(&cluster));
        let shelf = Shelf::default();
        let mut worker = Worker::new(1, &shelf);
        worker.refresh(&cluster);
        measure("taken over", &mut || Worker::new(2, &shelf).refresh(&cluster));
        measure("nothing new", &mut || worker.refresh(&cluster));
        for changed in [0, 1, 100, 1_000] {
            measure(&format!("new state, {changed} changed"), &mut || {
                cluster.change(changed);
                worker.refresh(&cluster)
            });
        }
    }
    shown
}

/// Repeats a refresh. Returns its queries, their answers' kilobytes and the steps of the last one, and medians of the
/// times of all steps and of the longest step, in milliseconds.
fn medians(act: &mut dyn FnMut() -> Vec<Step>) -> [String; 5] {
    let runs: Vec<Vec<Step>> = (0..ROUNDS).map(|_| act()).collect();
    let median = |time: fn(&[Step]) -> Duration| {
        let times = runs.iter().map(|steps| time(steps).as_secs_f64() * 1e3);
        Spread::of(times).map_or_else(String::new, |spread| number(spread.median))
    };
    let steps = &runs[ROUNDS - 1];
    let queries = steps.iter().filter(|step| step.asked.is_some()).count();
    let bytes: usize = steps.iter().map(|step| step.answer).sum();
    let total = median(|steps| steps.iter().map(|step| step.time).sum());
    let longest = median(|steps| steps.iter().map(|step| step.time).max().unwrap_or_default());
    [queries.to_string(), (bytes >> 10).to_string(), steps.len().to_string(), total, longest]
}

/// The cost of one refresh in Envoy, in milliseconds.
#[derive(Debug, Default, Clone)]
struct Cost {
    /// The wall time that the filter has measured.
    busy: f64,
    /// The processor time of Envoy's worker. It includes Envoy's own work for the answers, but nothing else on the
    /// machine.
    processor: f64,
    /// The highest latency of the probe.
    longest: f64,
}

/// The size of the state in Envoy: 10,000 indices and 100,000 shards.
const INDICES: usize = 10_000;

/// Returns a table of what a refresh costs in Envoy, and the quantiles of its steps.
pub async fn in_envoy(rounds: usize) -> Result<String> {
    let header = ["10,000 indices, in ms: median (extremes)", "VM", "longest request", "worker"];
    let mut shown = table(&header, 1);
    let mut add = |what: &str, costs: &[Cost]| {
        let of = |number: fn(&Cost) -> f64| spread(Spread::of(costs.iter().map(number)));
        let row = [what.to_owned(), of(|cost| cost.busy), of(|cost| cost.longest), of(|cost| cost.processor)];
        shown.add_row(row);
    };
    let mut first = Vec::new();
    for _ in 0..rounds {
        let state = start().await?;
        first.push(refresh(&state, false, async || state.tell().await).await?);
        state.scene.finish().await?;
    }
    add("first load", &first);
    let state = start().await?;
    state.load_state(async || state.tell().await).await?;
    let mut rests = Vec::new();
    for _ in 0..rounds {
        let probe = probe(&state);
        tokio::time::sleep(Duration::from_secs(1)).await;
        rests.push(Cost { longest: longest(probe).await?, ..Cost::default() });
    }
    add("no refresh", &rests);
    for changed in [0, 1, 100, 1_000] {
        let mut costs = Vec::new();
        for _ in 0..rounds {
            let change = async || {
                state.cluster().change(changed);
                Ok(())
            };
            let quiet = refresh(&state, false, change).await?;
            let longest = refresh(&state, true, change).await?.longest;
            costs.push(Cost { longest, ..quiet });
        }
        add(&format!("{changed} changed"), &costs);
    }
    let steps = quantiles(&state).await?;
    state.scene.finish().await?;
    Ok(format!("{shown}\n\nsteps: {steps}"))
}

async fn start() -> Result<LargeScene> {
    LargeScene::start(LargeCluster::new(INDICES), (3, false), "1s", false).await
}

/// Makes a change after which the filter reloads the state, and measures the reload: its cost on an idle worker, or the
/// latency of requests meanwhile.
async fn refresh(state: &LargeScene, is_probed: bool, change: impl AsyncFnOnce() -> Result<()>) -> Result<Cost> {
    const BUSY: &str = "state_busy_microseconds_total";
    let (busy, processor) = (state.count(BUSY).await?, state.worker_time()?);
    let probe = is_probed.then(|| probe(state));
    state.load_state(change).await?;
    let longest = match probe {
        Some(probe) => longest(probe).await?,
        None => 0.0,
    };
    let busy = (state.count(BUSY).await? - busy) as f64 / 1e3;
    Ok(Cost { busy, processor: (state.worker_time()? - processor).as_secs_f64() * 1e3, longest })
}

/// Starts a probe that sends small requests through the only worker during a refresh, up to one per millisecond.
fn probe(state: &LargeScene) -> Probe {
    let (client, url) = (Client::new(), state.scene.envoy.url("/"));
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

/// Returns the quantiles of the steps so far, in microseconds.
async fn quantiles(state: &LargeScene) -> Result<Value> {
    // Envoy merges histograms every five seconds.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let url = state.scene.envoy.admin_url("/stats?format=json&histogram_buckets=summary&filter=state_step");
    let stats = Client::new().get_json(&url).await?;
    stats.pointer("/stats/0/histograms").cloned().context("Envoy has no histogram of the steps")
}
