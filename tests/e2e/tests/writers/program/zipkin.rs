//! Zipkin's server with its storage in Elasticsearch or OpenSearch.

use anyhow::{Context, Result};
use bulk_reshuffle_stack::Distribution::{Elasticsearch7_17, Elasticsearch8, Elasticsearch9, OpenSearch2, OpenSearch3};
use bulk_reshuffle_stack::{port, wait};
use serde_json::{Value, json};

use super::{Place, Program};
use crate::scene::LIMIT;
use crate::target::Target;
use crate::writer::{Run, Writer};

/// The number of spans in each request to Zipkin, each of which becomes a bulk request.
const IN_A_REQUEST: usize = 100;

/// The number of spans in a run.
const SPANS: usize = 1_000;

pub fn writers() -> Vec<Writer> {
    // Zipkin adds a template that leaves the words for searches out of the source. It comes too late for the first run.
    let mappings = json!({"_source": {"excludes": ["_q"]}});
    vec![Writer {
        name: "Zipkin 3.6",
        configuration: "default: index with a date",
        // To OpenSearch 1, Zipkin writes the type `span`, which an index with `_doc` refuses.
        on: &[Elasticsearch7_17, Elasticsearch8, Elasticsearch9, OpenSearch2, OpenSearch3],
        targets: vec![Target::index_with("zipkin-span-2026-11-23", json!({}), mappings)],
        run: Run::Program(Program::Zipkin),
        documents: SPANS,
        has_ids: true,
        volatile: &[],
    }]
}

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
