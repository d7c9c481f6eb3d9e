use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::fault_scene::{FaultScene, Plan};

/// How long the nodes refuse every request.
const REFUSE: Duration = Duration::from_secs(10);

impl FaultScene {
    /// Makes the nodes refuse every body larger than this with 429.
    async fn limit_requests(&self, limit: Value) -> Result<()> {
        self.set(json!({"network.breaker.inflight_requests.limit": limit})).await
    }

    /// Makes the nodes refuse every request for a while.
    async fn refuse(&self) -> Result<()> {
        self.limit_requests(json!("100b")).await?;
        // The duration is part of the test.
        tokio::time::sleep(REFUSE).await;
        self.limit_requests(Value::Null).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patient_filter_retries_while_nodes_refuse_every_request() -> Result<()> {
    let retry = json!({"attempts": 20, "max_backoff": "1s"});
    let scene = Plan::new("all refused, patient").index("refused", json!({})).config("retry", retry).start().await?;
    let mut load = scene.load("refused", "");
    let before = load.steady_rate().await?;
    scene.refuse().await?;
    let recovered = load.recovers(before).await?;
    println!("all refused, patient: {} batches retried", scene.counted("batches_retried_total").await?);
    ensure!(scene.counted("batches_retried_total").await? > 0, "nothing was refused");
    scene.end(vec![load], recovered).await?.iter().try_for_each(|tally| tally.check(&[]))
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_get_429_while_nodes_refuse_every_request() -> Result<()> {
    let scene = Plan::new("all refused, as shipped").index("refused", json!({})).start().await?;
    let mut load = scene.load("refused", "");
    let before = load.steady_rate().await?;
    scene.refuse().await?;
    let end = Instant::now();
    load.recovers(before).await?;
    let tally = load.tally.clone();
    scene.end(vec![load], end.elapsed()).await?;
    ensure!(tally.failed().contains_key(&429), "no request was refused");
    tally.check(&[429])
}
