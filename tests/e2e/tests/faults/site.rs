use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::check_filter;
use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, Envoy, EnvoyOptions, FilterConfig, Profile, Tools, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cutter::Cutter;
use crate::ledger::Ledger;
use crate::load::Load;
use crate::tally::Tally;
use crate::writer::Writer;

/// Far more than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

const WORKERS: u64 = 2;

/// How a [`Site`] is set up.
#[derive(Debug)]
pub struct Plan {
    name: &'static str,
    config: Value,
    indices: Vec<(&'static str, Value)>,
    cut: bool,
}

impl Plan {
    /// The shipped configuration.
    pub fn new(name: &'static str) -> Self {
        Self { name, config: json!({"coordinator": "es"}), indices: Vec::new(), cut: false }
    }

    /// Sets a field of the filter's configuration.
    pub fn config(mut self, field: &str, value: Value) -> Self {
        self.config[field] = value;
        self
    }

    /// Adds an index of six shards without copies, but for these settings.
    pub fn index(mut self, name: &'static str, settings: Value) -> Self {
        self.indices.push((name, settings));
        self
    }

    /// Puts a [`Cutter`] in front of each node.
    pub fn cut(self) -> Self {
        Self { cut: true, ..self }
    }

    /// Starts everything; returns when each worker knows the cluster's state.
    pub async fn start(self) -> Result<Site> {
        let run_dir = tempfile::tempdir()?;
        let tools = Tools::find()?;
        let options =
            ClusterOptions { profile: Profile::Throughput, ..ClusterOptions::new(run_dir.path().join("nodes")) };
        let cluster = Cluster::start(&tools, options).await?;
        let mut upstreams: Vec<(String, SocketAddr)> =
            cluster.addresses().map(|(name, address)| (name.to_owned(), address)).collect();
        let mut cutters = Vec::new();
        if self.cut {
            for (_, address) in &mut upstreams {
                let cutter = Cutter::start(*address).await?;
                *address = cutter.address;
                cutters.push(cutter);
            }
        }
        let client = Client::new();
        for (name, settings) in &self.indices {
            make_index(&client, &cluster, name, settings).await?;
        }
        cluster.wait_green(LIMIT).await?;
        let envoy = Envoy::start(&tools, envoy_options(run_dir.path().into(), &upstreams, &self.config)).await?;
        let site = Site {
            plan: self,
            cluster,
            envoy,
            client,
            cutters,
            upstreams,
            restarts: 0,
            started: Instant::now(),
            run_dir,
        };
        site.warm_up().await?;
        Ok(site)
    }
}

/// A cluster of the test's own, and Envoy with two workers in front of it.
#[derive(Debug)]
pub struct Site {
    plan: Plan,
    pub cluster: Cluster,
    pub envoy: Envoy,
    pub client: Client,
    pub cutters: Vec<Cutter>,
    upstreams: Vec<(String, SocketAddr)>,
    restarts: usize,
    started: Instant,
    run_dir: TempDir,
}

impl Site {
    /// Many small requests and some larger ones on an index.
    pub fn load(&self, index: &str, query: &str) -> Load {
        Load::start(index, self.writers(index, query))
    }

    /// The writers of such a load.
    pub fn writers(&self, index: &str, query: &str) -> impl Iterator<Item = Writer> {
        let url = self.envoy.url(&format!("/{index}/_bulk{query}"));
        let base = fastrand::u64(1..1 << 16) << 8;
        let sizes = (0..10).map(|number| (number, if number < 8 { 1..=50 } else { 500..=1500 }));
        sizes.map(move |(number, operations)| Writer::new(base + number, url.clone(), operations, 200))
    }

    /// A counter of the filter's, over all upstreams.
    pub async fn counted(&self, name: &str) -> Result<u64> {
        let stats = self.envoy.stats_with(&format!("bulk_reshuffle_{name}_total")).await?;
        Ok(stats.values().sum())
    }

    /// A URL at a node.
    pub fn direct(&self, node: usize, path: &str) -> Result<String> {
        Ok(format!("{}{path}", self.cluster.base_url(node)?))
    }

    /// Asks Envoy to end (SIGTERM), and starts it again at the same address.
    pub async fn restart_envoy(&mut self) -> Result<()> {
        self.envoy.process().terminate()?;
        wait::until(LIMIT, "Envoy ends", async || Ok(self.envoy.process().exit_status()?)).await?;
        self.restarts += 1;
        let mut options = envoy_options(self.run_dir.path().into(), &self.upstreams, &self.plan.config);
        options.name = format!("envoy-{}", self.restarts);
        options.port = Some(self.envoy.addr().port());
        self.envoy = Envoy::start(&Tools::find()?, options).await?;
        Ok(())
    }

