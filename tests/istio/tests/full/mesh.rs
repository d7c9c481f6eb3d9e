use anyhow::{Result, ensure};
use bulk_reshuffle_istio::{Agent, Nodes, Pod, Proxy, Traffic};

use crate::overlay::Overlay;
use crate::site::{NAMESPACE, Site};

/// A proxy with Istio's agent, to which istiod delivers the applied manifests.
pub struct Mesh<'a> {
    pub site: &'a Site,
    pub proxy: Agent,
    pod: Pod,
}

impl Traffic for Mesh<'_> {
    type Proxy = Agent;

    fn nodes(&self) -> &Nodes {
        &self.site.nodes
    }

    fn proxy(&self) -> &Self::Proxy {
        &self.proxy
    }
}

impl<'a> Mesh<'a> {
    /// Applies the overlay, starts a proxy and returns when it listens.
    pub async fn start(site: &'a Site, name: &str, overlay: &Overlay) -> Result<Self> {
        let pod = Pod::new(NAMESPACE, &format!("proxy-{name}"), overlay.labels(), site.network.address()?);
        site.api.add_pod(&pod).await?;
        site.replace(&overlay.bound(&pod)?).await?;
        let folder = site.folder(name);
        let proxy = Agent::start(&site.tools, &folder, overlay.kind, &pod, &site.api, &site.istiod).await?;
        proxy.wait_listening().await?;
        Ok(Self { site, proxy, pod })
    }

    /// Applies an overlay over the current resources.
    pub async fn apply(&self, overlay: &Overlay) -> Result<()> {
        self.site.api.apply(&overlay.bound(&self.pod)?).await
    }

    /// Checks that Prometheus gets the filter's counters, with the names in the README.
    pub async fn check_metrics(&self) -> Result<()> {
        let metrics = self.proxy.metrics().await?;
        for node in 0..3 {
            let name = format!("bulk_reshuffle_batches_total_upstream_outbound_9200__es_{node}_es_internal");
            let told: Vec<&str> = metrics.lines().filter(|line| line.starts_with("bulk_reshuffle")).collect();
            ensure!(told.iter().any(|line| line.starts_with(&name)), "no {name} in:\n{}", told.join("\n"));
        }
        Ok(())
    }

    /// Checks that the filter did not fail, and stops the proxy.
    pub async fn end(self) -> Result<()> {
        self.proxy.check_filter().await?;
        self.end_refused().await
    }

    /// Stops the proxy after a test in which Envoy logs errors about rejected configurations.
    pub async fn end_refused(self) -> Result<()> {
        self.proxy.stop().await
    }
}
