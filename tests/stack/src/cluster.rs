//! A cluster of search nodes, each a process of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::{Map, Value};

use crate::account::Account;
use crate::client::Client;
use crate::distribution::Distribution;
use crate::node::Node;
use crate::port;
use crate::process::{Lifetime, Process};
use crate::tools::Tools;
use crate::wait;
use crate::workspace::Workspace;

/// A cold start on a busy machine; on an idle one it is a few seconds.
const START_LIMIT: Duration = Duration::from_secs(180);

/// From a kill to the end of the process, memory and all.
const END_LIMIT: Duration = Duration::from_secs(10);

/// How the nodes' JVMs are set up.
#[derive(Debug, Clone, Copy, Default)]
pub enum Profile {
    /// Starts soon and stays small: as little heap as the server needs (256 or 384 MiB), the quick compiler only, the
    /// serial collector.
    #[default]
    Fast,
    /// For measuring: 512 MiB of heap, both compilers, G1. Let it warm up.
    Throughput,
}

/// How a cluster is started.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// What the nodes run.
    pub distribution: Distribution,
    /// The number of nodes; they are called `es-0`, `es-1` …, with `node.attr.zone` `z0`, `z1` ….
    pub nodes: usize,
    /// The nodes' HTTP ports; empty: free ones.
    pub http_ports: Vec<u16>,
    /// The loopback addresses at which the nodes have these ports; empty: 127.0.0.1 for all.
    pub http_hosts: Vec<Ipv4Addr>,
    /// Where logs and data go. What an earlier cluster left there is replaced.
    pub run_dir: PathBuf,
    /// How the JVMs are set up.
    pub profile: Profile,
    /// More lines for every node's `opensearch.yml` or `elasticsearch.yml`.
    pub settings: Map<String, Value>,
    /// Whether the nodes may outlive this process.
    pub lifetime: Lifetime,
}

impl ClusterOptions {
    /// Three nodes of OpenSearch 2 on free ports, profile [`Profile::Fast`].
    pub fn new(run_dir: impl Into<PathBuf>) -> Self {
        Self {
            distribution: Distribution::default(),
            nodes: 3,
            http_ports: Vec::new(),
            http_hosts: Vec::new(),
            run_dir: run_dir.into(),
            profile: Profile::default(),
            settings: Map::new(),
            lifetime: Lifetime::default(),
        }
    }
}

impl ClusterOptions {
    /// Where each node answers.
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
    // After the nodes: they use it until they are gone.
    workspace: Workspace,
}

impl Cluster {
    /// Starts the nodes and returns when they have found each other.
    pub async fn start(tools: &Tools, options: ClusterOptions) -> Result<Self> {
        let addresses = options.http_addresses()?;
        for address in &addresses {
            port::ensure_free_at(*address)?;
        }
        let transport_ports = port::free_ports(options.nodes)?;
        let workspace = Workspace::prepare(tools, options.distribution, &options.run_dir, Account::of_nodes())?;
        let nodes = addresses
            .iter()
            .enumerate()
            .map(|(index, address)| Node::prepare(index, *address, &transport_ports, &workspace, &options))
            .collect::<Result<Vec<Node>>>()?;
        let mut cluster = Self { nodes, options, client: Client::new(), workspace };
        for node in &mut cluster.nodes {
            node.start(&cluster.workspace, &cluster.options)?;
        }
        cluster.wait_joined().await?;
        Ok(cluster)
    }

    /// The number of nodes, running or not.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the cluster has no node at all.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node's name.
    pub fn node_name(&self, index: usize) -> Result<&str> {
        Ok(&self.node(index)?.name)
    }

    /// `http://<address>:<port>` of the node.
    pub fn base_url(&self, index: usize) -> Result<String> {
        Ok(format!("http://{}", self.http_addr(index)?))
    }

    /// The node's HTTP address.
    pub fn http_addr(&self, index: usize) -> Result<SocketAddr> {
        Ok(self.node(index)?.http)
    }

    /// Name and HTTP address of all nodes.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, SocketAddr)> {
        self.nodes.iter().map(|node| (node.name.as_str(), node.http))
    }

    /// The process of a node, if it was not killed.
    pub fn process(&self, index: usize) -> Result<&Process> {
        let node = self.node(index)?;
        node.process.as_ref().with_context(|| format!("{} does not run", node.name))
    }

    /// Waits until all nodes are in the cluster and all shards are allocated.
    pub async fn wait_green(&self, limit: Duration) -> Result<()> {
        let query = format!("wait_for_status=green&wait_for_nodes={}&timeout=1s", self.running().count());
        self.wait_healthy(limit, &query, "a green cluster").await
    }

    /// Kills a node (SIGKILL); returns when its process is gone.
    pub fn kill(&mut self, index: usize) -> Result<()> {
        match self.node_mut(index)?.process.take() {
            Some(process) => process.kill(),
            None => Ok(()),
        }
    }

    /// Starts a killed node again, on the same ports and data; returns when it has joined.
    pub async fn restart(&mut self, index: usize) -> Result<()> {
        self.kill(index)?;
        let address = self.node(index)?.http;
        // A launcher is gone before the server that it has started.
        wait::until(END_LIMIT, "the killed node's port", async || Ok(port::ensure_free_at(address).ok())).await?;
        let Self { nodes, options, workspace, .. } = self;
        nodes.get_mut(index).context("no such node")?.start(workspace, options)?;
        self.wait_joined().await
    }

    /// Stops the node's process in its tracks (SIGSTOP): connections stay open, nothing is answered.
    pub fn pause(&self, index: usize) -> Result<()> {
        self.process(index)?.signal(Signal::STOP)
    }

    /// Lets a paused node go on.
    pub fn resume(&self, index: usize) -> Result<()> {
        self.process(index)?.signal(Signal::CONT)
    }

    /// Ends all nodes.
    pub async fn stop(mut self) -> Result<()> {
        // All at once: each takes its time.
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

    /// Lets go of a cluster that was started with [`Lifetime::Independent`].
    pub fn leave_running(self) {
        self.nodes.into_iter().filter_map(|node| node.process).for_each(Process::leave_running);
        self.workspace.keep();
    }

    async fn wait_joined(&self) -> Result<()> {
        let query = format!("wait_for_nodes={}&timeout=1s", self.running().count());
        self.wait_healthy(START_LIMIT, &query, "the nodes have not found each other").await
    }

    /// Waits until every running node gives a good answer about the cluster's health.
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

    fn ensure_running(&self) -> Result<()> {
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