    /// Compares what the clients were told with what is in the cluster, looks after the filter, and says how it went.
    pub async fn end(self, loads: Vec<Load>, recovered: Duration) -> Result<()> {
        let (mut ledger, mut tallies) = (Ledger::default(), Vec::new());
        let indices: BTreeSet<String> = loads.iter().map(|load| load.index.clone()).collect();
        for load in loads {
            let (told, tally) = load.end().await?;
            ledger.add(told);
            tallies.push(tally);
        }
        self.cluster.wait_green(LIMIT).await?;
        let mut found = Vec::new();
        for index in &indices {
            found.extend(self.documents(index).await?);
        }
        let verified = ledger.verify(&found)?;
        for tally in &tallies {
            ensure!(tally.acknowledged.get() > 0, "nothing was written");
            println!("{}: {tally}", self.plan.name);
        }
        let (back, all) = (recovered.as_secs_f64(), self.started.elapsed().as_secs_f64());
        println!(
            "{}: {verified} documents verified, back to normal after {back:.1} s, {all:.0} s in all",
            self.plan.name
        );
        check_filter(&self.envoy).await?;
        self.envoy.stop().await?;
        self.cluster.stop().await
    }

    /// Ids and numbers of all documents of an index.
    pub async fn documents(&self, index: &str) -> Result<Vec<(String, u64)>> {
        let post = async |path: &str, body: Value| -> Result<Value> {
            self.client.post_json(&self.direct(0, path)?, &body).await?.ok()?.json()
        };
        post(&format!("/{index}/_refresh"), json!({})).await?;
        let all = json!({"size": 5000, "sort": ["_doc"], "_source": ["n"]});
        let mut page = post(&format!("/{index}/_search?scroll=1m"), all).await?;
        let mut documents = Vec::new();
        loop {
            let hits = page["hits"]["hits"].as_array().context("no hits")?;
            if hits.is_empty() {
                return Ok(documents);
            }
            for hit in hits {
                let id = hit["_id"].as_str().context("no id")?.to_owned();
                documents.push((id, hit["_source"]["n"].as_u64().with_context(|| format!("no number in {hit}"))?));
            }
            page = post("/_search/scroll", json!({"scroll": "1m", "scroll_id": page["_scroll_id"]})).await?;
        }
    }

    async fn warm_up(&self) -> Result<()> {
        wait::until(LIMIT, "every worker knows the state", async || {
            // A connection belongs to one worker, so each try needs a new one.
            Client::new().post_ndjson(&self.envoy.url("/_bulk"), "\n").await?;
            Ok((self.counted("state_loads").await? >= WORKERS).then_some(()))
        })
        .await
    }
}

/// The failures that a test expects; any other status is an error.
pub fn expect_only(tally: &Tally, statuses: &[u16]) -> Result<()> {
    let others: Vec<_> = tally.failed().into_iter().filter(|(status, _)| !statuses.contains(status)).collect();
    ensure!(others.is_empty(), "operations failed with {others:?}");
    Ok(())
}

fn envoy_options(run_dir: PathBuf, upstreams: &[(String, SocketAddr)], config: &Value) -> EnvoyOptions {
    let options = EnvoyOptions::new(run_dir).cluster("es", upstreams.iter().map(|(_, address)| *address));
    let mut options = upstreams.iter().fold(options, |options, (name, address)| options.cluster(name, [*address]));
    options.filter = FilterConfig::Value(config.clone());
    options.concurrency = WORKERS as u32;
    options
}

async fn make_index(client: &Client, cluster: &Cluster, name: &str, settings: &Value) -> Result<()> {
    let mut all = json!({"number_of_shards": 6, "number_of_replicas": 0, "refresh_interval": -1});
    all.as_object_mut().context("no object")?.extend(settings.as_object().context("no object")?.clone());
    let index = json!({"settings": all, "mappings": {"properties": {
        "n": {"type": "long"}, "text": {"type": "keyword", "index": false, "doc_values": false},
    }}});
    client.put_json(&format!("{}/{name}", cluster.base_url(0)?), &index).await?.ok().map(|_| ())
}
