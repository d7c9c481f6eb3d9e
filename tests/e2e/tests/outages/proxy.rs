use std::path::Path;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::check_filter;
use bulk_reshuffle_stack::{Cluster, Envoy, EnvoyOptions, FilterConfig, Tools};

use crate::LIMIT;
use crate::way::Way;

/// The configuration of an Envoy in front of the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The filter, and a cluster for each node: `envoy/envoy.yaml`.
    Each,
    /// The filter, and one cluster for all nodes: `envoy/one-cluster.yaml`.
    One,
    /// The same clusters as [`Each`](Self::Each), without the filter.
    Plain,
}

/// An Envoy in front of the nodes.
pub struct Proxy {
    pub kind: Kind,
    pub envoy: Envoy,
    /// How often it was started.
    starts: usize,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Each, Self::One, Self::Plain];

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Each => ("a cluster for each node", "each"),
            Self::One => ("one cluster", "one"),
            Self::Plain => ("without the filter", "plain"),
        }
    }

    fn options(self, cluster: &Cluster, folder: &Path, start: usize) -> Result<EnvoyOptions> {
        let (_, short) = self.names();
        let options = EnvoyOptions { name: format!("{short}-{start}"), ..EnvoyOptions::new(folder) };
        Ok(match self {
            Self::Each => options.in_front_of(cluster),
            Self::Plain => EnvoyOptions { filter: FilterConfig::Removed, ..options.in_front_of(cluster) },
            Self::One => {
                let options = options.cluster("es", cluster.addresses().map(|(_, address)| address));
                EnvoyOptions { config: Some(Tools::find()?.root.join("envoy/one-cluster.yaml")), ..options }
            }
        })
    }
}

impl Proxy {
    /// Starts an Envoy. Returns when its filter knows the cluster state, if it has one.
    pub async fn start(cluster: &Cluster, folder: &Path, kind: Kind) -> Result<Self> {
        let envoy = Envoy::start(&Tools::find()?, kind.options(cluster, folder, 1)?).await?;
        let proxy = Self { kind, envoy, starts: 1 };
        proxy.wait_for_state().await?;
        Ok(proxy)
    }

    pub fn way(&self) -> Way {
        let (name, short) = self.kind.names();
        Way { name, short, servers: vec![self.envoy.url("")], has_filter: self.has_filter() }
    }

    /// Kills Envoy (SIGKILL), as the kernel does if memory is short, and starts it again at once at the same ports.
    pub async fn kill_and_restart(&mut self, cluster: &Cluster, folder: &Path) -> Result<()> {
        let (port, admin_port) = (Some(self.envoy.addr().port()), Some(self.envoy.admin().port()));
        self.starts += 1;
        let options = EnvoyOptions { port, admin_port, ..self.kind.options(cluster, folder, self.starts)? };
        self.envoy.process().kill()?;
        self.envoy = Envoy::start(&Tools::find()?, options).await?;
        self.wait_for_state().await
    }

    /// Returns an error if a VM has died.
    pub async fn check(&self) -> Result<()> {
        match self.has_filter() {
            true => check_filter(&self.envoy).await.with_context(|| format!("{:?}", self.kind)),
            false => Ok(()),
        }
    }

    async fn wait_for_state(&self) -> Result<()> {
        if self.has_filter() { self.envoy.wait_for_state(LIMIT).await } else { Ok(()) }
    }

    fn has_filter(&self) -> bool {
        self.kind != Kind::Plain
    }
}
