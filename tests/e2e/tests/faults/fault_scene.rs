use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::load::{Load, Tally, Writer};
use bulk_reshuffle_e2e::{Nodes, check_filter};
use bulk_reshuffle_stack::{Client, Envoy, EnvoyOptions, FilterConfig, Tools, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::LIMIT;
use crate::backend::Backend;
use crate::cutter::Cutter;
use crate::witness::Witness;

const WORKERS: u32 = 2;

/// The largest number of operations in a small request.
const SMALL: usize = 50;

/// How often a writer sends a small and a larger request. All writers together use a part of the machine, so that other
/// tests hardly change their rates. A request that takes longer delays the next one, so a fault still does.
const SMALL_PERIOD: Duration = Duration::from_millis(50);
const LARGE_PERIOD: Duration = Duration::from_secs(1);

/// Slows a writer of at most this many operations down to the pace of its requests' size.
pub fn paced(writer: Writer, operations: usize) -> Writer {
    writer.every(if operations <= SMALL { SMALL_PERIOD } else { LARGE_PERIOD })
}

pub struct Plan {
    name: &'static str,
    config: Value,
    indices: Vec<(&'static str, Value)>,
    alone: bool,
    cut: bool,
    witnessed: bool,
}

impl Plan {
    /// Creates a plan with the shipped configuration.
    pub fn new(name: &'static str) -> Self {
        let (config, indices) = (json!({"coordinator": "es"}), Vec::new());
        Self { name, config, indices, alone: false, cut: false, witnessed: false }
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

    /// Uses a cluster that no other test uses at the same time: to change it, or to fill its nodes' memory.
    pub fn alone(self) -> Self {
        Self { alone: true, ..self }
    }

    /// Puts a [`Cutter`] in front of each node.
    pub fn cut(self) -> Self {
        Self { cut: true, ..self }
    }

    /// Puts a [`Witness`] in front of the nodes.
    pub fn witnessed(self) -> Self {
        Self { witnessed: true, ..self }
    }

    /// Makes the indices, without an Envoy.
    pub async fn backend(&self) -> Result<Backend> {
        let backend = if self.alone { Backend::lent().await? } else { Backend::shared().await? };
        for (name, settings) in &self.indices {
            backend.make_index(name, settings).await?;
        }
        backend.wait_green().await?;
        Ok(backend)
    }

    /// Starts everything; returns when each worker knows the cluster state.
    pub async fn start(self) -> Result<FaultScene> {
        let folder = tempfile::tempdir()?;
        let backend = self.backend().await?;
        let addresses: Vec<_> = backend.nodes.iter().map(|(_, address)| *address).collect();
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
        let names = backend.nodes.iter().map(|(name, _)| name.clone());
        let upstreams = Upstreams { coordinators, nodes: names.zip(nodes).collect() };
        let envoy = upstreams.start_envoy(&folder, "envoy", None, &self.config).await?;
        envoy.wait_for_state(LIMIT).await?;
        let started = Instant::now();
        Ok(FaultScene { plan: self, backend, envoy, cutters, witness, upstreams, restarts: 0, started, folder })
    }
}

/// The addresses of Envoy's upstreams.
struct Upstreams {
    coordinators: Vec<SocketAddr>,
    nodes: Nodes,
}

impl Upstreams {
    async fn start_envoy(&self, folder: &TempDir, name: &str, port: Option<u16>, config: &Value) -> Result<Envoy> {
        let options = EnvoyOptions::new(folder.path()).cluster("es", self.coordinators.iter().copied());
        let options = self.nodes.iter().fold(options, |options, (name, address)| options.cluster(name, [*address]));
        let filter = FilterConfig::Value(config.clone());
        let options = EnvoyOptions { name: name.to_owned(), port, filter, concurrency: WORKERS, ..options };
        Envoy::start(&Tools::find()?, options).await
    }
}

/// A real cluster, and Envoy with two workers in front of it.
pub struct FaultScene {
    plan: Plan,
    pub backend: Backend,
    pub envoy: Envoy,
    pub cutters: Vec<Cutter>,
    witness: Option<Witness>,
    upstreams: Upstreams,
    restarts: usize,
    started: Instant,
    folder: TempDir,
}

impl FaultScene {
    /// Starts a load of many small and some larger requests on an index.
    pub fn load(&self, index: &str, query: &str) -> Load {
        Load::start(index, self.writers(index, query))
    }

    pub fn writers(&self, index: &str, query: &str) -> impl Iterator<Item = Writer> + use<> {
        writers_to(&self.envoy, index, query)
    }

    /// Starts another Envoy in front of the same nodes, with this configuration of the filter.
    pub async fn start_beside(&self, name: &str, config: &Value) -> Result<Envoy> {
        let envoy = self.upstreams.start_envoy(&self.folder, name, None, config).await?;
        envoy.wait_for_state(LIMIT).await?;
        Ok(envoy)
    }

    /// Returns one of the filter's counters, summed over all upstreams.
    pub async fn counted(&self, name: &str) -> Result<u64> {
        counted(&self.envoy, name).await
    }

    pub fn witness(&self) -> Result<&Witness> {
        self.witness.as_ref().context("the plan has no witness")
    }

    /// Sends a query for the cluster state through Envoy, as the filter does. It may fail while a node is down.
    pub async fn query(&self) {
        query(&self.backend.client, &self.envoy).await;
    }

    /// Returns how long a load's operations were misrouted after a change at this time, or an error if that was longer
    /// than this interval.
    pub async fn misrouted_after(&self, load: &Load, change: Instant, interval: Duration) -> Result<Duration> {
        self.witness()?.misrouted_after(load, change, interval, async || self.query().await).await
    }

    /// Waits until all operations of a load go straight to their primaries.
    pub async fn wait_routed(&self, index: &str) -> Result<()> {
        self.witness()?.wait_routed(index).await
    }

    /// Kills a node (SIGKILL) and closes the witness's ports for it.
    pub async fn kill(&mut self, node: usize) -> Result<()> {
        self.backend.cluster()?.kill(node)?;
        match &mut self.witness {
            Some(witness) => witness.take_down(node).await,
            None => Ok(()),
        }
    }

    /// Restarts a killed node, and waits until the cluster is green.
    pub async fn restart(&mut self, node: usize) -> Result<()> {
        self.backend.cluster()?.restart(node).await?;
        if let Some(witness) = &mut self.witness {
            witness.bring_up(node).await?;
        }
        self.backend.wait_green().await
    }

    /// Puts another cluster in the place of this one, at the addresses that the filter knows. Returns the cluster that
    /// was there.
    pub async fn replace_cluster(&mut self, other: Backend) -> Result<Backend> {
        let witness = self.witness.as_mut().context("the plan has no witness")?;
        let nodes: Vec<_> = other.nodes.iter().map(|(_, address)| *address).collect();
        witness.move_to(&nodes).await?;
        Ok(std::mem::replace(&mut self.backend, other))
    }

    /// Terminates Envoy (SIGTERM) while it has requests in flight, and starts it again at the same address.
    pub async fn restart_envoy(&mut self) -> Result<()> {
        const ACTIVE: &str = "http.elasticsearch.downstream_rq_active";
        wait::until(LIMIT, "Envoy has requests in flight", async || {
            Ok((self.envoy.counter(ACTIVE).await? > 1).then_some(()))
        })
        .await?;
        self.envoy.process().terminate()?;
        wait::until(LIMIT, "Envoy ends", async || self.envoy.process().exit_status()).await?;
        self.restarts += 1;
        let (name, port) = (format!("envoy-{}", self.restarts), Some(self.envoy.addr().port()));
        self.envoy = self.upstreams.start_envoy(&self.folder, &name, port, &self.plan.config).await?;
        Ok(())
    }

    /// Verifies the loads, and stops the scene. Returns the loads' outcomes.
    pub async fn end(self, loads: Vec<Load>, recovered: Duration) -> Result<Vec<Arc<Tally>>> {
        let tallies = self.verify(loads).await?;
        self.stop(recovered).await?;
        Ok(tallies)
    }

    /// Prints a summary, checks the health of the cluster and the filter, and stops Envoy.
    pub async fn stop(self, recovered: Duration) -> Result<()> {
        let (back, all) = (recovered.as_secs_f64(), self.started.elapsed().as_secs_f64());
        println!("{}: back to normal after {back:.1} s, {all:.0} s in total", self.plan.name);
        check_filter(&self.envoy).await?;
        self.envoy.stop().await?;
        self.backend.end().await
    }

    /// Ends the loads, and compares the answers that clients received with the cluster's documents. Returns the
    /// loads' outcomes.
    pub async fn verify(&self, loads: Vec<Load>) -> Result<Vec<Arc<Tally>>> {
        self.backend.verify(self.plan.name, loads).await
    }
}

/// Returns the writers of a [`load`](FaultScene::load) through an Envoy.
pub fn writers_to(envoy: &Envoy, index: &str, query: &str) -> impl Iterator<Item = Writer> + use<> {
    let url = envoy.url(&format!("/{index}/_bulk{query}"));
    let base = fastrand::u64(1..1 << 16) << 8;
    let sizes = (0..10).map(|number| (number, if number < 8 { 1..=SMALL } else { 500..=1500 }));
    sizes.map(move |(number, sizes)| {
        let most = *sizes.end();
        paced(Writer::new(base + number, url.clone(), sizes, 200), most)
    })
}

/// Sends a query for the cluster state through an Envoy.
pub async fn query(client: &Client, envoy: &Envoy) {
    client.get(&envoy.url("/_cluster/state/routing_table")).await.ok();
}

/// Returns one of the counters of an Envoy's filter, summed over all upstreams.
pub async fn counted(envoy: &Envoy, name: &str) -> Result<u64> {
    let stats = envoy.stats_with(&format!("bulk_reshuffle_{name}")).await?;
    Ok(stats.values().sum())
}
