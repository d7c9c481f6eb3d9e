//! The nodes, the Envoys in front of them, and their counters.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bulk_reshuffle_stack::{
    Client, Cluster, ClusterOptions, Counters, Envoy, EnvoyOptions, FilterConfig, Profile, Tools, wait,
};
use procfs::{Current, DiskStats};
use serde_json::Value;

use crate::index::{Index, Shape};
use crate::options::Options;
use crate::requests::index_name;
use crate::target::Target;
use bulk_reshuffle_bench::processor_time;

const RUN_DIR: &str = ".run/bench";
const NODES: usize = 3;
const STATE_LIMIT: Duration = Duration::from_secs(60);
/// The number of fresh connections per worker with which each of a few workers gets some of them.
const PROBES_PER_WORKER: u32 = 16;
/// The fraction of one processor that idle nodes may use.
const QUIET: f64 = 0.1;
const QUIET_SAMPLE: Duration = Duration::from_millis(200);
const QUIET_LIMIT: Duration = Duration::from_secs(5);

/// All running processes, from the first to the last measurement.
pub struct Site {
    run_dir: PathBuf,
    cluster: Cluster,
    envoys: Vec<(Target, Envoy)>,
    client: Client,
    probes: u32,
    indices_made: usize,
}

#[derive(Debug)]
pub struct Reading {
    /// The processor time of all nodes.
    pub cluster: Duration,
    /// The processor time of the target's Envoy, if it has one.
    pub envoy: Option<Duration>,
    /// The processor time of this process.
    pub client: Duration,
    pub machine: Duration,
    /// The number of times that the machine's disks have written out their caches, if the kernel counts them.
    pub disk_syncs: Option<u64>,
    /// The bytes that the nodes received from each other.
    pub bytes_between_nodes: u64,
    /// The filter's counters, if the target has the filter.
    pub counters: Counters,
}

impl Site {
    /// Starts what the targets need. All Envoys run the shipped configuration, with the same number of workers.
    pub async fn start(tools: &Tools, options: &Options) -> Result<Self> {
        let run_dir = tools.root.join(RUN_DIR);
        let mut cluster = ClusterOptions::new(&run_dir);
        cluster.distribution = options.cluster;
        cluster.nodes = NODES;
        cluster.data_on_disk = true;
        cluster.profile = Profile::Throughput;
        let queue = options.write_queue.map(|length| ("thread_pool.write.queue_size".to_owned(), length.into()));
        cluster.settings.extend(queue);
        cluster.processors = (0..options.node_processors).collect();
        let cluster = Cluster::start(tools, cluster).await?;
        let client = Client::new();
        options.shape.pipeline.create(&client, &cluster.base_url(0)?).await?;
        let mut site = Self { run_dir, cluster, envoys: Vec::new(), client, probes: 0, indices_made: 0 };
        for target in &options.targets {
            if *target != Target::Direct && site.envoy(*target).is_none() {
                site.start_envoy(tools, *target, options).await?;
            }
        }
        Ok(site)
    }

    /// Restarts Envoy with the filter, with other options.
    pub async fn restart_filter(&mut self, tools: &Tools, options: &Options) -> Result<()> {
        if let Some(place) = self.envoys.iter().position(|(target, _)| *target == Target::Filter) {
            self.envoys.remove(place).1.stop().await?;
        }
        self.start_envoy(tools, Target::Filter, options).await
    }

    async fn start_envoy(&mut self, tools: &Tools, target: Target, options: &Options) -> Result<()> {
        let (filter, wasm) = match target {
            Target::Direct | Target::Plain => (FilterConfig::Removed, None),
            Target::Base => (FilterConfig::Shipped, options.base_wasm.clone()),
            Target::Filter => (FilterConfig::Merged(options.filter()), None),
        };
        let mut envoy = EnvoyOptions { filter, wasm, ..EnvoyOptions::new(&self.run_dir).in_front_of(&self.cluster) };
        envoy.name = target.name().into();
        envoy.concurrency = options.envoy_workers;
        self.envoys.push((target, Envoy::start(tools, envoy).await?));
        self.probes = self.probes.max(PROBES_PER_WORKER * options.envoy_workers);
        Ok(())
    }

    /// Returns the nodes' product and version, and Envoy's version.
    pub async fn versions(&self, options: &Options) -> Result<(String, String)> {
        // Elasticsearch's own archive lacks the module that answers `GET /`.
        let nodes = self.client.get_json(&format!("{}/_nodes/_local", self.base_url()?)).await?;
        let node = nodes["nodes"].as_object().and_then(|nodes| nodes.values().next());
        let version = node.and_then(|node| node["version"].as_str());
        let product = options.cluster.title().split(' ').next().unwrap_or_default();
        let cluster = format!("{product} {}", version.context("the nodes do not report a version")?);
        let Some((_, envoy)) = self.envoys.first() else { return Ok((cluster, "none".to_owned())) };
        let server = self.client.get_json(&envoy.admin_url("/server_info")).await?;
        // The text is a hash, the version, and the build type.
        let version = server.get("version").and_then(Value::as_str).and_then(|text| text.split('/').nth(1));
        Ok((cluster, version.context("Envoy does not report a version")?.to_owned()))
    }

