//! `func-e run -c envoy/envoy.yaml`, without a network.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_e2e::{ClusterScript, FakeCluster, ShippedFiles, check_filter};
use bulk_reshuffle_stack::{Client, Envoy, Launcher, Tools};

/// Sends a request with an operation for each node, which must be split and answered.
async fn check_split(envoy: &Envoy, cluster: &FakeCluster) -> Result<()> {
    envoy.wait_for_state(Duration::from_secs(15)).await?;
    cluster.forget();
    let answer = Client::new().post_ndjson(&envoy.url("/_bulk"), cluster.write_books(4)).await?;
    cluster.check_books(4, &answer)?;
    assert_eq!(cluster.bulks().iter().map(|batch| batch.node).collect::<BTreeSet<_>>(), [0, 1, 2].into());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn func_e_starts_the_shipped_configuration_with_the_pinned_envoy() -> Result<()> {
    if std::env::var_os("ENVOY").is_some() {
        return Ok(()); // func-e looks for the pinned release.
    }
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
