//! Programs that get their data by OTLP: the OpenTelemetry collector with its exporter for Elasticsearch, and Jaeger's
//! collector with its storage in Elasticsearch or OpenSearch.

use std::ops::Range;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::{Process, port, wait};
use serde::Deserialize;
use serde_json::{Value, json};

use super::program::Place;
use crate::execution::{LIMIT, bare};

/// A kind of telemetry.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    Logs,
    Traces,
    Metrics,
}

/// The number of records in each OTLP request.
const IN_A_REQUEST: usize = 100;

/// The number of records in a run.
const RECORDS: usize = 1_000;

impl Signal {
    /// Sends all records by OTLP to a program, and waits until they are indexed.
    pub async fn send(self, place: &Place<'_>, process: &Process, port: u16) -> Result<()> {
        let url = format!("http://127.0.0.1:{port}/v1/{}", self.name());
        let client = &place.scene.client;
        wait::until(LIMIT, "the program listens", async || {
            process.ensure_running()?;
            Ok(client.get(&url).await.ok())
        })
        .await
        .with_context(|| process.log_extract())?;
        for first in (0..RECORDS).step_by(IN_A_REQUEST) {
            let answer = client.post_json(&url, &self.request(first..first + IN_A_REQUEST)).await?.ok()?;
            ensure!(!answer.text().contains("rejected"), "{}", answer.text());
        }
        place.wait_written(process).await
    }

    fn name(self) -> &'static str {
        match self {
            Self::Logs => "logs",
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }

    /// Returns an OTLP request with the records of these numbers.
    fn request(self, numbers: Range<usize>) -> Value {
        let nanoseconds = |n: usize| format!("{}", 1_795_435_200_000_000_000 + 1_000_000 * n as u64);
        let attributes = |n: usize| json!([{"key": "n", "value": {"stringValue": n.to_string()}}]);
        let resource = json!({"attributes": [{"key": "service.name", "value": {"stringValue": "books"}}]});
        let scope = json!({"name": "tests"});
        let records: Value = match self {
            Self::Logs => numbers
                .map(|n| {
                    json!({
                        "timeUnixNano": nanoseconds(n), "severityText": "INFO", "attributes": attributes(n),
                        "body": {"stringValue": format!("line {n}")},
                    })
                })
                .collect(),
            Self::Traces => numbers
                .map(|n| {
                    json!({
                        "traceId": format!("{:032x}", n + 1), "spanId": format!("{:016x}", n + 1), "name": "GET",
                        "kind": 2, "startTimeUnixNano": nanoseconds(n), "endTimeUnixNano": nanoseconds(n + 1),
                        "attributes": attributes(n),
                    })
                })
                .collect(),
            Self::Metrics => numbers
                .map(|n| {
                    let point = json!({
                        "timeUnixNano": nanoseconds(n), "startTimeUnixNano": nanoseconds(0), "asInt": n.to_string(),
                        "attributes": attributes(n),
                    });
                    let sum = json!({"aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [point]});
                    json!({"name": "books.views", "unit": "1", "sum": sum})
                })
                .collect(),
        };
        let (outer, inner, list) = match self {
            Self::Logs => ("resourceLogs", "scopeLogs", "logRecords"),
            Self::Traces => ("resourceSpans", "scopeSpans", "spans"),
            Self::Metrics => ("resourceMetrics", "scopeMetrics", "metrics"),
        };
        json!({outer: [{"resource": resource, inner: [{"scope": scope, list: records}]}]})
    }
}

pub async fn collector(signal: Signal, place: &Place<'_>) -> Result<()> {
    let port = port::free()?;
    let config = json!({
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": format!("127.0.0.1:{port}")}}}},
        "exporters": {"elasticsearch": {"endpoint": place.url}},
        "service": {
            "pipelines": {signal.name(): {"receivers": ["otlp"], "exporters": ["elasticsearch"]}},
            "telemetry": {"metrics": {"level": "none"}},
        },
    });
    let config = place.write("otel-collector.json", &config.to_string())?;
    let mut command = bare(place.tools.folder("otel-collector")?.join("otel-collector"));
    command.args(["--config", &format!("file:{config}")]).current_dir(place.folder());
    let process = place.start("otel-collector", command)?;
    signal.send(place, &process, port).await?;
    process.stop().await
}

pub async fn jaeger(place: &Place<'_>) -> Result<()> {
    let ports = port::free_ports(5)?;
    let address = |number: usize| format!("127.0.0.1:{}", ports[number]);
    let mut command = bare(place.tools.folder("jaeger")?.join("jaeger"));
    command.env("SPAN_STORAGE_TYPE", "elasticsearch").env("ES_SERVER_URLS", place.url).current_dir(place.folder());
    for (number, option) in [
        "collector.otlp.http.host-port",
        "collector.otlp.grpc.host-port",
        "collector.http-server.host-port",
        "collector.grpc-server.host-port",
        "admin.http.host-port",
    ]
    .into_iter()
    .enumerate()
    {
        command.arg(format!("--{option}={}", address(number)));
    }
    command.arg("--collector.otlp.enabled=true");
    let process = place.start("jaeger", command)?;
    Signal::Traces.send(place, &process, ports[0]).await?;
    process.stop().await
}
