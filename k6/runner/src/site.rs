use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, Envoy, EnvoyOptions, FilterConfig, Profile, Tools, wait};

use crate::activity::Activity;

const STATE_LIMIT: Duration = Duration::from_secs(60);

/// Three nodes of OpenSearch and Envoy with the filter in front of them, on free ports. Dropping it ends them all.
#[derive(Debug)]
pub struct Site {
    cluster: Cluster,
    envoy: Envoy,
}

impl Site {
    /// Starts everything; returns when the filter knows the cluster's state.
    pub async fn start(tools: &Tools, run_dir: &Path, profile: Profile, filter: FilterConfig) -> Result<Self> {
        // Before a minute goes into the nodes.
        tools.wasm()?;
        let cluster = Cluster::start(tools, ClusterOptions { profile, ..ClusterOptions::new(run_dir) }).await?;
        let options = EnvoyOptions { filter, ..EnvoyOptions::new(run_dir).in_front_of(&cluster) };
        let envoy = Envoy::start(tools, options).await?;
        let site = Self { cluster, envoy };
        site.wait_for_state().await?;
        Ok(site)
    }

    /// Where clients find Envoy.
    pub fn target(&self) -> String {
        self.envoy.url("")
    }

    /// The Envoy with the filter.
    pub fn envoy(&self) -> &Envoy {
        &self.envoy
    }

    /// What the filter has done so far.
    pub async fn activity(&self) -> Result<Activity> {
        Activity::read(&self.envoy).await
    }

    /// Ends Envoy and the nodes.
    pub async fn stop(self) -> Result<()> {
        self.envoy.stop().await?;
        self.cluster.stop().await
    }

    async fn wait_for_state(&self) -> Result<()> {
        let url = self.envoy.url("/_bulk");
        let client = Client::new();
        wait::until(STATE_LIMIT, "the filter does not learn the cluster's state", async || {
            // An empty request passes through whole, and makes the worker look at the state.
            client.post_ndjson(&url, "\n").await?;
            let loads = self.envoy.counter("wasmcustom.bulk_reshuffle_state_loads_total").await?;
            Ok((loads > 0).then_some(()))
        })
        .await
    }
}
