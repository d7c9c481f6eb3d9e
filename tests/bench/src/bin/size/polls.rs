//! What the polls of many Envoys cost a real cluster. Each Envoy is the filter's own cache, in this process.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle::config::Config;
use bulk_reshuffle::routing::{PollAction, PollEvent, StateCache, Upstreams};
use bulk_reshuffle_bench::large_state::Shelf;
use bulk_reshuffle_bench::processor_time;
use bulk_reshuffle_bench::tables::{number, table};
use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, Distribution, Tools};
use comfy_table::Table;
use serde_json::{Map, Value, json};
use tokio::task::{JoinSet, LocalSet};

/// The metadata of the cluster: with mappings of this size, 1.4 MB of JSON.
const INDICES: usize = 200;
const FIELDS: usize = 100;

/// The time between two changes of a mapping: each poll finds a change.
const CHANGES: Duration = Duration::from_secs(2);

/// The length of each measurement. Polls have begun an interval before it.
const SECONDS: u64 = 30;
const INTERVAL: Duration = Duration::from_secs(5);

const LIMIT: Duration = Duration::from_secs(120);

/// Measures each number of Envoys, without and with changes of the state.
pub async fn costs(distribution: Distribution) -> Result<Table> {
    let (tools, folder) = (Tools::find()?, tempfile::tempdir()?);
    let cluster = Cluster::start(
        &tools,
        ClusterOptions { distribution, data_on_disk: true, ..ClusterOptions::new(folder.path()) },
    )
    .await?;
    fill(&cluster).await?;
    let site = Site::of(&cluster).await?;
    let columns = ["Envoys", "changes", "queries/s", "answers kB/s", "master ms/s", "master sends kB/s", "others ms/s"];
    let mut table = table(&columns, 0);
    for envoys in [0, 1, 30, 300] {
        for changes in [None, Some(CHANGES)] {
            let cost = LocalSet::new().run_until(site.measure(envoys, changes)).await?;
            table.add_row(cost.row(envoys, changes));
        }
    }
    cluster.stop().await?;
    Ok(table)
}

/// Creates indices with large mappings.
async fn fill(cluster: &Cluster) -> Result<()> {
    let client = Client::new();
    let field = |number| (format!("field_{number:03}"), json!({"type": "keyword", "ignore_above": 256}));
    let fields: Map<String, Value> = (0..FIELDS).map(field).collect();
    let settings = json!({"number_of_shards": 1, "number_of_replicas": 0});
    for index in 0..INDICES {
        let url = format!("{}/index-{index}", cluster.base_url(0)?);
        client.put_json(&url, &json!({"settings": settings, "mappings": {"properties": fields}})).await?.ok()?;
    }
    cluster.wait_green(LIMIT).await
}

/// The cluster, as its pollers and its observer see it.
struct Site<'a> {
    cluster: &'a Cluster,
    master: usize,
    client: Client,
}

impl<'a> Site<'a> {
    async fn of(cluster: &'a Cluster) -> Result<Self> {
        let client = Client::new();
        let master = client.get(&format!("{}/_cat/master?h=node", cluster.base_url(0)?)).await?.ok()?.text();
        let is_master = |(_, (name, _)): &(usize, (&str, _))| *name == master.trim();
        let (master, _) = cluster.addresses().enumerate().find(is_master).context("no node is the master")?;
        Ok(Self { cluster, master, client })
    }

    /// Lets this number of Envoys poll, and measures what the nodes do meanwhile.
    async fn measure(&self, envoys: usize, changes: Option<Duration>) -> Result<Cost> {
        let polls = Rc::new(Polls::default());
        let mut tasks = JoinSet::new();
        for envoy in 0..envoys {
            let urls = (0..self.cluster.len()).map(|node| self.cluster.base_url(node)).collect::<Result<Vec<_>>>()?;
            let start = INTERVAL.mul_f64(envoy as f64 / envoys as f64);
            tasks.spawn_local(Envoy::new(envoy, urls, self.client.clone(), Rc::clone(&polls)).run(start));
        }
        if let Some(pause) = changes {
            tasks.spawn_local(change(self.client.clone(), self.cluster.base_url(self.master)?, pause));
        }
        tokio::time::sleep(INTERVAL * 2).await;
        polls.take();
        let (before, begun) = (self.totals().await?, Instant::now());
        tokio::time::sleep(Duration::from_secs(SECONDS)).await;
        let (sent, bytes) = polls.take();
        let (after, took) = (self.totals().await?, begun.elapsed().as_secs_f64());
        if let Some(ended) = tasks.try_join_next() {
            ended??;
        }
        tasks.shutdown().await;
        let per_second = |value: f64| value / took;
        let others = (0..self.cluster.len()).filter(|node| *node != self.master);
        let used = |node: usize| -> f64 {
            after
                .cpu
                .get(node)
                .zip(before.cpu.get(node))
                .map_or(0.0, |(after, before)| (*after - *before).as_secs_f64())
        };
        Ok(Cost {
            polls: per_second(sent as f64),
            answers: per_second(bytes as f64 / 1e3),
            master: per_second(used(self.master) * 1e3),
            sent: per_second((after.sent - before.sent) as f64 / 1e3),
            others: per_second(others.map(used).sum::<f64>() * 1e3 / (self.cluster.len() - 1) as f64),
        })
    }

