use std::time::Duration;

use anyhow::Result;
use bulk_reshuffle_e2e::load::{Load, Writer};
use bulk_reshuffle_stack::wait;
use serde_json::json;

use crate::fault_scene::Plan;

const LIMIT: Duration = Duration::from_secs(60);

/// The node's operations time out with an unknown outcome, since the node may carry them out when it resumes.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_survives_a_node_that_hangs_and_resumes() -> Result<()> {
    let elsewhere = json!({"number_of_shards": 1, "routing.allocation.require._name": "es-0"});
    let plan = Plan::new("node hung").alone().index("spread", json!({})).index("elsewhere", elsewhere);
    let mut scene = plan.config("dispatch", json!({"timeout": "10s"})).start().await?;
    let mut spread = scene.load("spread", "");
    // No documents without an id: those go to any node, including the hung one. Small requests only, because a large one
    // may itself take longer than the time-out on a slow machine.
    let mut elsewhere = Load::start("elsewhere", scene.writers("elsewhere", "").take(8).map(Writer::idempotent));
    let (spread_before, elsewhere_before) = (spread.steady_rate().await?, elsewhere.steady_rate().await?);
    scene.backend.cluster()?.pause(1)?;
    let time_out = async || Ok(spread.tally.failed().contains_key(&504).then_some(()));
    wait::until(LIMIT, "requests time out", time_out).await?;
    // A client that writes nothing to the hung node is not affected.
    let meanwhile = elsewhere.recovers(elsewhere_before).await?;
    scene.backend.cluster()?.resume(1)?;
    let recovered = spread.recovers(spread_before).await?;
    println!(
        "node hung: {elsewhere_before:.0} operations per second to another node, also {meanwhile:.1?} after a time-out"
    );
    let tallies = scene.end(vec![spread, elsewhere], recovered).await?;
    tallies[0].check(&[504])?;
    tallies[1].check(&[])
}
