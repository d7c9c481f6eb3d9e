//! Clients that never complete their requests, or disconnect.

use anyhow::Result;
use bulk_reshuffle_e2e::RawClient;

use crate::bodies::Operations;
use crate::trial::{Cost, HOSTILE, Plan, Trial};

/// Opens connections that each send this part of a body of this length.
async fn begin(trial: &Trial, number: usize, body: &[u8], length: usize) -> Result<Vec<RawClient>> {
    let mut clients = Vec::new();
    for _ in 0..number {
        let mut client = RawClient::connect(trial.scene.envoy.addr()).await?;
        let framing = format!("authorization: {HOSTILE}\r\ncontent-length: {length}");
        client.send_head("/i/_bulk", &framing).await?;
        client.send(body).await?;
        clients.push(client);
    }
    Ok(clients)
}

#[tokio::test(flavor = "multi_thread")]
async fn incomplete_requests_do_not_delay_other_clients() -> Result<()> {
    const REQUESTS: usize = 300;
    let operations = Operations::documents(100, 100);
    let plan = Plan::new("300 requests that are never completed");
    plan.run(async |trial| {
        let clients = begin(trial, REQUESTS, &operations.body, 10_000_000).await?;
        trial.wait_for_count("memory_bytes", REQUESTS * operations.body.len()).await?;
        trial.wait_for_neighbour().await;
        drop(clients);
        Ok(Cost { wire: REQUESTS * operations.body.len(), got: "nothing".into() })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_disconnect_while_held_leave_no_memory_behind() -> Result<()> {
    const REQUESTS: usize = 1_000;
    const IN_FLIGHT: usize = 10;
    let operations = Operations::documents(50, 20);
    let plan = Plan::new("1,000 clients that disconnect while their requests are held");
    plan.run(async |trial| {
        trial.hold();
        let clients = begin(trial, REQUESTS, &operations.body, operations.body.len()).await?;
        trial.wait_for_requests(REQUESTS, &operations).await?;
        drop(clients);
        // All requests except those with a share in flight.
        trial.wait_for_count("requests_total.outcome.abandoned", REQUESTS - IN_FLIGHT).await?;
        trial.wait_for_neighbour().await;
        trial.gate.open();
        Ok(Cost { wire: REQUESTS * operations.body.len(), got: "nothing".into() })
    })
    .await
}
