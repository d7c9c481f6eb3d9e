use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{ClusterScript, FakeCluster};
use bulk_reshuffle_stack::{Network, port, wait};

use crate::LIMIT;
use crate::witness::Witness;

/// The port of all endpoints: DNS gives only addresses.
pub const PORT: u16 = 9200;

/// The header that names a node's address in a batch, as in `envoy/one-cluster.yaml`.
const HEADER: &str = "x-bulk-reshuffle-node";

/// The interval between two looks at the primaries' locations: a look costs a small node much.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// How long an endpoint must have had no request, to be sure that none follows.
const QUIET: Duration = Duration::from_millis(500);

/// Addresses that nodes can publish, with a [`Witness`] behind them that forwards requests to the nodes.
pub struct Endpoints {
    pub witness: Witness,
    addresses: Vec<SocketAddr>,
    servers: BTreeMap<usize, Server>,
    _network: Network,
}

/// The node behind an endpoint.
#[derive(Clone, Copy)]
struct Server {
    node: usize,
    /// The node's own address.
    address: SocketAddr,
}

impl Endpoints {
    /// Reserves this many endpoints. They are closed: nothing listens there.
    pub async fn reserve(count: usize) -> Result<Self> {
        let network = Network::find()?;
        let addresses = network.servers(count, PORT)?;
        let mut relay = FakeCluster::start_at(ClusterScript::new(count), addresses.clone()).await?;
        for endpoint in 0..count {
            relay.take_down(endpoint).await?;
        }
        Ok(Self {
            witness: Witness::of(relay, count, BETWEEN_LOOKS),
            addresses,
            servers: BTreeMap::new(),
            _network: network,
        })
    }

    pub fn address(&self, endpoint: usize) -> Result<SocketAddr> {
        self.addresses.get(endpoint).copied().context("no such endpoint")
    }

    /// Opens an endpoint for a node at its own address.
    pub async fn open(&mut self, endpoint: usize, node: usize, address: SocketAddr) -> Result<()> {
        self.servers.insert(endpoint, Server { node, address });
        self.forward();
        self.witness.relay().bring_up(endpoint).await
    }

    /// Closes an endpoint and all connections to it, as a node does that shuts down.
    pub async fn close(&mut self, endpoint: usize) -> Result<()> {
        self.servers.remove(&endpoint);
        self.forward();
        self.witness.relay().take_down(endpoint).await
    }

    /// Waits until an endpoint gets no more requests.
    pub async fn wait_quiet(&mut self, endpoint: usize) -> Result<()> {
        let relay = self.witness.relay();
        wait::until(LIMIT, "an endpoint gets no more requests", async || {
            Ok(relay.is_quiet(endpoint, QUIET).then_some(()))
        })
        .await
    }

    /// Forgets the requests that the relay has recorded.
    pub fn forget(&mut self) {
        self.witness.relay().forget();
    }

    fn forward(&self) {
        let servers = self.servers.clone();
        let closed = port::loopback(0);
        let addresses =
            (0..self.addresses.len()).map(|endpoint| servers.get(&endpoint).map_or(closed, |it| it.address));
        self.witness.ask(servers.values().map(|server| server.address).collect());
        self.witness.relay_to(addresses.collect(), move |request| {
            request.header(HEADER).and_then(|_| servers.get(&request.node)).map(|server| server.node)
        });
    }
}
