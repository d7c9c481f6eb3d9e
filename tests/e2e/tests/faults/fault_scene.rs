use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::load::{self, Ledger, Load, Tally, Writer};
use bulk_reshuffle_e2e::{RealScene, check_filter, wait_for_state};
use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, Envoy, EnvoyOptions, FilterConfig, Profile, Tools, wait};
use serde_json::{Value, json};

use crate::cutter::Cutter;
use crate::witness::Witness;

/// A limit far above the duration of any step here, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

const WORKERS: u32 = 2;

/// How a [`FaultScene`] is set up.
#[derive(Debug)]
pub struct Plan {
    name: &'static str,
    config: Value,
    indices: Vec<(&'static str, Value)>,
    cut: bool,
    witnessed: bool,
}

impl Plan {
    /// Creates a plan with the shipped configuration.
    pub fn new(name: &'static str) -> Self {
        Self { name, config: json!({"coordinator": "es"}), indices: Vec::new(), cut: false, witnessed: false }
    }

    /// Sets a field of the filter's configuration.
    pub fn config(mut self, field: &str, value: Value) -> Self {
        self.config[field] = value;
        self
    }

    /// Adds an index of six shards without replicas; these settings override its own.
    pub fn index(mut self, name: &'static str, settings: Value) -> Self {
        self.indices.push((name, settings));
        self
    }

    /// Puts a [`Cutter`] in front of each node.
    pub fn cut(self) -> Self {
        Self { cut: true, ..self }
    }

    /// Puts a [`Witness`] in front of the nodes.
    pub fn witnessed(self) -> Self {
        Self { witnessed: true, ..self }
    }

    /// Starts everything; returns when each worker knows the cluster state.
    pub async fn start(self) -> Result<FaultScene> {
        let run_dir = tempfile::tempdir()?;
        let tools = Tools::find()?;
        let cluster = Cluster::start(&tools, cluster_options(run_dir.path().join("nodes"))).await?;
        let addresses: Vec<_> = cluster.addresses().map(|(_, address)| address).collect();
        let witness = if self.witnessed { Some(Witness::start(&addresses).await?) } else { None };
        let mut nodes = witness.as_ref().map_or(addresses, Witness::nodes);
        let mut cutters = Vec::new();
        if self.cut {
            for address in &mut nodes {
                let cutter = Cutter::start(*address).await?;
                *address = cutter.address;
                cutters.push(cutter);
            }
        }
        let coordinators = witness.as_ref().map_or_else(|| nodes.clone(), Witness::coordinators);
        let names = cluster.addresses().map(|(name, _)| name.to_owned());
        let upstreams = Upstreams { coordinators, nodes: names.zip(nodes).collect() };
        let client = Client::new();
        for (name, settings) in &self.indices {
            make_index(&client, &cluster, name, settings).await?;
        }
        cluster.wait_green(LIMIT).await?;
        let envoy = Envoy::start(&tools, envoy_options(run_dir.path().into(), &upstreams, &self.config)).await?;
        let started = Instant::now();
        wait_for_state(&envoy, WORKERS, LIMIT).await?;
        let real = RealScene::of(cluster, envoy, run_dir);
        Ok(FaultScene { plan: self, real, cutters, witness, upstreams, restarts: 0, started })
    }
}

/// The addresses of Envoy's upstreams.
#[derive(Debug)]
struct Upstreams {
    coordinators: Vec<SocketAddr>,
    nodes: Vec<(String, SocketAddr)>,
}

/// A cluster for this test alone, and Envoy with two workers in front of it.
#[derive(Debug)]
pub struct FaultScene {
    plan: Plan,
    pub real: RealScene,
    pub cutters: Vec<Cutter>,
    witness: Option<Witness>,
    upstreams: Upstreams,
    restarts: usize,
    started: Instant,
}

impl FaultScene {
    /// Starts a load of many small and some larger requests on an index.
    pub fn load(&self, index: &str, query: &str) -> Load {
        Load::start(index, self.writers(index, query))
    }

    /// Returns the writers of [`load`](Self::load).
    pub fn writers(&self, index: &str, query: &str) -> impl Iterator<Item = Writer> {
        let url = self.real.envoy.url(&format!("/{index}/_bulk{query}"));
        let base = fastrand::u64(1..1 << 16) << 8;
        let sizes = (0..10).map(|number| (number, if number < 8 { 1..=50 } else { 500..=1500 }));
        sizes.map(move |(number, operations)| Writer::new(base + number, url.clone(), operations, 200))
    }

    /// Returns one of the filter's counters, summed over all upstreams.
    pub async fn counted(&self, name: &str) -> Result<u64> {
        let stats = self.real.envoy.stats_with(&format!("bulk_reshuffle_{name}")).await?;
        Ok(stats.values().sum())
    }

    /// Returns the witness, if the plan has one.
    pub fn witness(&self) -> Result<&Witness> {
        self.witness.as_ref().context("the plan has no witness")
    }

    /// Kills a node (SIGKILL) and closes the witness's ports for it.
    pub async fn kill(&mut self, node: usize) -> Result<()> {
        self.real.cluster.kill(node)?;
        match &mut self.witness {
            Some(witness) => witness.take_down(node).await,
            None => Ok(()),
        }
    }

