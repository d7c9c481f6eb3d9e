//! Answers that are larger than the largest answer to a callout that Envoy keeps.

use anyhow::Result;

use crate::bodies::Operations;
use crate::trial::{Cost, Plan, expect_items};

#[tokio::test(flavor = "multi_thread")]
async fn each_of_640_000_deletes_gets_the_item_of_its_node() -> Result<()> {
    // Each document twice, so that the order of operations is observable.
    let operations = Operations::deletes(640_000, (0..320_000).map(|id| id.to_string()));
    let plan = Plan::new("640,000 deletes with ids");
    plan.run(async |trial| {
        let answer = trial.send("/i/_bulk", &[], operations.body.clone()).await?;
        let got = format!("{}, {}", expect_items(&answer, &operations.ids, 200)?, trial.way().await?);
        Ok(Cost { wire: operations.body.len(), got })
    })
    .await
}
