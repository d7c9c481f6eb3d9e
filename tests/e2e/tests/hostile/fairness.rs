//! A client whose requests a node does not answer, and the other clients of that node.

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::Recorded;
use serde_json::json;

use crate::bodies::Operations;
use crate::trial::{Cost, Plan, expect_items};

/// The limit of concurrent batches of one identity at a node.
const SLOTS: usize = 16;

/// Sends requests of one identity, each with a different `x-opaque-id`, which the nodes do not answer. None becomes late.
async fn hang(requests: usize, paths: &[&str]) -> Result<()> {
    let plan = Plan::new(format!("{requests} requests to {} that hang", paths.join(" and ")));
    run(plan, requests, paths, SLOTS).await
}

/// Runs the plan, and checks that at most this many batches for each node and path are in flight.
async fn run(plan: Plan, requests: usize, paths: &[&str], most: usize) -> Result<()> {
    plan.run(async |trial| {
        trial.hold();
        let operations = Operations::documents(50, 10);
        let begin = |(number, path): (usize, &&str)| {
            let number = number.to_string();
            trial.begin(path, &[("x-opaque-id", &number)], operations.body.clone())
        };
        let answers: Vec<_> = (0..requests).zip(paths.iter().cycle()).map(begin).collect();
        trial.wait_for_requests(requests, &operations).await?;
        trial.wait_for_neighbour().await;
        for node in 0..2 {
            for path in paths {
                let at_node = |batch: &&Recorded| batch.node == node && batch.target == **path;
                let found = trial.arrived().iter().filter(at_node).count();
                ensure!((1..=most).contains(&found), "{found} concurrent batches of {path} at es-{node}");
            }
        }
        trial.gate.open();
        for answer in answers {
            expect_items(&answer.get().await?, &operations.ids, 201)?;
        }
        ensure!(trial.way().await? == "split", "{}", trial.way().await?);
        Ok(Cost { wire: requests * operations.body.len(), got: format!("200, {requests} × 50 items, split") })
    })
    .await
}

const PLAIN: &str = "/i/_bulk";
const WAITING: &str = "/i/_bulk?refresh=wait_for";

#[tokio::test(flavor = "multi_thread")]
async fn others_do_not_wait_for_64_requests_that_hang() -> Result<()> {
    hang(64, &[PLAIN]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn others_do_not_wait_for_64_requests_that_wait_for_a_refresh() -> Result<()> {
    hang(64, &[WAITING]).await
}

/// As many late batches as there are slots give their slots back.
#[tokio::test(flavor = "multi_thread")]
async fn others_do_not_wait_for_64_requests_whose_batches_are_late() -> Result<()> {
    let plan = Plan::new("64 requests to /i/_bulk that hang and are late".to_owned());
    let plan = plan.config(json!({"hold": {"late_after": "10ms"}}));
    run(plan, 64, &[PLAIN], 2 * SLOTS).await
}

#[tokio::test(flavor = "multi_thread")]
async fn others_do_not_wait_for_500_requests_of_both_kinds() -> Result<()> {
    hang(500, &[PLAIN, WAITING]).await
}
