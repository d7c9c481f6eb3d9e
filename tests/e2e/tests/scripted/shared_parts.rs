//! `envoy/parts`: files that several configurations share, and that Envoy reloads when they change.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_e2e::{ClusterScript, FakeCluster, Gate, Item, Reaction, ShippedFiles, check_filter};
use bulk_reshuffle_stack::{Client, Envoy, port, wait};

/// Replaces a file with a changed one, as `mv` does.
fn change(file: &Path, from: &str, to: &str) -> Result<()> {
    let (text, new) = (std::fs::read_to_string(file)?, file.with_extension("new"));
    assert!(text.contains(from), "{text}");
    std::fs::write(&new, text.replace(from, to))?;
    Ok(std::fs::rename(new, file)?)
}

/// Sends empty requests until one of the filter's counters is above zero.
async fn wait_for(envoy: &Envoy, counter: &str) -> Result<()> {
    let (client, name) = (Client::new(), format!("wasmcustom.bulk_reshuffle_{counter}"));
    wait::until(Duration::from_secs(15), counter, async || {
        client.post_ndjson(&envoy.url("/_bulk"), "\n").await?;
        Ok((envoy.counter(&name).await? > 0).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_filter_is_loaded_and_the_old_one_answers_its_held_requests() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = FakeCluster::start(ClusterScript::three_nodes()).await?;
    let files = ShippedFiles::new(folder.path())?.nodes(cluster.addresses());
    let envoy = files.port(9210, port::free()?).port(8125, port::free()?).start("rollout.yaml").await?;
    wait_for(&envoy, "state_loads_total").await?;
    cluster.forget();
    let gate = Gate::closed();
    let closed = gate.clone();
    cluster.react(move |request| match request.text().as_str() {
        "\n" => Reaction::items(),
        _ => Reaction::items().after(&closed),
    });
    let body = (0..3).map(|node| cluster.write_book(node, 4)).collect::<Result<String>>()?;
    let (client, url) = (Client::new(), envoy.url("/_bulk"));
    let held = tokio::spawn(async move { client.post_ndjson(&url, body).await });
    cluster.wait_for_bulks("a batch for each node", |batches| batches.len() == 3).await?;

    let filter = folder.path().join("envoy/parts/filter.yaml");
    change(&filter, "\"coordinator\"", "\"enabled\": false, \"coordinator\"")?;
    wait_for(&envoy, "requests_total.outcome.passed_through.reason.switched_off").await?;
    assert!(!held.is_finished());
    gate.open();
    let items = Item::read_all(&held.await??)?;
    let found: Vec<_> = items.iter().map(|item| (item.id.clone(), item.number(), item.status)).collect();
    let expected = (0..3).map(|node| (cluster.book(node, 4).unwrap(), Some(4), 201));
    assert_eq!(found, expected.collect::<Vec<_>>());
    check_filter(&envoy).await?;
    envoy.stop().await
}
