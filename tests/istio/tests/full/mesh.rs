use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use bulk_reshuffle_e2e::lines;
use bulk_reshuffle_istio::{Agent, Pod};
use bulk_reshuffle_stack::{Client, wait};

use crate::overlay::Overlay;
use crate::site::{LIMIT, NAMESPACE, PORT, Site};

/// So many that hardly ever all of them belong to the same of a proxy's workers.
const CONNECTIONS: u64 = 16;

/// What the log says when the filter's VM fails.
const FAULTS: &[&str] = &["\tcritical\t", "panicked", "Function: proxy_", "Uncaught"];

/// A proxy under Istio's agent, to which istiod delivers what was applied.
pub struct Mesh<'a> {
    pub site: &'a Site,
    pub proxy: Agent,
    pod: Pod,
}

impl<'a> Mesh<'a> {
    /// Applies the overlay and starts a proxy; returns when it listens.
    pub async fn start(site: &'a Site, name: &str, overlay: &Overlay) -> Result<Self> {
        let pod = Pod::new(NAMESPACE, &format!("proxy-{name}"), overlay.labels(), site.network.address()?);
        site.api.add_pod(&pod).await?;
        site.replace(&overlay.bound(&pod)?).await?;
        let folder = site.folder(name);
        let proxy = Agent::start(&site.tools, &folder, overlay.kind, &pod, PORT, &site.api, &site.istiod).await?;
        proxy.wait_listening().await?;
        Ok(Self { site, proxy, pod })
    }

    /// Applies this over what was there.
    pub async fn apply(&self, overlay: &Overlay) -> Result<()> {
        self.site.api.apply(&overlay.bound(&self.pod)?).await
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
        .with_context(|| self.proxy.process().log_extract())
    }

    /// A counter of the filter's, over all labels that are not part of the name.
    pub async fn counted(&self, name: &str) -> Result<u64> {
        self.sum(&format!("bulk_reshuffle_{name}")).await
    }

    /// A counter of the filter's by label: upstream or reason.
    pub async fn counted_by(&self, name: &str, label: &str) -> Result<BTreeMap<String, u64>> {
        let prefix = format!("wasmcustom.bulk_reshuffle_{name}_total.{label}.");
        let stats = self.proxy.stats_with(&format!("bulk_reshuffle_{name}_total")).await?;
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

    /// Waits until the proxy has taken a configuration since then.
    pub async fn wait_taken(&self, since: (u64, u64)) -> Result<()> {
        let taken = async || Ok((self.deliveries().await?.0 > since.0).then_some(()));
        wait::until(LIMIT, "the proxy takes the configuration", taken)
            .await
            .with_context(|| self.proxy.process().log_extract())
    }

    /// Waits until the proxy has refused so many configurations.
    pub async fn wait_refused(&self, count: u64) -> Result<()> {
        let refused = async || Ok((self.deliveries().await?.1 >= count).then_some(()));
        wait::until(LIMIT, "the proxy refuses the configuration", refused)
            .await
            .with_context(|| self.proxy.process().log_extract())
    }

    /// Waits until the log has a line with this text; returns the line.
    pub async fn wait_logged(&self, text: &str) -> Result<String> {
        wait::until(LIMIT, &format!("the log has `{text}`"), async || {
            Ok(self.proxy.log().lines().find(|line| line.contains(text)).map(str::to_owned))
        })
        .await
        .with_context(|| self.proxy.process().log_extract())
    }

    /// The filter's counters must be among the metrics that Prometheus gets, as the README says of their names.
    pub async fn check_metrics(&self) -> Result<()> {
        let metrics = self.proxy.metrics().await?;
        for node in 0..3 {
            let name = format!("bulk_reshuffle_batches_total_upstream_outbound_9200__es_{node}_es_internal");
            let told: Vec<&str> = metrics.lines().filter(|line| line.starts_with("bulk_reshuffle")).collect();
            ensure!(told.iter().any(|line| line.starts_with(&name)), "no {name} in:\n{}", told.join("\n"));
        }
        Ok(())
    }

    /// Ends the proxy; the filter must have come through it unharmed.
    pub async fn end(self) -> Result<()> {
        for (name, count) in self.proxy.stats_with("vm_reload").await? {
            ensure!(count == 0, "{name} is {count}: {}", self.proxy.process().log_extract());
        }
        if let Some(line) = self.proxy.log().lines().find(|line| FAULTS.iter().any(|fault| line.contains(fault))) {
            bail!("Envoy logged: {line}");
        }
        self.end_refused().await
    }

    /// Ends the proxy, after Envoy has complained of what it was delivered.
    pub async fn end_refused(self) -> Result<()> {
        self.proxy.stop().await
    }

    async fn sum(&self, regex: &str) -> Result<u64> {
        Ok(self.proxy.stats_with(regex).await?.values().sum())
    }
}
