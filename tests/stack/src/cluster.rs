//! A cluster of search nodes, each in a separate process.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::distribution::Distribution;
use crate::node::Node;
use crate::port;
use crate::process::{Lifetime, Process};
use crate::tools::Tools;
use crate::wait;
use crate::workspace::Workspace;

/// The time limit of a cold start on a busy machine. On an idle machine it takes a few seconds.
const START_LIMIT: Duration = Duration::from_secs(180);

/// The time limit from a kill to the complete end of the process.
const END_LIMIT: Duration = Duration::from_secs(10);

/// The setup of the nodes' JVMs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// A quick start and little memory: the smallest heap that the server needs (256 or 384 MiB), the C1 compiler only,
    /// the serial collector.
    #[default]
    Fast,
    /// For large requests: a heap of 768 MiB, the C1 compiler only, G1. Before a server refuses a request because its
    /// memory is full of garbage, it collects the garbage, but only with G1.
    Large,
    /// For benchmarks: a heap of 512 MiB, both compilers, G1. It needs a warm-up.
    Throughput,
}

/// The security plug-in of a cluster's nodes. Its settings are among [`ClusterOptions::settings`].
#[derive(Debug, Clone, Default)]
pub struct Security {
    /// Each node's files: their texts, by their paths in the node's `config` folder.
    pub files: Vec<BTreeMap<String, String>>,
}

/// The options of a cluster.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// The server that the nodes run.
    pub distribution: Distribution,
    /// The number of nodes. They are named `es-0`, `es-1` …, with `node.attr.zone` `z0`, `z1` ….
    pub nodes: usize,
    /// The nodes' HTTP ports; free ports if empty.
    pub http_ports: Vec<u16>,
    /// The loopback addresses of the nodes' HTTP ports; 127.0.0.1 for all nodes if empty.
    pub http_hosts: Vec<Ipv4Addr>,
    /// The HTTP addresses that the nodes publish; their own if empty. Something there must forward to the nodes.
    pub published: Vec<SocketAddr>,
    /// The folder for logs and data. The files of an earlier cluster are replaced.
    pub run_dir: PathBuf,
    /// Whether the nodes' data is in `run_dir`, as for measurements, which include what the disk takes, and for nodes that
    /// are left running. By default it is in memory, if the machine has enough.
    pub data_on_disk: bool,
    /// The setup of the JVMs.
    pub profile: Profile,
    /// More settings for every node's `opensearch.yml` or `elasticsearch.yml`.
    pub settings: Map<String, Value>,
    /// The security plug-in; `None` for a cluster that admits every client.
    pub security: Option<Security>,
    /// The processors that the nodes use; all of them if empty.
    pub processors: Vec<usize>,
    /// Whether the nodes may outlive this process.
    pub lifetime: Lifetime,
}

impl ClusterOptions {
    /// Returns the default options: three nodes of OpenSearch 2 on free ports with [`Profile::Fast`].
    pub fn new(run_dir: impl Into<PathBuf>) -> Self {
        Self {
            distribution: Distribution::default(),
            nodes: 3,
            http_ports: Vec::new(),
            http_hosts: Vec::new(),
            published: Vec::new(),
            run_dir: run_dir.into(),
            data_on_disk: false,
            profile: Profile::default(),
            settings: Map::new(),
            security: None,
            processors: Vec::new(),
            lifetime: Lifetime::default(),
        }
    }
}

impl ClusterOptions {
    /// Returns each node's HTTP address.
    fn http_addresses(&self) -> Result<Vec<SocketAddr>> {
        let ports = match self.http_ports.len() {
            0 => port::free_ports(self.nodes)?,
            given if given == self.nodes => self.http_ports.clone(),
            given => bail!("{given} HTTP ports for {} nodes", self.nodes),
        };
        let hosts = match self.http_hosts.len() {
            0 => vec![Ipv4Addr::LOCALHOST; self.nodes],
            given if given == self.nodes => self.http_hosts.clone(),
            given => bail!("{given} HTTP hosts for {} nodes", self.nodes),
        };
        Ok(hosts.into_iter().zip(ports).map(SocketAddr::from).collect())
    }
}

/// A running cluster. Dropping it kills the nodes.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    options: ClusterOptions,
    client: Client,
    // Dropped after the nodes, which use it until they end.
    workspace: Workspace,
}

impl Cluster {
    /// Starts the nodes and returns when they have found each other.
    pub async fn start(tools: &Tools, options: ClusterOptions) -> Result<Self> {
        let cluster = Self::launch(tools, options)?;
        cluster.wait_joined().await?;
        Ok(cluster)
    }

