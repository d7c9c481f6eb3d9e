use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_stack::{Cluster, ClusterOptions, Counters, Envoy, EnvoyOptions, FilterConfig, Profile, Tools};

const STATE_LIMIT: Duration = Duration::from_secs(60);

/// Three OpenSearch nodes behind Envoy with the filter, on free ports. Dropping it kills all processes.
#[derive(Debug)]
pub struct Site {
    cluster: Cluster,
    pub envoy: Envoy,
}

impl Site {
    /// Starts everything and returns when the filter has the cluster's state.
    pub async fn start(tools: &Tools, run_dir: &Path, profile: Profile, filter: FilterConfig) -> Result<Self> {
        // Fail before the nodes start, which takes up to a minute.
        tools.wasm()?;
        let data_on_disk = profile == Profile::Throughput;
        let options = ClusterOptions { profile, data_on_disk, ..ClusterOptions::new(run_dir) };
        let cluster = Cluster::start(tools, options).await?;
        let options = EnvoyOptions { filter, ..EnvoyOptions::new(run_dir).in_front_of(&cluster) };
        let envoy = Envoy::start(tools, options).await?;
        let site = Self { cluster, envoy };
        site.envoy.wait_for_state(STATE_LIMIT).await?;
        Ok(site)
    }

    pub fn target(&self) -> String {
        self.envoy.url("")
    }

    /// Returns the URLs of the nodes.
    pub fn nodes(&self) -> Vec<String> {
        self.cluster.addresses().map(|(_, address)| format!("http://{address}")).collect()
    }

    pub async fn stop(self) -> Result<()> {
        self.envoy.stop().await?;
        self.cluster.stop().await
    }
}

/// Says what the filter has done, by the growth of its counters.
pub fn activity(counters: &Counters) -> String {
    let reasons: Vec<String> =
        counters.passed_through().iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let passed = if reasons.is_empty() { "none".to_owned() } else { reasons.join(", ") };
    let (merged, batches) = (counters.merged(), counters.sum("batches_total"));
    format!("{merged} requests split and merged into {batches} batches, passed through: {passed}")
}
