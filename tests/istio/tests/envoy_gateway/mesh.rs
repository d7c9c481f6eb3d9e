use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use bulk_reshuffle_e2e::lines;
use bulk_reshuffle_istio::GatewayProxy;
use bulk_reshuffle_stack::{Client, wait};

use crate::site::{GATEWAY_PORT, LIMIT, Site};

/// So many that hardly ever all of them belong to the same of the proxy's workers.
const CONNECTIONS: u64 = 16;

/// The example's gateway.
pub struct Mesh<'a> {
    pub site: &'a Site,
    pub proxy: GatewayProxy,
}

impl<'a> Mesh<'a> {
    /// Starts it; returns when it listens.
    pub async fn start(site: &'a Site) -> Result<Self> {
        let (api, hosts) = (&site.api, site.names());
        let proxy = site.gateway.start_proxy(&site.tools, api, "elasticsearch", GATEWAY_PORT, &hosts).await?;
        Ok(Self { site, proxy })
    }

    /// What Envoy calls the upstream of a node.
    pub fn upstream(node: &str) -> String {
        node.to_owned()
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
        Ok(self.proxy.stats_with(&format!("bulk_reshuffle_{name}")).await?.values().sum())
    }

    /// A counter of the filter's by label: upstream or reason.
    pub async fn counted_by(&self, name: &str, label: &str) -> Result<BTreeMap<String, u64>> {
        let prefix = format!("wasmcustom.bulk_reshuffle_{name}_total.{label}.");
        let stats = self.proxy.stats_with(&format!("bulk_reshuffle_{name}_total")).await?;
        let labelled = |(name, count): (String, u64)| Some((name.strip_prefix(&prefix)?.to_owned(), count));
        Ok(stats.into_iter().filter_map(labelled).collect())
    }

    /// Ends it. The patch must have been in what it ran with: else each split request costs an upstream request.
    pub async fn end(self) -> Result<()> {
        let configuration = self.proxy.configuration().await?;
        ensure!(configuration.contains("\"allow_on_headers_stop_iteration\": true"), "not patched:\n{configuration}");
        let log = self.proxy.process().log();
        if let Some(line) = log.lines().find(|line| line.contains("][critical]") || line.contains("panicked")) {
            bail!("Envoy logged: {line}");
        }
        self.proxy.stop().await
    }
}