    /// Starts the nodes and returns at once. With [`ClusterOptions::security`], nodes answer only clients that they
    /// know, so the caller must wait for them. Methods of this type that query the nodes do not work then.
    pub fn launch(tools: &Tools, options: ClusterOptions) -> Result<Self> {
        let addresses = options.http_addresses()?;
        for address in &addresses {
            port::ensure_free_at(*address)?;
        }
        let transport_ports = port::free_ports(options.nodes)?;
        let server = match &options.security {
            Some(_) => tools.folder(options.distribution.secured_name()?)?,
            None => tools.server(options.distribution)?,
        };
        let workspace = Workspace::prepare(tools, &server, &options)?;
        let nodes = addresses
            .iter()
            .zip(&transport_ports)
            .enumerate()
            .map(|(index, (address, transport))| Node::prepare(index, *address, *transport, &workspace, &options))
            .collect::<Result<Vec<Node>>>()?;
        let managers: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
        let mut cluster = Self { nodes, options, client: Client::new(), workspace };
        for (index, node) in cluster.nodes.iter_mut().enumerate() {
            node.publish(cluster.options.published.get(index).copied());
            node.configure(&transport_ports, &managers, &cluster.options)?;
            node.start(&cluster.workspace, &cluster.options)?;
        }
        Ok(cluster)
    }

    /// Returns the number of nodes, running or not.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Reports whether the cluster has no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns a node's name.
    pub fn node_name(&self, index: usize) -> Result<&str> {
        Ok(&self.node(index)?.name)
    }

    /// Returns a node's URL: `http://<address>:<port>`.
    pub fn base_url(&self, index: usize) -> Result<String> {
        Ok(format!("http://{}", self.http_addr(index)?))
    }

    /// Returns a node's HTTP address.
    pub fn http_addr(&self, index: usize) -> Result<SocketAddr> {
        Ok(self.node(index)?.http)
    }

