//! Zipkin's server with its storage in Elasticsearch or OpenSearch.

use anyhow::{Context, Result};
use bulk_reshuffle_stack::{port, wait};
use serde_json::{Value, json};

use super::program::Place;
use crate::execution::LIMIT;

/// The number of spans in each request to Zipkin, each of which becomes a bulk request.
const IN_A_REQUEST: usize = 100;

/// The number of spans in a run.
const SPANS: usize = 1_000;

pub async fn run(place: &Place<'_>) -> Result<()> {
    let port = port::free()?;
    let mut command = place.java();
    command
        .arg("-jar")
        .arg(place.tools.folder("zipkin")?.join("zipkin-server-3.6.1.jar"))
        .arg(format!("--armeria.ports[0].port={port}"))
        .args(["--armeria.ports[0].ip=127.0.0.1", "--armeria.ports[0].protocols[0]=http"])
        .env("STORAGE_TYPE", "elasticsearch")
        .env("ES_HOSTS", place.url);
    let process = place.start("zipkin", command)?;
    let (client, url) = (&place.scene.client, format!("http://127.0.0.1:{port}"));
    wait::until(LIMIT, "Zipkin is healthy", async || {
        process.ensure_running()?;
        let answer = client.get(&format!("{url}/health")).await;
        Ok(answer.ok().filter(|answer| answer.status.is_success()))
    })
    .await
    .with_context(|| process.log_extract())?;
    for first in (0..SPANS).step_by(IN_A_REQUEST) {
        let spans: Value = (first..first + IN_A_REQUEST).map(span).collect();
        client.post_json(&format!("{url}/api/v2/spans"), &spans).await?.ok()?;
    }
    place.wait_written(&process).await?;
    process.stop().await
}

/// Returns a span in Zipkin's own format.
fn span(n: usize) -> Value {
    json!({
        "traceId": format!("{:032x}", n + 1), "id": format!("{:016x}", n + 1), "name": "get", "kind": "SERVER",
        "timestamp": 1_795_435_200_000_000_u64 + 1_000 * n as u64, "duration": 1_000,
        "localEndpoint": {"serviceName": "books"}, "tags": {"n": n.to_string()},
    })
}