    /// Returns the addresses for a target's requests, one for each connection of a client.
    pub fn addresses(&self, target: Target) -> Vec<SocketAddr> {
        match self.envoy(target) {
            Some(envoy) => vec![envoy.addr(); NODES],
            None => self.cluster.addresses().map(|(_, address)| address).collect(),
        }
    }

    /// Creates indices, and waits until the filter knows them.
    pub async fn create_indices(&mut self, count: usize, shape: &Shape) -> Result<Vec<Index>> {
        let mut indices = Vec::with_capacity(count);
        for _ in 0..count {
            self.indices_made += 1;
            indices.push(Index::create(&self.client, &self.base_url()?, (self.indices_made, NODES), shape).await?);
        }
        for index in &indices {
            self.wait_until_known(index).await?;
        }
        Ok(indices)
    }

    /// Waits until each worker of each Envoy with the filter splits requests for the index.
    async fn wait_until_known(&self, index: &Index) -> Result<()> {
        for (_, envoy) in self.envoys.iter().filter(|(target, _)| target.has_filter()) {
            wait::until(STATE_LIMIT, "the filter does not split requests for a new index", async || {
                // One probe shows whether it is time to probe all workers.
                let known = self.are_split(envoy, index, 1).await? && self.are_split(envoy, index, self.probes).await?;
                Ok(known.then_some(()))
            })
            .await?;
        }
        Ok(())
    }

    /// Returns whether the filter splits requests, each on its own connection. They delete a missing document, which
    /// leaves the index unchanged. No pipeline runs for a deletion.
    async fn are_split(&self, envoy: &Envoy, index: &Index, requests: u32) -> Result<bool> {
        let name = index_name(index.number);
        let body = format!("{{\"delete\":{{\"_index\":\"{name}\",\"_id\":\"none\"}}}}\n");
        let before = Counters::read(envoy).await?;
        for _ in 0..requests {
            Client::new().post_ndjson(&envoy.url("/_bulk"), body.clone()).await?.ok()?;
        }
        Ok(Counters::read(envoy).await?.since(&before).passed_through().is_empty())
    }

    /// Checks that an index has as many documents as were acknowledged, deletes it, and waits until the nodes are idle.
    pub async fn finish(&self, index: Index, acknowledged: Option<u64>) -> Result<()> {
        let count = index.count(&self.client).await?;
        if let Some(acknowledged) = acknowledged
            && count != acknowledged
        {
            bail!("{acknowledged} documents acknowledged, but {count} in the index");
        }
        index.delete(&self.client).await?;
        self.wait_quiet().await
    }

    /// Waits until the nodes are nearly idle. On a machine with other work that may never happen, so the wait is short.
    pub async fn wait_quiet(&self) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < QUIET_LIMIT {
            let before = self.cluster_time()?;
            tokio::time::sleep(QUIET_SAMPLE).await;
            if (self.cluster_time()? - before).as_secs_f64() < QUIET * QUIET_SAMPLE.as_secs_f64() {
                break;
            }
        }
        Ok(())
    }

    /// Reads all counters before a load to this target, the expensive ones first.
    pub async fn read_before(&self, target: Target) -> Result<Reading> {
        let (bytes, counters) = self.read_servers(target).await?;
        self.reading(target, bytes, counters)
    }

    /// Reads all counters after a load, the expensive ones last.
    pub async fn read_after(&self, target: Target) -> Result<Reading> {
        let reading = self.reading(target, 0, Counters::default())?;
        let (bytes_between_nodes, counters) = self.read_servers(target).await?;
        Ok(Reading { bytes_between_nodes, counters, ..reading })
    }

    pub async fn stop(self) -> Result<()> {
        for (_, envoy) in self.envoys {
            envoy.stop().await?;
        }
        self.cluster.stop().await
    }

    fn reading(&self, target: Target, bytes_between_nodes: u64, counters: Counters) -> Result<Reading> {
        let envoy = self.envoy(target).map(|envoy| processor_time::of_process(envoy.process().pid()));
        Ok(Reading {
            cluster: self.cluster_time()?,
            envoy: envoy.transpose()?,
            client: processor_time::of_this_process()?,
            machine: processor_time::of_machine()?,
            disk_syncs: DiskStats::current()?.0.iter().map(|disk| disk.flushes).sum(),
            bytes_between_nodes,
            counters,
        })
    }

    async fn read_servers(&self, target: Target) -> Result<(u64, Counters)> {
        let stats = self.client.get_json(&format!("{}/_nodes/stats/transport", self.base_url()?)).await?;
        let nodes = stats.get("nodes").and_then(Value::as_object).context("no nodes")?;
        let received = nodes.values().map(|node| node.pointer("/transport/rx_size_in_bytes").and_then(Value::as_u64));
        let bytes = received.sum::<Option<u64>>().context("the nodes do not report the bytes that they received")?;
        let counters = match self.envoy(target) {
            Some(envoy) if target.has_filter() => Counters::read(envoy).await?,
            _ => Counters::default(),
        };
        Ok((bytes, counters))
    }

    fn cluster_time(&self) -> Result<Duration> {
        (0..self.cluster.len()).map(|node| processor_time::of_process(self.cluster.process(node)?.pid())).sum()
    }

    fn envoy(&self, target: Target) -> Option<&Envoy> {
        self.envoys.iter().find(|(started, _)| *started == target).map(|(_, envoy)| envoy)
    }

    fn base_url(&self) -> Result<String> {
        self.cluster.base_url(0)
    }
}
