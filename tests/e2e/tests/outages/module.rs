//! The filter's module replaced while Envoy runs, and a module that does not load.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::{Client, Envoy, EnvoyOptions, Tools, wait};

use crate::LIMIT;
use crate::modules::Modules;
use crate::rollout::Rollout;
use crate::scene::Scene;
use crate::work::Work;
use crate::writers::Pace;

const PACE: Pace = Pace { writers: 4, period: Duration::from_millis(100) };

/// The time between two changes.
const BETWEEN: Duration = Duration::from_secs(2);

/// The counters of modules that Envoy has adopted, or rejected.
const ADOPTED: &str = "extension_config_discovery.http_filter.bulk_reshuffle.update_success";
const REJECTED: &str = "extension_config_discovery.http_filter.bulk_reshuffle.update_rejected";

const MERGED: &str = "wasmcustom.bulk_reshuffle_requests_total.outcome.merged";

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_with_the_filter_in_its_own_file_does_not_start_with_a_broken_module() -> Result<()> {
    let scene = Scene::start("module").await?;
    let folder = tempfile::tempdir()?;
    let options = EnvoyOptions::new(folder.path()).in_front_of(&scene.stage.cluster);
    let wasm = Some(Modules::make(folder.path())?.broken);
    let failed = Envoy::start(&Tools::find()?, EnvoyOptions { wasm, ..options }).await.err();
    let message = format!("{:#}", failed.context("Envoy has started")?);
    ensure!(message.contains("Unable to create Wasm plugin bulk_reshuffle"), "{message}");
    scene.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_with_the_filter_in_a_part_starts_with_a_broken_module() -> Result<()> {
    let scene = Scene::start("module").await?;
    let modules = Modules::make(&scene.stage.folder)?;
    let mut rollout = Rollout::start(&scene.stage, &modules.broken).await?;
    let statuses = rollout.statuses().await?;
    ensure!(statuses == [200, 200], "{statuses:?}");
    ensure!(rollout.envoy.counter(MERGED).await? == 0, "the broken module has split requests");
    rollout.set_module(&modules.compiled, ADOPTED).await?;
    let splits = async || {
        rollout.statuses().await?;
        Ok((rollout.envoy.counter(MERGED).await? > 0).then_some(()))
    };
    wait::until(LIMIT, "the filter splits requests", splits).await?;
    rollout.envoy.stop().await?;
    Client::new().delete(&format!("{}/{}", scene.stage.cluster.base_url(0)?, Rollout::WRITTEN)).await?.ok()?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_is_replaced_and_restored_under_load() -> Result<()> {
    let mut scene = Scene::start("module").await?;
    let modules = Modules::make(&scene.stage.folder)?;
    let mut rollout = Rollout::start(&scene.stage, &modules.compiled).await?;
    rollout.envoy.wait_for_state(LIMIT).await?;
    let writers = scene.write(&rollout.ways(), &[Work::Index, Work::Create], 1, PACE).await?;
    for (module, counter) in [(&modules.other, ADOPTED), (&modules.broken, REJECTED), (&modules.compiled, ADOPTED)] {
        rollout.set_module(module, counter).await?;
        // The time without an event is part of the test.
        tokio::time::sleep(BETWEEN).await;
        rollout.wait_counted(MERGED, rollout.envoy.counter(MERGED).await?).await?;
    }
    for outcome in scene.read(writers).await? {
        outcome.print("the module is replaced");
        ensure!(outcome.noticed.failed() == 0, "{}: {}", outcome.way.name, outcome.noticed);
    }
    for (name, count) in rollout.envoy.stats_with("vm_reload").await? {
        ensure!(count == 0, "{name} is {count}");
    }
    rollout.envoy.stop().await?;
    scene.end().await
}
