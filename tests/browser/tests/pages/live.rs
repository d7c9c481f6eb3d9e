use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use bulk_reshuffle_browser::look_at;
use bulk_reshuffle_stack::{Client, Cluster, ClusterOptions, Envoy, EnvoyOptions, FilterConfig, Tools, wait};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;

const LIMIT: Duration = Duration::from_secs(60);

/// The number of clients, enough for batches of several requests.
const CLIENTS: usize = 48;

/// Real nodes with indices whose shards are spread over them, and Envoy in front of the nodes.
struct Site {
    cluster: Cluster,
    envoy: Envoy,
    _folder: TempDir,
}

impl Site {
    async fn start(tools: &Tools) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let cluster = Cluster::start(tools, ClusterOptions::new(folder.path())).await?;
        let options = EnvoyOptions::new(folder.path()).in_front_of(&cluster);
        let filter = FilterConfig::Merged(json!({
            "admin_path": "/_bulk_reshuffle",
            "credentials": {"authorization": "Basic aHVzaDpodXNo"},
        }));
        let envoy = Envoy::start(tools, EnvoyOptions { filter, concurrency: 2, ..options }).await?;
        let site = Self { cluster, envoy, _folder: folder };
        let settings = json!({"settings": {"number_of_shards": 6, "number_of_replicas": 0}});
        for index in ["logs", "piped"] {
            let put = Client::new().put_json(&site.envoy.url(&format!("/{index}")), &settings).await?;
            ensure!(put.status == 200, "{}", put.text());
        }
        wait::until(LIMIT, "the filter splits requests", async || {
            bulk(&site.envoy, "/logs/_bulk", 0, 3).await?;
            let merged = "wasmcustom.bulk_reshuffle_requests_total.outcome.merged";
            Ok((site.envoy.counter(merged).await? > 0).then_some(()))
        })
        .await?;
        Ok(site)
    }
}

/// Writes some small documents in one request.
async fn bulk(envoy: &Envoy, path: &str, first: usize, count: usize) -> Result<()> {
    let line = |number| format!("{{\"index\":{{\"_id\":\"{number}\"}}}}\n{{\"message\":\"line {number}\"}}\n");
    let body: String = (first..first + count).map(line).collect();
    let answer = Client::new().post_ndjson(&envoy.url(path), body).await?;
    ensure!(answer.status == 200, "{}", answer.text());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_page_shows_what_the_filter_does_under_load() -> Result<()> {
    let tools = Tools::find()?;
    let site = Arc::new(Site::start(&tools).await?);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (site, is_over) = (Arc::clone(&site), Arc::clone(&is_over));
        clients.spawn(async move {
            for round in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                // A few requests of two clients pass through, each client's for a different reason.
                let path = match (client, round % 5) {
                    (0, 0) => "/piped/_bulk?pipeline=_none",
                    (1, 0) => "/unknown/_bulk?require_alias=false&refresh=false&human&unheard=",
                    _ => "/logs/_bulk",
                };
                let result = bulk(&site.envoy, path, client * 1_000_000 + round * 7, 1 + client % 7).await;
                ensure!(result.is_ok() || path.contains("unheard"), "{result:?}");
            }
            Ok(())
        });
    }
    let url = site.envoy.url("/_bulk_reshuffle/");
    look_at(&tools, "live", &[("PAGE_URL", url.as_str())]).await?;
    look_at(&tools, "live_explorer", &[("PAGE_URL", url.as_str())]).await?;
    is_over.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client??;
    }
    // When all requests are answered, the page must match Envoy's counters.
    look_at(&tools, "live_at_rest", &[("PAGE_URL", &url), ("STATS_URL", &site.envoy.admin_url("/stats?format=json"))])
        .await?;
    let Some(Site { cluster, envoy, .. }) = Arc::into_inner(site) else { return Ok(()) };
    envoy.stop().await?;
    cluster.stop().await
}
