//! `envoy/parts`: files that several configurations share, and that Envoy reloads when they change.

use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_e2e::{ClusterScript, FakeCluster, ShippedFiles, check_filter, replace_in_file};
use bulk_reshuffle_stack::{Client, port, wait};

const LIMIT: Duration = Duration::from_secs(15);

const SWITCHED_OFF: &str = "wasmcustom.bulk_reshuffle_requests_total.outcome.passed_through.reason.switched_off";

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_filter_is_loaded_and_the_old_one_answers_its_held_requests() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = FakeCluster::start(ClusterScript::three_nodes()).await?;
    let files = ShippedFiles::new(folder.path())?.nodes(cluster.addresses());
    let envoy = files.port(9210, port::free()?).port(8125, port::free()?).start("rollout.yaml").await?;
    envoy.wait_for_state(LIMIT).await?;
    cluster.forget();
    let (gate, body) = (cluster.hold_if(|request| request.text() != "\n"), cluster.write_books(4));
    let (client, url) = (Client::new(), envoy.url("/_bulk"));
    let held = tokio::spawn(async move { client.post_ndjson(&url, body).await });
    cluster.wait_for_bulks("a batch for each node", |batches| batches.len() == 3).await?;

    let filter = folder.path().join("envoy/parts/filter.yaml");
    replace_in_file(&filter, "\"coordinator\"", "\"enabled\": false, \"coordinator\"")?;
    wait::until(LIMIT, "requests pass through", async || {
        Client::new().post_ndjson(&envoy.url("/_bulk"), "\n").await?;
        Ok((envoy.counter(SWITCHED_OFF).await? > 0).then_some(()))
    })
    .await?;
    assert!(!held.is_finished());
    gate.open();
    cluster.check_books(4, &held.await??)?;
    check_filter(&envoy).await?;
    envoy.stop().await
}
