//! A client whose requests a node does not answer, and the other clients of that node.

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::Recorded;
use serde_json::json;

use crate::bodies::Operations;
use crate::trial::{Cost, Plan};

/// The limit of concurrent batches of one identity at a node.
const SLOTS: usize = 16;

/// Sends requests of one identity, each with a different `x-opaque-id`, which the nodes do not answer. Checks that at
/// most this many batches for each node and path are in flight.
async fn run(plan: Plan, requests: usize, paths: &[&str], most: usize) -> Result<()> {
    plan.run(async |trial| {
        trial.hold();
        let operations = Operations::documents(50, 10);
        let begin = |(number, path): (usize, &&str)| {
            let number = number.to_string();
            trial.begin(path, &[("x-opaque-id", &number)], operations.body.clone())
        };
        let held = trial.hold_all((0..requests).zip(paths.iter().cycle()).map(begin), &operations).await?;
        for node in 0..2 {
            for path in paths {
                let at_node = |batch: &&Recorded| batch.node == node && batch.target == **path;
                let found = trial.arrived().iter().filter(at_node).count();
                ensure!((1..=most).contains(&found), "{found} concurrent batches of {path} at es-{node}");
            }
        }
        let got = trial.release(held, &operations.ids, &[201]).await?;
        ensure!(got == format!("200, {requests} × 50 items, split"), "{got}");
        Ok(Cost { wire: requests * operations.body.len(), got })
    })
    .await
}

const PLAIN: &str = "/i/_bulk";
const WAITING: &str = "/i/_bulk?refresh=wait_for";

/// None becomes late.
#[tokio::test(flavor = "multi_thread")]
async fn others_do_not_wait_for_requests_that_hang_or_wait_for_a_refresh() -> Result<()> {
    for (requests, paths) in [(64, &[PLAIN][..]), (64, &[WAITING]), (500, &[PLAIN, WAITING])] {
        let plan = Plan::new(format!("{requests} requests to {} that hang", paths.join(" and ")));
        run(plan, requests, paths, SLOTS).await?;
    }
    Ok(())
}

/// As many late batches as there are slots give their slots back.
#[tokio::test(flavor = "multi_thread")]
async fn others_do_not_wait_for_64_requests_whose_batches_are_late() -> Result<()> {
    let plan = Plan::new("64 requests to /i/_bulk that hang and are late".to_owned());
    let plan = plan.config(json!({"hold": {"late_after": "10ms"}}));
    run(plan, 64, &[PLAIN], 2 * SLOTS).await
}