    /// Returns the names and HTTP addresses of all nodes.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, SocketAddr)> {
        self.nodes.iter().map(|node| (node.name.as_str(), node.http))
    }

    /// Returns a node's process; an error if the node was killed.
    pub fn process(&self, index: usize) -> Result<&Process> {
        let node = self.node(index)?;
        node.process.as_ref().with_context(|| format!("{} does not run", node.name))
    }

    /// Waits until all nodes are in the cluster and all shards are allocated.
    pub async fn wait_green(&self, limit: Duration) -> Result<()> {
        let query = format!("wait_for_status=green&wait_for_nodes={}&timeout=1s", self.running().count());
        self.wait_healthy(limit, &query, "the cluster is green").await
    }

    /// Kills a node (SIGKILL) and returns when its process has ended.
    pub fn kill(&mut self, index: usize) -> Result<()> {
        match self.node_mut(index)?.process.take() {
            Some(process) => process.kill(),
            None => Ok(()),
        }
    }

    /// Starts a killed node again with the same ports and data, and returns when it has joined.
    pub async fn restart(&mut self, index: usize) -> Result<()> {
        self.kill(index)?;
        let address = self.node(index)?.http;
        // A launcher ends before the server that it started.
        wait::until(END_LIMIT, "the killed node's port is free", async || Ok(port::ensure_free_at(address).ok()))
            .await?;
        let Self { nodes, options, workspace, .. } = self;
        nodes.get_mut(index).context("no such node")?.start(workspace, options)?;
        self.wait_joined().await
    }

    /// Adds a node for each of these HTTP addresses, which it publishes. Returns their numbers when they have joined.
    pub async fn add(&mut self, published: &[SocketAddr]) -> Result<Range<usize>> {
        let first = self.len();
        for address in published {
            let (index, http) = (self.len(), port::loopback(port::free()?));
            self.nodes.push(Node::prepare(index, http, port::free()?, &self.workspace, &self.options)?);
            self.start_at(index, *address)?;
        }
        self.wait_joined().await?;
        Ok(first..self.len())
    }

    /// Moves all shards off these nodes and takes their votes. They can then be stopped without an effect on clients.
    pub async fn drain(&self, nodes: &[usize]) -> Result<()> {
        let names = nodes.iter().map(|node| self.node_name(*node)).collect::<Result<Vec<_>>>()?;
        self.exclude(&json!(names.join(","))).await?;
        wait::until(START_LIMIT, "the nodes have no shards", async || {
            let shards = self.client.get_json(&self.url("/_cat/shards?format=json")?).await?;
            let shards = shards.as_array().context("no shards")?;
            // The place of a shard that moves is `FROM -> IP ID TO`.
            let is_on =
                |shard: &Value| names.iter().any(|name| shard["node"].as_str().is_some_and(|node| node.contains(name)));
            Ok((!shards.iter().any(is_on)).then_some(()))
        })
        .await?;
        let votes = format!("/_cluster/voting_config_exclusions?node_names={}", names.join(","));
        self.client.post_json(&self.url(&votes)?, &json!({})).await?.ok().map(|_| ())
    }

    /// Lets other nodes have the names of drained ones, which must have been stopped.
    pub async fn forget_drained(&self) -> Result<()> {
        self.client.delete(&self.url("/_cluster/voting_config_exclusions")?).await?.ok()?;
        self.exclude(&Value::Null).await
    }

    /// Lets the cluster balance its shards, or forbids it and waits until no shard moves.
    pub async fn rebalance(&self, is_allowed: bool) -> Result<()> {
        let enable = if is_allowed { Value::Null } else { json!("none") };
        self.set("cluster.routing.rebalance.enable", &enable).await?;
        match is_allowed {
            true => Ok(()),
            false => {
                self.wait_healthy(START_LIMIT, "wait_for_no_relocating_shards=true&timeout=1s", "no shard moves").await
            }
        }
    }

    /// Keeps shards off nodes with these names.
    async fn exclude(&self, names: &Value) -> Result<()> {
        self.set("cluster.routing.allocation.exclude._name", names).await
    }

    /// Changes a transient setting; `null` removes it.
    async fn set(&self, setting: &str, to: &Value) -> Result<()> {
        let settings = json!({"transient": {setting: to}});
        self.client.put_json(&self.url("/_cluster/settings")?, &settings).await?.ok().map(|_| ())
    }

    /// Returns the URL of a path (`/…`) at the first node that runs.
    fn url(&self, path: &str) -> Result<String> {
        let (node, _) = self.running().next().context("no node runs")?;
        Ok(format!("http://{}{path}", node.http))
    }

    /// Stops a node (SIGTERM), and returns when its process has ended.
    pub async fn shut_down(&mut self, index: usize) -> Result<()> {
        match self.node_mut(index)?.process.take() {
            Some(process) => process.stop().await,
            None => Ok(()),
        }
    }

    /// Starts a stopped node with its name and data at another address, which it publishes. Returns when it has joined.
    pub async fn move_to(&mut self, index: usize, published: SocketAddr) -> Result<()> {
        let node = self.node_mut(index)?;
        node.http = port::loopback(port::free()?);
        node.transport_port = port::free()?;
        self.start_at(index, published)?;
        self.wait_joined().await
    }

    /// Starts a node that joins those that run.
    fn start_at(&mut self, index: usize, published: SocketAddr) -> Result<()> {
        let seeds: Vec<u16> = self.running().map(|(node, _)| node.transport_port).collect();
        let Self { nodes, options, workspace, .. } = self;
        let node = nodes.get_mut(index).context("no such node")?;
        node.publish(Some(published));
        node.configure(&seeds, &[], options)?;
        node.start(workspace, options)
    }

    /// Pauses a node's process (SIGSTOP): its connections stay open, but it does not answer.
    pub fn pause(&self, index: usize) -> Result<()> {
        self.process(index)?.signal(Signal::STOP)
    }

    /// Resumes a paused node.
    pub fn resume(&self, index: usize) -> Result<()> {
        self.process(index)?.signal(Signal::CONT)
    }

    /// Stops all nodes.
    pub async fn stop(mut self) -> Result<()> {
        // Terminate all nodes first, so that they end in parallel.
        for (_, process) in self.running() {
            process.terminate()?;
        }
        for node in &mut self.nodes {
            if let Some(process) = node.process.take() {
                process.stop().await?;
            }
        }
        Ok(())
    }

    /// Releases a cluster that was started with [`Lifetime::Independent`], which continues to run.
    pub fn leave_running(self) {
        self.nodes.iter().filter_map(|node| node.process.as_ref()).for_each(Process::leave_running);
        self.workspace.keep();
    }

    /// Returns the numbers and HTTP addresses of the nodes that run.
    pub fn running_nodes(&self) -> impl Iterator<Item = (usize, SocketAddr)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.process.is_some()).map(|(index, node)| (index, node.http))
    }

    async fn wait_joined(&self) -> Result<()> {
        let query = format!("wait_for_nodes={}&timeout=1s", self.running().count());
        self.wait_healthy(START_LIMIT, &query, "the nodes have found each other").await
    }

    /// Waits until every running node confirms the cluster's health.
    async fn wait_healthy(&self, limit: Duration, query: &str, what: &str) -> Result<()> {
        let client = self.client.with_timeout(Duration::from_secs(5));
        for (node, process) in self.running() {
            let url = format!("http://{}/_cluster/health?{query}", node.http);
            let healthy = wait::until(limit, what, async || {
                self.ensure_running()?;
                Ok(client.get_json(&url).await.ok())
            });
            if let Err(error) = healthy.await {
                self.ensure_running()?;
                return Err(error.context(process.log_extract()));
            }
        }
        Ok(())
    }

    /// Returns an error with the end of its log if the process of a node has ended.
    pub fn ensure_running(&self) -> Result<()> {
        self.running().try_for_each(|(_, process)| process.ensure_running())
    }

    fn running(&self) -> impl Iterator<Item = (&Node, &Process)> {
        self.nodes.iter().filter_map(|node| Some((node, node.process.as_ref()?)))
    }

    fn node(&self, index: usize) -> Result<&Node> {
        self.nodes.get(index).with_context(|| format!("the cluster has no node {index}"))
    }

    fn node_mut(&mut self, index: usize) -> Result<&mut Node> {
        self.nodes.get_mut(index).with_context(|| format!("the cluster has no node {index}"))
    }
}
