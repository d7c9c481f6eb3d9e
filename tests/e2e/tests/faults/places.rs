use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{ClusterScript, FakeCluster};
use bulk_reshuffle_stack::{Network, port, wait};

use crate::LIMIT;
use crate::witness::Witness;

/// The port of all places: DNS gives only addresses.
pub const PORT: u16 = 9200;

/// The header that names a node's address in a batch, as in `envoy/one-cluster.yaml`.
const HEADER: &str = "x-bulk-reshuffle-node";

/// The interval between two looks at the primaries' locations: a look costs a small node much.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// How long a place must have had no request, to be sure that none follows.
const QUIET: Duration = Duration::from_millis(500);

/// Addresses that nodes can publish, with a [`Witness`] behind them that forwards requests to the nodes.
pub struct Places {
    pub witness: Witness,
    addresses: Vec<SocketAddr>,
    homes: BTreeMap<usize, Home>,
    _network: Network,
}

/// The node at a place.
#[derive(Clone, Copy)]
struct Home {
    node: usize,
    /// The node's own address.
    server: SocketAddr,
}

impl Places {
    /// Reserves this many places. They are closed: nothing listens there.
    pub async fn reserve(count: usize) -> Result<Self> {
        let network = Network::find()?;
        let addresses = network.servers(count, PORT)?;
        let mut relay = FakeCluster::start_at(ClusterScript::new(count), addresses.clone()).await?;
        for place in 0..count {
            relay.take_down(place).await?;
        }
        Ok(Self {
            witness: Witness::of(relay, count, BETWEEN_LOOKS),
            addresses,
            homes: BTreeMap::new(),
            _network: network,
        })
    }

    pub fn address(&self, place: usize) -> Result<SocketAddr> {
        self.addresses.get(place).copied().context("no such place")
    }

    /// Opens a place for a node at its own address.
    pub async fn open(&mut self, place: usize, node: usize, server: SocketAddr) -> Result<()> {
        self.homes.insert(place, Home { node, server });
        self.forward();
        self.witness.relay().bring_up(place).await
    }

    /// Closes a place and all connections to it, as a node does that shuts down.
    pub async fn close(&mut self, place: usize) -> Result<()> {
        self.homes.remove(&place);
        self.forward();
        self.witness.relay().take_down(place).await
    }

    /// Waits until a place gets no more requests.
    pub async fn wait_quiet(&mut self, place: usize) -> Result<()> {
        let relay = self.witness.relay();
        wait::until(LIMIT, "a place gets no more requests", async || Ok(relay.is_quiet(place, QUIET).then_some(())))
            .await
    }

    /// Forgets the requests that the relay has recorded.
    pub fn forget(&mut self) {
        self.witness.relay().forget();
    }

    fn forward(&self) {
        let homes = self.homes.clone();
        let nobody = port::loopback(0);
        let servers = (0..self.addresses.len()).map(|place| homes.get(&place).map_or(nobody, |home| home.server));
        self.witness.ask(homes.values().map(|home| home.server).collect());
        self.witness.relay_to(servers.collect(), move |request| {
            request.header(HEADER).and_then(|_| homes.get(&request.node)).map(|home| home.node)
        });
    }
}
