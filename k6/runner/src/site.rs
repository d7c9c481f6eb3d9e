use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, Envoy, EnvoyOptions, FilterConfig, Profile, Tools, wait};

use crate::activity::Activity;

const STATE_LIMIT: Duration = Duration::from_secs(60);

/// Three OpenSearch nodes behind Envoy with the filter, on free ports. Dropping it kills all processes.
#[derive(Debug)]
pub struct Site {
    cluster: Cluster,
    envoy: Envoy,
}

impl Site {
    /// Starts everything and returns when the filter has the cluster's state.
    pub async fn start(tools: &Tools, run_dir: &Path, profile: Profile, filter: FilterConfig) -> Result<Self> {
        // Fail before the nodes start, which takes up to a minute.
        tools.wasm()?;
        let cluster = Cluster::start(tools, ClusterOptions { profile, ..ClusterOptions::new(run_dir) }).await?;
        let options = EnvoyOptions { filter, ..EnvoyOptions::new(run_dir).in_front_of(&cluster) };
        let envoy = Envoy::start(tools, options).await?;
        let site = Self { cluster, envoy };
        site.wait_for_state().await?;
        Ok(site)
    }

    /// Returns Envoy's URL for clients.
    pub fn target(&self) -> String {
        self.envoy.url("")
    }

    /// Returns the Envoy with the filter.
    pub fn envoy(&self) -> &Envoy {
        &self.envoy
    }

    /// Reads the filter's counters.
    pub async fn activity(&self) -> Result<Activity> {
        Activity::read(&self.envoy).await
    }

    /// Stops Envoy and the nodes.
    pub async fn stop(self) -> Result<()> {
        self.envoy.stop().await?;
        self.cluster.stop().await
    }

    async fn wait_for_state(&self) -> Result<()> {
        let url = self.envoy.url("/_bulk");
        let client = Client::new();
        wait::until(STATE_LIMIT, "the filter loads the cluster's state", async || {
            // An empty request passes through, and makes the worker query the state.
            client.post_ndjson(&url, "\n").await?;
            let loads = self.envoy.counter("wasmcustom.bulk_reshuffle_state_loads_total").await?;
            Ok((loads > 0).then_some(()))
        })
        .await
    }
}
