use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{check_filter, lines};
use bulk_reshuffle_istio::{Discovery, Pod, Proxy};
use bulk_reshuffle_stack::{Client, wait};

use crate::overlay::Overlay;
use crate::site::{LIMIT, NAMESPACE, PORT, Site};

/// So many that hardly ever all of them belong to the same of a proxy's workers.
pub const CONNECTIONS: u64 = 16;

/// A proxy, and istiod that delivers manifests to it.
pub struct Mesh<'a> {
    pub site: &'a Site,
    pub proxy: Proxy,
    discovery: Discovery,
    pod: Pod,
}

impl<'a> Mesh<'a> {
    /// Starts both; returns when the proxy listens.
    pub async fn start(site: &'a Site, name: &str, overlay: &Overlay) -> Result<Self> {
        let pod = Pod::new(NAMESPACE, &format!("proxy-{name}"), overlay.labels(), site.network.address()?);
        let folder = site.folder(name);
        let discovery = Discovery::start(&site.tools, &folder, &overlay.complete(&pod)?).await?;
        let proxy = Proxy::start(&site.tools, &folder, overlay.kind, &pod, PORT, &discovery).await?;
        proxy.wait_listening().await.with_context(|| discovery.log())?;
        Ok(Self { site, proxy, discovery, pod })
    }

    /// Delivers this from now on.
    pub async fn apply(&self, overlay: &Overlay) -> Result<()> {
        self.discovery.apply(&overlay.complete(&self.pod)?).await
    }

    /// Ends istiod, at once.
    pub fn lose_istiod(&self) -> Result<()> {
        self.discovery.kill()
    }

    /// Waits until a node's upstream leads to these addresses.
    pub async fn wait_endpoints(&self, node: &str, addresses: &[SocketAddr]) -> Result<()> {
        let (admin, upstream) = (self.proxy.envoy.admin_url("/clusters"), Self::upstream(node));
        wait::until(LIMIT, "the upstream follows its pod", async || {
            let clusters = self.site.client.get(&admin).await?.text();
            let healths = clusters.lines().filter_map(|line| line.strip_prefix(&format!("{upstream}::")));
            let endpoints = healths.filter_map(|line| line.split_once("::health_flags")?.0.parse().ok());
            Ok((endpoints.collect::<BTreeSet<SocketAddr>>() == addresses.iter().copied().collect()).then_some(()))
        })
        .await
    }

    /// What Istio calls the upstream of a pod.
    pub fn upstream(node: &str) -> String {
        format!("outbound|9200||{node}.es.internal")
    }

    /// Waits until every worker splits requests for an index.
    pub async fn wait_splitting(&self, index: &str) -> Result<()> {
        const MERGED: &str = "requests_merged_total";
        wait::until(LIMIT, "every worker splits requests", async || {
            let before = self.counted(MERGED).await?;
            for _ in 0..CONNECTIONS {
                // A connection belongs to one worker, so each try needs a new one.
                self.bulk(&Client::new(), lines::delete(index, "nothing")).await?;
            }
            Ok((self.counted(MERGED).await? == before + CONNECTIONS).then_some(()))
        })
        .await
        .with_context(|| self.proxy.envoy.process().log_extract())
    }

    /// A counter of the filter's, over all labels that are not part of the name.
    pub async fn counted(&self, name: &str) -> Result<u64> {
        self.sum(&format!("bulk_reshuffle_{name}")).await
    }

    /// A counter of the filter's by label: upstream or reason.
    pub async fn counted_by(&self, name: &str, label: &str) -> Result<BTreeMap<String, u64>> {
        let prefix = format!("wasmcustom.bulk_reshuffle_{name}_total.{label}.");
        let stats = self.proxy.envoy.stats_with(&format!("bulk_reshuffle_{name}_total")).await?;
        Ok(stats
            .into_iter()
            .filter_map(|(name, count)| Some((name.strip_prefix(&prefix)?.to_owned(), count)))
            .collect())
    }

    /// How often the proxy has taken a new configuration of the filter, and how often it has refused one.
    pub async fn deliveries(&self) -> Result<(u64, u64)> {
        let taken = self.sum("extension_config_discovery.*update_success").await?;
        Ok((taken, self.sum("extension_config_discovery.*update_rejected").await?))
    }

    /// Waits until the proxy has refused so many configurations.
    pub async fn wait_refused(&self, count: u64) -> Result<()> {
        let refused = async || Ok((self.deliveries().await?.1 >= count).then_some(()));
        wait::until(LIMIT, "the proxy refuses the configuration", refused).await
    }

    /// Waits until the proxy has taken a configuration since then.
    pub async fn wait_taken(&self, since: (u64, u64)) -> Result<()> {
        let taken = async || Ok((self.deliveries().await?.0 > since.0).then_some(()));
        wait::until(LIMIT, "the proxy takes the configuration", taken).await
    }

    /// Ends both; the filter must have come through it unharmed.
    pub async fn end(self) -> Result<()> {
        check_filter(&self.proxy.envoy).await?;
        self.end_refused().await
    }

    /// Ends both, after Envoy has complained of what it was delivered.
    pub async fn end_refused(self) -> Result<()> {
        self.proxy.envoy.stop().await?;
        self.discovery.stop().await
    }

    /// The sum of all counters whose names match.
    pub async fn sum(&self, regex: &str) -> Result<u64> {
        Ok(self.proxy.envoy.stats_with(regex).await?.values().sum())
    }
}
