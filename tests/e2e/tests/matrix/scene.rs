use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::{RealScene, wait_for_state};
use bulk_reshuffle_stack::{
    Client, Cluster, ClusterOptions, Distribution, Envoy, EnvoyOptions, FilterConfig, Response, SharedFolder, Tools,
    wait,
};
use bytes::Bytes;
use hyper::Request;
use serde_json::json;

use crate::kind::{Kind, Step};
use crate::older;

/// A limit far above the duration of any step here, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Starts three nodes of a distribution with all kinds that it supports, and Envoy in front of them.
pub async fn start(distribution: Distribution, kinds: &[Kind]) -> Result<RealScene> {
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
    for step in kinds.iter().flat_map(|kind| &kind.steps) {
        take(&client, &cluster, step).await?;
    }
    let mut options = EnvoyOptions::new(folder.path()).in_front_of(&cluster);
    // Later changes are detected only through hints in answers.
    options.filter = FilterConfig::Value(json!({"coordinator": "es", "cluster_state": {"refresh": "10m"}}));
    let envoy = Envoy::start(&tools, options).await?;
    wait_for_shards(&client, &cluster).await?;
    wait_for_state(&envoy, 1, LIMIT).await?;
    Ok(RealScene::of(cluster, envoy, folder))
}

/// Returns the index that a data stream writes to.
pub async fn last_index(scene: &RealScene, stream: &str) -> Result<String> {
    let state = scene.get("/_cluster/state/metadata?filter_path=metadata.data_stream").await?;
    let indices = &state["metadata"]["data_stream"]["data_stream"][stream]["indices"];
    let last = indices.as_array().and_then(|indices| indices.last()?["index_name"].as_str());
    Ok(last.context("there is no such data stream")?.to_owned())
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

async fn take(client: &Client, cluster: &Cluster, step: &Step) -> Result<()> {
    let request = Request::builder()
        .method(&step.method)
        .uri(format!("{}{}", cluster.base_url(0)?, step.path))
        .header("content-type", "application/json")
        .body(if step.body.is_null() { Bytes::new() } else { step.body.to_string().into() })?;
    client.send(request).await?.ok().with_context(|| step.path.clone()).map(|_| ())
}
