//! `func-e run -c envoy/envoy.yaml`, without a network.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_e2e::{ClusterScript, FakeCluster, Item, ShippedFiles, check_filter};
use bulk_reshuffle_stack::{Client, Envoy, Launcher, Tools, wait};

/// Sends a request with an operation for each node, which must be split and answered.
async fn check_split(envoy: &Envoy, cluster: &FakeCluster) -> Result<()> {
    let client = Client::new();
    wait::until(Duration::from_secs(15), "the filter knows the state", async || {
        client.post_ndjson(&envoy.url("/_bulk"), "\n").await?;
        let loads = envoy.counter("wasmcustom.bulk_reshuffle_state_loads_total").await?;
        Ok((loads > 0).then_some(()))
    })
    .await?;
    cluster.forget();
    let body = (0..3).map(|node| cluster.write_book(node, 4)).collect::<Result<String>>()?;
    let items = Item::read_all(&client.post_ndjson(&envoy.url("/_bulk"), body).await?)?;
    let found: Vec<_> = items.iter().map(|item| (item.id.clone(), item.number(), item.status)).collect();
    let expected = (0..3).map(|node| (cluster.book(node, 4).unwrap(), Some(4), 201));
    assert_eq!(found, expected.collect::<Vec<_>>());
    assert_eq!(cluster.bulks().iter().map(|batch| batch.node).collect::<BTreeSet<_>>(), [0, 1, 2].into());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn func_e_starts_the_shipped_configuration_with_the_pinned_envoy() -> Result<()> {
    let pinned = std::fs::read_to_string(Tools::find()?.root.join(".envoy-version"))?;
    for launcher in [Launcher::FuncE, Launcher::FuncEWithPath] {
        let folder = tempfile::tempdir()?;
        let cluster = FakeCluster::start(ClusterScript::three_nodes()).await?;
        let files = ShippedFiles::new(folder.path())?.nodes(cluster.addresses());
        let envoy = files.launcher(launcher).start("envoy.yaml").await?;
        let info = Client::new().get_json(&envoy.admin_url("/server_info")).await?;
        let version = info["version"].as_str().unwrap();
        assert!(version.contains(&format!("/{}/", pinned.trim())), "{version} is not {pinned}");
        check_split(&envoy, &cluster).await?;
        check_filter(&envoy).await?;
        envoy.stop().await?;
    }
    Ok(())
}
