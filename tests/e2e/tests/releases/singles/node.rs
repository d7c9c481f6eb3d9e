use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::named_releases;
use bulk_reshuffle_stack::{
    Client, Cluster, ClusterOptions, Counters, Distribution, Envoy, EnvoyOptions, FilterConfig, Response, Tools,
};
use bytes::Bytes;
use hyper::Request;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A limit far above the duration of any step here, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A cluster of one node.
pub struct Node {
    cluster: Cluster,
    /// The Envoy to which requests go, if they go through the filter.
    envoy: Option<Envoy>,
    client: Client,
    folder: TempDir,
}

/// A request that prepares a node.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    #[serde(default, deserialize_with = "named_releases")]
    on: Vec<Distribution>,
    request: String,
    #[serde(default)]
    body: Value,
}

impl Node {
    pub async fn start(distribution: Distribution, settings: &Value) -> Result<Self> {
        // A disk takes longer for a document than the node.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let mut options = ClusterOptions { distribution, nodes: 1, ..ClusterOptions::new(folder.path()) };
        options.settings = settings.as_object().cloned().unwrap_or_default();
        options.settings.insert("action.auto_create_index".into(), json!("-absent*,+*"));
        let cluster = Cluster::start(&Tools::find()?, options).await?;
        Ok(Self { cluster, envoy: None, client: Client::new(), folder })
    }

    /// Starts an Envoy with the filter, to which later requests go.
    pub async fn behind_the_filter(self) -> Result<Self> {
        let mut options = EnvoyOptions::new(self.folder.path()).in_front_of(&self.cluster);
        options.filter = FilterConfig::Merged(json!({"single_documents": true}));
        let envoy = Envoy::start(&Tools::find()?, options).await?;
        envoy.wait_for_state(LIMIT).await?;
        Ok(Self { envoy: Some(envoy), ..self })
    }

    /// Returns how many requests the filter has merged.
    pub async fn merged(&self) -> Result<u64> {
        let envoy = self.envoy.as_ref().context("no Envoy was started")?;
        Ok(Counters::read(envoy).await?.merged())
    }

    pub async fn take(&self, steps: &[Step], release: Distribution) -> Result<()> {
        for step in steps.iter().filter(|step| step.on.is_empty() || step.on.contains(&release)) {
            bulk_reshuffle_e2e::Step::new(&step.request, step.body.clone())
                .take(&self.client, &self.cluster.base_url(0)?)
                .await?;
        }
        Ok(())
    }

    /// Sends a request that has no host.
    pub async fn send(&self, request: &Request<Bytes>) -> Result<Response> {
        let mut request = request.clone();
        let base = self.envoy.as_ref().map_or_else(|| self.cluster.base_url(0), |envoy| Ok(envoy.url("")))?;
        let url = format!("{base}{}", request.uri());
        *request.uri_mut() = url.parse().context(url)?;
        self.client.send(request).await
    }

    /// Returns the answer with a document, without its sequence number.
    pub async fn document(&self, path: &str) -> Result<String> {
        let answer = self.client.get(&format!("{}{path}", self.cluster.base_url(0)?)).await?;
        Ok(super::answers::comparable(&answer.text()))
    }

    pub async fn stop(self) -> Result<()> {
        if let Some(envoy) = self.envoy {
            envoy.stop().await?;
        }
        self.cluster.stop().await
    }
}
