use std::net::SocketAddr;

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::ShippedFiles;
use bulk_reshuffle_stack::{Client, Envoy, port};
use tempfile::TempDir;

/// The alerts of such an Envoy.
pub const ALERTS: [&str; 2] = ["BulkReshuffleAbsent", "BulkReshuffleUndelivered"];

/// Envoy with the shipped roll-out, to which only a wrong configuration of the filter was ever delivered.
pub struct Bare {
    envoy: Envoy,
    _folder: TempDir,
}

impl Bare {
    /// Starts Envoy. Requests pass without the filter, to nodes that are not there.
    pub async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let files = ShippedFiles::new(folder.path())?.replace("\"coordinator\": \"es\"", "\"coordinator\": 1");
        let files = files.port(9210, port::free()?).port(8125, port::free()?);
        let envoy = files.start("rollout.yaml").await?;
        let answer = Client::new().get(&envoy.url("/_cat/nodes")).await?;
        ensure!(answer.status == 503, "{} {}", answer.status, answer.text());
        Ok(Self { envoy, _folder: folder })
    }

    pub fn admin(&self) -> SocketAddr {
        self.envoy.admin()
    }

    pub async fn stop(self) -> Result<()> {
        self.envoy.stop().await
    }
}