    async fn totals(&self) -> Result<Totals> {
        let cpu = |node| processor_time::of_process(self.cluster.process(node)?.pid());
        let cpu = (0..self.cluster.len()).map(cpu).collect::<Result<_>>()?;
        let url = format!("{}/_nodes/_local/stats/transport", self.cluster.base_url(self.master)?);
        let stats = self.client.get_json(&url).await?;
        let nodes = stats["nodes"].as_object().context("no nodes")?;
        let sent = nodes.values().next().and_then(|node| node["transport"]["tx_size_in_bytes"].as_u64());
        Ok(Totals { cpu, sent: sent.context("no transport")? })
    }
}

/// Totals since the nodes' start.
struct Totals {
    cpu: Vec<Duration>,
    /// Bytes that the master has sent to other nodes.
    sent: u64,
}

struct Cost {
    polls: f64,
    answers: f64,
    master: f64,
    sent: f64,
    others: f64,
}

impl Cost {
    fn row(&self, envoys: usize, changes: Option<Duration>) -> [String; 7] {
        let Self { polls, answers, master, sent, others } = self;
        let changes = changes.map_or_else(|| "none".to_owned(), |pause| format!("every {pause:?}"));
        let [polls, answers, master, sent, others] = [*polls, *answers, *master, *sent, *others].map(number);
        [envoys.to_string(), changes, polls, answers, master, sent, others]
    }
}

/// Changes a mapping again and again.
async fn change(client: Client, url: String, pause: Duration) -> Result<()> {
    for number in 0_u64.. {
        let boost = json!({"_meta": {"number": number}});
        client.put_json(&format!("{url}/index-0/_mapping"), &boost).await?.ok()?;
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

/// Counts of all Envoys.
#[derive(Debug, Default)]
struct Polls {
    sent: Cell<u64>,
    bytes: Cell<u64>,
}

impl Polls {
    fn take(&self) -> (u64, u64) {
        (self.sent.take(), self.bytes.take())
    }
}

/// An Envoy's cache, and its connections to the nodes, which it asks in turns.
struct Envoy {
    cache: StateCache,
    upstreams: Upstreams,
    urls: Vec<String>,
    next: usize,
    client: Client,
    polls: Rc<Polls>,
}

impl Envoy {
    #[allow(clippy::expect_used)]
    fn new(number: usize, urls: Vec<String>, client: Client, polls: Rc<Polls>) -> Self {
        let config = Config::read(br#"{"coordinator":"es"}"#).expect("a configuration");
        let cache = StateCache::new(&config, number as u64, Box::new(Shelf::default()));
        Self { cache, upstreams: Upstreams::of(&config), urls, next: number, client, polls }
    }

    async fn run(mut self, start: Duration) -> Result<()> {
        tokio::time::sleep(start).await;
        let begun = Instant::now();
        self.cache.serve(Duration::ZERO);
        loop {
            let now = begun.elapsed();
            match self.cache.next(now) {
                Some(PollAction::Ask(query)) => self.ask(&query.path(), begun).await?,
                Some(PollAction::Pause) => tokio::task::yield_now().await,
                None => {
                    let due = self.cache.due().context("the cache waits for an answer")?;
                    tokio::time::sleep(due.saturating_sub(begun.elapsed())).await;
                }
            }
            while let Some(event) = self.cache.next_event() {
                ensure!(!matches!(event, PollEvent::Failed(_)), "{event:?}");
            }
            let _ = self.cache.new_settings();
            let _ = self.cache.new_table(&mut self.upstreams);
        }
    }

    async fn ask(&mut self, path: &str, begun: Instant) -> Result<()> {
        self.next += 1;
        let url = self.urls.get(self.next % self.urls.len()).context("no node")?;
        let answer = self.client.get(&format!("{url}{path}")).await?;
        self.polls.sent.set(self.polls.sent.get() + 1);
        self.polls.bytes.set(self.polls.bytes.get() + answer.body.len() as u64);
        self.cache.answered(answer.status.as_u16(), answer.body.to_vec(), begun.elapsed());
        Ok(())
    }
}
