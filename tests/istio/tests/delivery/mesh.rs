use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use bulk_reshuffle_istio::{DirectProxy, Discovery, Kind, Nodes, Pod, Proxy, Traffic};
use bulk_reshuffle_stack::wait;

use crate::overlay::Overlay;
use crate::site::{LIMIT, NAMESPACE, Site};

/// A proxy, and an istiod that delivers manifests to it.
pub struct Mesh<'a> {
    pub site: &'a Site,
    pub proxy: DirectProxy,
    discovery: Discovery,
    pod: Pod,
}

impl Traffic for Mesh<'_> {
    type Proxy = DirectProxy;

    fn nodes(&self) -> &Nodes {
        &self.site.nodes
    }

    fn proxy(&self) -> &Self::Proxy {
        &self.proxy
    }
}

impl<'a> Mesh<'a> {
    /// Starts both and returns when the proxy listens.
    pub async fn start(site: &'a Site, name: &str, overlay: &Overlay) -> Result<Self> {
        let pod = Pod::new(NAMESPACE, &format!("proxy-{name}"), overlay.labels(), site.network.address()?);
        let folder = site.folder(name);
        let discovery = Discovery::start(&site.tools, &folder, &overlay.complete(&pod)?).await?;
        let proxy = DirectProxy::start(&site.tools, &folder, overlay.kind, &pod, &discovery).await?;
        proxy.wait_listening().await.with_context(|| discovery.log())?;
        Ok(Self { site, proxy, discovery, pod })
    }

    /// Starts the sidecar of another pod, configured by the same istiod.
    pub async fn start_sidecar(&self, pod: &Pod) -> Result<DirectProxy> {
        let folder = self.site.folder(&format!("{}-{}", self.pod.name, pod.name));
        let proxy = DirectProxy::start(&self.site.tools, &folder, Kind::Sidecar, pod, &self.discovery).await?;
        proxy.wait_listening().await.with_context(|| self.discovery.log())?;
        Ok(proxy)
    }

    /// Applies an overlay in place of the current one.
    pub async fn apply(&self, overlay: &Overlay) -> Result<()> {
        self.discovery.apply(&overlay.complete(&self.pod)?).await
    }

    /// Kills istiod.
    pub fn lose_istiod(&self) -> Result<()> {
        self.discovery.kill()
    }

    /// Waits until a node's upstream has exactly these endpoints.
    pub async fn wait_endpoints(&self, node: &str, addresses: &[SocketAddr]) -> Result<()> {
        let (admin, upstream) = (format!("http://{}/clusters", self.proxy.admin()), Self::upstream(node));
        wait::until(LIMIT, "the upstream follows its pod", async || {
            let clusters = self.site.nodes.client.get(&admin).await?.text();
            let healths = clusters.lines().filter_map(|line| line.strip_prefix(&format!("{upstream}::")));
            let endpoints = healths.filter_map(|line| line.split_once("::health_flags")?.0.parse().ok());
            Ok((endpoints.collect::<BTreeSet<SocketAddr>>() == addresses.iter().copied().collect()).then_some(()))
        })
        .await
    }

    /// Checks that the filter did not fail, and stops both.
    pub async fn end(self) -> Result<()> {
        self.proxy.check_filter().await?;
        self.end_refused().await
    }

    /// Stops both after a test in which Envoy logs errors about rejected configurations.
    pub async fn end_refused(self) -> Result<()> {
        self.proxy.stop().await?;
        self.discovery.stop().await
    }
}
