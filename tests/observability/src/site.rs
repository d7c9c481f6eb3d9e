use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, Envoy, EnvoyOptions, Tools, wait};
use serde_json::json;
use tempfile::TempDir;

use crate::load::Load;

const LIMIT: Duration = Duration::from_secs(60);

/// The number of clients, enough for batches of several requests.
const CLIENTS: usize = 12;

/// A real cluster behind Envoy with the shipped configuration, under load.
#[derive(Debug)]
pub struct Site {
    load: Load,
    envoy: Envoy,
    cluster: Cluster,
    _run_dir: TempDir,
}

impl Site {
    /// Starts the cluster, Envoy and the load, and returns when the filter splits requests.
    pub async fn start(tools: &Tools) -> Result<Self> {
        let run_dir = tempfile::tempdir()?;
        let cluster = Cluster::start(tools, ClusterOptions::new(run_dir.path())).await?;
        let options = EnvoyOptions { concurrency: 2, ..EnvoyOptions::new(run_dir.path()) }.in_front_of(&cluster);
        let envoy = Envoy::start(tools, options).await?;
        let settings = json!({"settings": {"number_of_shards": 6, "number_of_replicas": 0}});
        Client::new().put_json(&envoy.url("/books"), &settings).await?.ok()?;
        let url = envoy.url("/books/_bulk");
        wait::until(LIMIT, "the filter splits requests", async || {
            bulk(&Client::new(), &url, 0, 3).await?;
            let merged = envoy.counter("wasmcustom.bulk_reshuffle_requests_total.outcome.merged").await?;
            Ok((merged > 0).then_some(()))
        })
        .await?;
        let mut load = Load::default();
        for client in 0..CLIENTS {
            let http = Client::new();
            let (split, whole) = (url.clone(), envoy.url("/books/_bulk?pipeline=_none"));
            load.client(move |number| {
                let (http, url) = (http.clone(), if number % 5 == 4 { whole.clone() } else { split.clone() });
                async move { bulk(&http, &url, client * 1_000_000 + number * 7, 1 + client % 7).await }
            });
        }
        Ok(Self { load, envoy, cluster, _run_dir: run_dir })
    }

    /// Returns the address of Envoy's administration interface.
    pub fn admin(&self) -> SocketAddr {
        self.envoy.admin()
    }

    /// Stops everything.
    pub async fn stop(self) -> Result<()> {
        self.load.end().await?;
        self.envoy.stop().await?;
        self.cluster.stop().await
    }
}

/// Writes some small documents in one request.
async fn bulk(client: &Client, url: &str, first: usize, count: usize) -> Result<()> {
    let line = |number| format!("{{\"index\":{{\"_id\":\"{number}\"}}}}\n{{\"message\":\"line {number}\"}}\n");
    let answer = client.post_ndjson(url, (first..first + count).map(line).collect::<String>()).await?;
    ensure!(answer.status == 200, "{}", answer.text());
    Ok(())
}
