use anyhow::{Context, Result};
use bulk_reshuffle_e2e::named_releases;
use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, Distribution, Response, Tools};
use bytes::Bytes;
use hyper::Request;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A cluster of one node.
#[derive(Debug)]
pub struct Node {
    cluster: Cluster,
    client: Client,
    _folder: TempDir,
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
        Ok(Self { cluster: Cluster::start(&Tools::find()?, options).await?, client: Client::new(), _folder: folder })
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
        let url = format!("{}{}", self.cluster.base_url(0)?, request.uri());
        *request.uri_mut() = url.parse().context(url)?;
        self.client.send(request).await
    }

    /// Returns the answer with a document, without its sequence number.
    pub async fn document(&self, path: &str) -> Result<String> {
        let answer = self.client.get(&format!("{}{path}", self.cluster.base_url(0)?)).await?;
        Ok(super::answers::comparable(&answer.text()))
    }

    pub async fn stop(self) -> Result<()> {
        self.cluster.stop().await
    }
}
