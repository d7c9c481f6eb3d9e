use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use bulk_reshuffle_e2e::check_filter;
use bulk_reshuffle_stack::{
    Client, Cluster, ClusterOptions, Envoy, EnvoyOptions, FilterConfig, Tools, enter_private_network,
    is_network_private,
};
use serde_json::json;
use tempfile::TempDir;

use crate::black_hole::BlackHole;
use crate::writers::Writers;

/// The Envoy without the filter.
pub const PLAIN: &str = "without";

const LIMIT: Duration = Duration::from_secs(120);

/// How long the writers write before an outage.
const BEFORE: Duration = Duration::from_secs(3);

/// Three nodes with addresses of their own, and Envoys in front of them, each of which has its own index.
pub struct Scene {
    cluster: Cluster,
    envoys: Vec<(&'static str, Envoy)>,
    _folder: TempDir,
}

impl Scene {
    pub async fn start() -> Result<Self> {
        enter_private_network()?;
        ensure!(is_network_private(), "packets can be lost only in a private network: allow `unshare --net`");
        BlackHole::prepare()?;
        let (tools, folder) = (Tools::find()?, tempfile::tempdir()?);
        let mut options = ClusterOptions::new(folder.path());
        options.http_hosts = (1..=3).map(|node| Ipv4Addr::new(127, 90, 0, node)).collect();
        let cluster = Cluster::start(&tools, options).await?;
        let nodes: Vec<_> = cluster.addresses().map(|(_, address)| address).collect();
        let options = |name: &str| EnvoyOptions { name: name.to_owned(), ..EnvoyOptions::new(folder.path()) };
        let each = options("each").in_front_of(&cluster);
        let mut one = options("one").cluster("es", nodes.iter().copied());
        one.config = Some(tools.root.join("envoy/one-cluster.yaml"));
        let mut plain = options(PLAIN).in_front_of(&cluster);
        plain.filter = FilterConfig::Removed;
        let mut envoys = Vec::new();
        for (name, options) in [("a cluster for each node", each), ("one cluster", one), (PLAIN, plain)] {
            let settings = json!({"settings": {"number_of_shards": 6, "number_of_replicas": 0}});
            let index = options.name.clone();
            Client::new().put_json(&format!("{}/{index}", cluster.base_url(0)?), &settings).await?.ok()?;
            envoys.push((name, Envoy::start(&tools, options).await?));
        }
        cluster.wait_green(LIMIT).await?;
        for (_, envoy) in envoys.iter().filter(|(name, _)| *name != PLAIN) {
            envoy.wait_for_state(LIMIT).await?;
        }
        Ok(Self { cluster, envoys, _folder: folder })
    }

    /// Loses all packets to a node's HTTP address from now on.
    pub fn lose_packets_to(&self, node: usize) -> Result<BlackHole> {
        let IpAddr::V4(address) = self.cluster.http_addr(node)?.ip() else { bail!("the address is not IPv4") };
        BlackHole::open(address)
    }

    /// Starts to write through all Envoys. Returns after a while.
    pub async fn write(&self) -> Result<Writers> {
        let indices = ["each", "one", PLAIN];
        let envoys = self.envoys.iter().zip(indices);
        let mut writers = Writers::start(envoys.map(|((name, envoy), index)| (*name, envoy.url("/_bulk"), index)));
        tokio::time::sleep(BEFORE).await;
        writers.begin();
        Ok(writers)
    }

    /// Stops everything. No VM may have died.
    pub async fn end(self) -> Result<()> {
        for (name, envoy) in self.envoys {
            if name != PLAIN {
                check_filter(&envoy).await?;
            }
            envoy.stop().await?;
        }
        self.cluster.stop().await
    }
}
