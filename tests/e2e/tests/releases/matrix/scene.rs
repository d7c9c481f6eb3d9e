use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_e2e::RealScene;
use bulk_reshuffle_stack::{
    Client, Cluster, ClusterOptions, Distribution, Envoy, EnvoyOptions, FilterConfig, Response, SharedFolder, Tools,
    wait,
};
use serde_json::json;

use super::kind::Kind;
use super::older;

/// A limit far above the duration of any step here, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Starts three nodes of a distribution with all kinds that it supports, and Envoy in front of them.
pub async fn start(distribution: Distribution, kinds: &[&Kind]) -> Result<RealScene> {
    let (tools, folder, snapshots) = (Tools::find()?, tempfile::tempdir()?, SharedFolder::new()?);
    let mut options = ClusterOptions { distribution, ..ClusterOptions::new(folder.path().join("nodes")) };
    options.settings.extend([
        older::settings(&snapshots),
        // Some requests have many routing values.
        ("http.max_initial_line_length".into(), json!("64kb")),
        ("cluster.routing.rebalance.enable".into(), json!("none")),
        // A check of disk usage would remove `read_only_allow_delete`.
        ("cluster.info.update.interval".into(), json!("1h")),
    ]);
    let (cluster, ()) = tokio::try_join!(
        Cluster::start(&tools, options),
        older::snapshot(&tools, distribution, &snapshots, folder.path())
    )?;
    let client = Client::new();
    if older::release(distribution).is_some() {
        older::restore(&client, &cluster.base_url(0)?, &snapshots).await?;
    }
    for step in kinds.iter().flat_map(|kind| kind.steps(distribution)) {
        step.take(&client, &cluster.base_url(0)?).await?;
    }
    let mut options = EnvoyOptions::new(folder.path()).in_front_of(&cluster);
    // Later changes are detected only through hints in answers.
    options.filter = FilterConfig::Value(json!({"coordinator": "es", "cluster_state": {"refresh": "10m"}}));
    let envoy = Envoy::start(&tools, options).await?;
    wait_for_shards(&client, &cluster).await?;
    envoy.wait_for_state(LIMIT).await?;
    Ok(RealScene::of(cluster, envoy, folder))
}

/// Returns the filter's counters, without the common prefix of their names.
pub async fn counts(scene: &RealScene) -> Result<BTreeMap<String, u64>> {
    let stats = scene.envoy.stats_with("bulk_reshuffle_").await?;
    let short = |(name, value): (String, u64)| Some((name.split_once("bulk_reshuffle_")?.1.to_owned(), value));
    Ok(stats.into_iter().filter_map(short).collect())
}

async fn wait_for_shards(client: &Client, cluster: &Cluster) -> Result<()> {
    let path = "/_cluster/health?wait_for_no_initializing_shards=true&timeout=1s";
    let url = format!("{}{path}", cluster.base_url(0)?);
    wait::until(LIMIT, "all shards have started", async || Ok(client.get(&url).await.and_then(Response::ok).ok()))
        .await
        .map(|_| ())
}
