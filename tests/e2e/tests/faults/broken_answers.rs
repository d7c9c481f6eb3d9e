use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_e2e::load::{Load, Writer};
use bulk_reshuffle_stack::wait;
use serde_json::json;

use crate::cutter::Cutter;
use crate::fault_scene::Plan;

const LIMIT: Duration = Duration::from_secs(60);

/// If nothing of an answer arrived, operations that may be carried out twice are retried. Otherwise their outcome is
/// unknown.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_survives_connections_reset_before_and_within_answers() -> Result<()> {
    let plan = Plan::new("answers broken off").index("mixed", json!({})).index("idempotent", json!({}));
    let scene = plan.cut().start().await?;
    let mut mixed = scene.load("mixed", "");
    let mut idempotent = Load::start("idempotent", scene.writers("idempotent", "").map(Writer::idempotent));
    let (mixed_before, idempotent_before) = (mixed.steady_rate().await?, idempotent.steady_rate().await?);
    scene.cutters.iter().for_each(|cutter| cutter.cut(7));
    let cuts = || scene.cutters.iter().map(Cutter::cuts).sum::<usize>();
    wait::until(LIMIT, "answers to both loads are broken off", async || {
        let retried = scene.counted("batches_retried_total").await?;
        let unknown = mixed.tally.failed().contains_key(&503);
        Ok((cuts() >= 60 && unknown && retried >= 10).then_some(()))
    })
    .await?;
    scene.cutters.iter().for_each(|cutter| cutter.cut(0));
    let recovered = mixed.recovers(mixed_before).await?.max(idempotent.recovers(idempotent_before).await?);
    let retried = scene.counted("batches_retried_total").await?;
    println!("answers broken off: {} connections reset, {retried} batches retried", cuts());
    for tally in scene.end(vec![mixed, idempotent], recovered).await? {
        tally.check(&[503])?;
    }
    Ok(())
}
