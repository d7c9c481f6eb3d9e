use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use bulk_reshuffle_istio::{Agent, Nodes, Pod, Traffic};
use bulk_reshuffle_stack::{Process, wait};

use crate::overlay::Overlay;
use crate::site::{LIMIT, NAMESPACE, PORT, Site};

/// Texts in the log when the filter's VM fails.
const FAULTS: &[&str] = &["\tcritical\t", "panicked", "Function: proxy_", "Uncaught"];

/// A proxy with Istio's agent, to which istiod delivers the applied manifests.
pub struct Mesh<'a> {
    pub site: &'a Site,
    pub proxy: Agent,
    pod: Pod,
}

impl Traffic for Mesh<'_> {
    fn nodes(&self) -> &Nodes {
        &self.site.nodes
    }

    fn listener(&self) -> SocketAddr {
        self.proxy.listener()
    }

    fn admin(&self) -> SocketAddr {
        self.proxy.admin()
    }

    fn process(&self) -> &Process {
        self.proxy.process()
    }
}

impl<'a> Mesh<'a> {
    /// Applies the overlay, starts a proxy and returns when it listens.
    pub async fn start(site: &'a Site, name: &str, overlay: &Overlay) -> Result<Self> {
        let pod = Pod::new(NAMESPACE, &format!("proxy-{name}"), overlay.labels(), site.network.address()?);
        site.api.add_pod(&pod).await?;
        site.replace(&overlay.bound(&pod)?).await?;
        let folder = site.folder(name);
        let proxy = Agent::start(&site.tools, &folder, overlay.kind, &pod, PORT, &site.api, &site.istiod).await?;
        proxy.wait_listening().await?;
        Ok(Self { site, proxy, pod })
    }

    /// Applies an overlay over the current resources.
    pub async fn apply(&self, overlay: &Overlay) -> Result<()> {
        self.site.api.apply(&overlay.bound(&self.pod)?).await
    }

    /// Waits until the log has a line with this text, and returns the line.
    pub async fn wait_logged(&self, text: &str) -> Result<String> {
        wait::until(LIMIT, &format!("the log has `{text}`"), async || {
            Ok(self.proxy.log().lines().find(|line| line.contains(text)).map(str::to_owned))
        })
        .await
        .with_context(|| self.proxy.process().log_extract())
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
        for (name, count) in self.stats_with("vm_reload").await? {
            ensure!(count == 0, "{name} is {count}: {}", self.proxy.process().log_extract());
        }
        if let Some(line) = self.proxy.log().lines().find(|line| FAULTS.iter().any(|fault| line.contains(fault))) {
            bail!("Envoy logged: {line}");
        }
        self.end_refused().await
    }

    /// Stops the proxy after a test in which Envoy logs errors about rejected configurations.
    pub async fn end_refused(self) -> Result<()> {
        self.proxy.stop().await
    }
}
