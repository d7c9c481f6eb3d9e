//! The demo's cluster and Envoy, on fixed ports.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bulk_reshuffle_stack::{
    Client, Cluster, ClusterOptions, Distribution, Envoy, EnvoyOptions, FilterConfig, Lifetime, Tools, port,
};
use serde_json::json;

use crate::progress::Step;
use crate::up;

/// The port of Envoy's listener.
pub const LISTENER: u16 = 9200;
/// The port of Envoy's administration interface.
pub const ADMIN: u16 = 9901;
/// The path of the filter's admin page.
pub const PAGE: &str = "/_bulk_reshuffle";
/// The HTTP ports of the nodes.
pub const NODES: [u16; 3] = [9201, 9202, 9203];

const GREEN_LIMIT: Duration = Duration::from_secs(60);
const STATE_LIMIT: Duration = Duration::from_secs(60);
const WORKERS: u32 = 2;

pub struct Site {
    pub cluster: Cluster,
    pub envoy: Envoy,
    pub client: Client,
}

/// Returns the path of a folder in the checkout's `.run`.
pub fn run_dir(tools: &Tools, name: &str) -> PathBuf {
    tools.root.join(".run").join(name)
}

impl Site {
    /// Starts the nodes, creates the indices and starts Envoy with the filter.
    pub async fn start(
        tools: &Tools,
        run_dir: &Path,
        distribution: Distribution,
        lifetime: Lifetime,
        indices: &[&str],
    ) -> Result<Self> {
        ensure_ports_are_free(tools)?;
        tools.wasm()?;
        let client = Client::new();

        let step = Step::start(&format!("three nodes of {}, each in a separate process", distribution.title()));
        let mut options = ClusterOptions::new(run_dir);
        options.distribution = distribution;
        options.data_on_disk = true;
        options.http_ports = NODES.to_vec();
        options.lifetime = lifetime;
        let cluster = Cluster::start(tools, options).await?;
        for index in indices {
            create_index(&client, &cluster.base_url(0)?, index).await?;
        }
        cluster.wait_green(GREEN_LIMIT).await?;
        step.finish();

        let step = Step::start("Envoy with the filter");
        let mut options = EnvoyOptions::new(run_dir).in_front_of(&cluster);
        options.filter = FilterConfig::Merged(json!({"admin_path": PAGE}));
        options.port = Some(LISTENER);
        options.admin_port = Some(ADMIN);
        options.concurrency = WORKERS;
        options.lifetime = lifetime;
        let envoy = Envoy::start(tools, options).await?;
        step.finish();
        Ok(Self { cluster, envoy, client })
    }

    /// Waits until every worker of Envoy has the cluster's state. From then on, no request passes through because the
    /// state is missing.
    pub async fn wait_for_state(&self) -> Result<()> {
        self.envoy.wait_for_state(STATE_LIMIT).await
    }

    pub async fn stop(self) -> Result<()> {
        self.envoy.stop().await?;
        self.cluster.stop().await
    }
}

fn ensure_ports_are_free(tools: &Tools) -> Result<()> {
    let fixed = [LISTENER, ADMIN].into_iter().chain(NODES);
    fixed.into_iter().try_for_each(port::ensure_free).map_err(|error| match up::is_running(tools) {
        true => anyhow!("{error}: the processes of `make up` still run; stop them with `make down`"),
        false => anyhow!("{error}; the demo needs the ports 9200 to 9203 and 9901: stop that process and try again"),
    })
}

async fn create_index(client: &Client, base_url: &str, index: &str) -> Result<()> {
    let body = json!({
        "settings": {"number_of_shards": 6, "number_of_replicas": 0},
        // A fixed mapping, so that no load pays for detecting the fields' types.
        "mappings": {"properties": {
            "number": {"type": "long"},
            "title": {"type": "text"},
            "text": {"type": "text"},
            "read": {"type": "boolean"},
        }},
    });
    let created = client.put_json(&format!("{base_url}/{index}"), &body).await?.ok();
    created.with_context(|| format!("cannot create the index {index}"))?;
    Ok(())
}
