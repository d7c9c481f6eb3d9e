use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::check_filter;
use bulk_reshuffle_e2e::load::Load;
use bulk_reshuffle_stack::wait;
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::fault_scene::{Plan, counted};

const LIMIT: Duration = Duration::from_secs(60);

impl Backend {
    /// Makes the nodes refuse every body larger than this with 429.
    async fn limit_requests(&self, limit: Value) -> Result<()> {
        self.set(json!({"network.breaker.inflight_requests.limit": limit})).await
    }
}

/// The nodes refuse for longer than the shipped configuration retries.
#[tokio::test(flavor = "multi_thread")]
async fn while_nodes_refuse_every_request_a_patient_filter_retries_and_other_clients_get_429() -> Result<()> {
    let plan = Plan::new("all refused").alone().index("refused", json!({})).index("retried", json!({}));
    let scene = plan.start().await?;
    let retry = json!({"coordinator": "es", "retry": {"attempts": 40, "max_backoff": "1s"}});
    let patient = scene.start_beside("patient", &retry).await?;
    let mut refused = scene.load("refused", "");
    let mut retried = Load::start("retried", scene.writers_to(&patient, "retried", ""));
    let (refused_before, retried_before) = (refused.steady_rate().await?, retried.steady_rate().await?);
    scene.backend.limit_requests(json!("100b")).await?;
    wait::until(LIMIT, "the shipped filter gives up, and the patient one retries", async || {
        let retries = counted(&patient, "batches_retried_total").await?;
        Ok((retries > 0 && refused.tally.failed().contains_key(&429)).then_some(()))
    })
    .await?;
    scene.backend.limit_requests(Value::Null).await?;
    let end = Instant::now();
    retried.recovers(retried_before).await?;
    refused.recovers(refused_before).await?;
    let recovered = end.elapsed();
    println!("all refused: {} batches retried", counted(&patient, "batches_retried_total").await?);
    let tallies = scene.verify(vec![refused, retried]).await?;
    check_filter(&patient).await?;
    patient.stop().await?;
    scene.stop(recovered).await?;
    ensure!(tallies[0].failed().contains_key(&429), "no request was refused");
    tallies[0].check(&[429])?;
    tallies[1].check(&[])
}