    /// Restarts a killed node, and waits until the cluster is green.
    pub async fn restart(&mut self, node: usize) -> Result<()> {
        self.real.cluster.restart(node).await?;
        if let Some(witness) = &mut self.witness {
            witness.bring_up(node).await?;
        }
        self.real.cluster.wait_green(LIMIT).await
    }

    /// Creates an index of six shards without replicas; these settings override its own.
    pub async fn make_index(&self, name: &str, settings: &Value) -> Result<()> {
        make_index(&self.real.client, &self.real.cluster, name, settings).await
    }

    /// Kills all nodes, and starts another, empty cluster at the same addresses.
    pub async fn replace_cluster(&mut self) -> Result<()> {
        let http_ports = self.real.cluster.addresses().map(|(_, address)| address.port()).collect();
        (0..self.real.cluster.len()).try_for_each(|node| self.real.cluster.kill(node))?;
        let options = ClusterOptions { http_ports, ..cluster_options(self.real.run_dir().join("other-nodes")) };
        self.real.cluster = Cluster::start(&Tools::find()?, options).await?;
        Ok(())
    }

    /// Changes transient cluster settings; `null` removes a setting.
    pub async fn set(&self, settings: Value) -> Result<()> {
        self.real.put("/_cluster/settings", json!({"transient": settings})).await.map(|_| ())
    }

    /// Terminates Envoy (SIGTERM), and starts it again at the same address.
    pub async fn restart_envoy(&mut self) -> Result<()> {
        self.real.envoy.process().terminate()?;
        wait::until(LIMIT, "Envoy ends", async || Ok(self.real.envoy.process().exit_status()?)).await?;
        self.restarts += 1;
        let mut options = envoy_options(self.real.run_dir().into(), &self.upstreams, &self.plan.config);
        options.name = format!("envoy-{}", self.restarts);
        options.port = Some(self.real.envoy.addr().port());
        self.real.envoy = Envoy::start(&Tools::find()?, options).await?;
        Ok(())
    }

    /// Verifies the loads, and stops the scene. Returns the loads' outcomes.
    pub async fn end(self, loads: Vec<Load>, recovered: Duration) -> Result<Vec<Arc<Tally>>> {
        let tallies = self.verify(loads).await?;
        self.stop(recovered).await?;
        Ok(tallies)
    }

    /// Prints a summary, checks the health of the cluster and the filter, and stops both.
    pub async fn stop(self, recovered: Duration) -> Result<()> {
        self.real.cluster.wait_green(LIMIT).await?;
        let (back, all) = (recovered.as_secs_f64(), self.started.elapsed().as_secs_f64());
        println!("{}: back to normal after {back:.1} s, {all:.0} s in total", self.plan.name);
        check_filter(&self.real.envoy).await?;
        self.real.stop().await
    }

    /// Ends the loads, and compares the answers that clients received with the cluster's documents. Returns the
    /// loads' outcomes.
    pub async fn verify(&self, loads: Vec<Load>) -> Result<Vec<Arc<Tally>>> {
        let (mut ledger, mut tallies) = (Ledger::default(), Vec::new());
        let indices: BTreeSet<String> = loads.iter().map(|load| load.index.clone()).collect();
        for load in loads {
            let (told, tally) = load.end().await?;
            ledger.add(told);
            tallies.push(tally);
        }
        self.real.cluster.wait_green(LIMIT).await?;
        let mut found = Vec::new();
        for index in &indices {
            found.extend(self.documents(index).await?);
        }
        let verified = ledger.verify(&found)?;
        for tally in &tallies {
            ensure!(tally.acknowledged.get() > 0, "nothing was written");
            println!("{}: {tally}, {verified} documents verified", self.plan.name);
        }
        Ok(tallies)
    }

    /// Returns the ids and numbers of all documents of an index.
    pub async fn documents(&self, index: &str) -> Result<Vec<(String, u64)>> {
        load::documents(&self.real.client, &self.real.direct(0, "")?, index).await
    }
}

fn cluster_options(run_dir: PathBuf) -> ClusterOptions {
    ClusterOptions { profile: Profile::Throughput, ..ClusterOptions::new(run_dir) }
}

fn envoy_options(run_dir: PathBuf, upstreams: &Upstreams, config: &Value) -> EnvoyOptions {
    let options = EnvoyOptions::new(run_dir).cluster("es", upstreams.coordinators.iter().copied());
    let mut options =
        upstreams.nodes.iter().fold(options, |options, (name, address)| options.cluster(name, [*address]));
    options.filter = FilterConfig::Value(config.clone());
    options.concurrency = WORKERS;
    options
}

async fn make_index(client: &Client, cluster: &Cluster, name: &str, settings: &Value) -> Result<()> {
    let mut all = json!({"number_of_shards": 6, "number_of_replicas": 0, "refresh_interval": -1});
    all.as_object_mut().context("not an object")?.extend(settings.as_object().context("not an object")?.clone());
    let index = json!({"settings": all, "mappings": {"properties": {
        "n": {"type": "long"}, "text": {"type": "keyword", "index": false, "doc_values": false},
    }}});
    client.put_json(&format!("{}/{name}", cluster.base_url(0)?), &index).await?.ok().map(|_| ())
}
