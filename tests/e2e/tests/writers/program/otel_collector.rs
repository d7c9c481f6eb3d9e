//! The OpenTelemetry collector's exporter for Elasticsearch, which gets its data by OTLP.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::Distribution::{self, Elasticsearch8, Elasticsearch9};
use bulk_reshuffle_stack::{Process, port, wait};
use serde_json::{Value, json};

use super::{Place, Program, bare};
use crate::scene::LIMIT;
use crate::target::Target;
use crate::writer::{Run, Writer};

/// A kind of telemetry.
#[derive(Debug, Clone, Copy)]
pub enum Signal {
    Logs,
    Traces,
    Metrics,
}

/// The number of records in each OTLP request.
const IN_A_REQUEST: usize = 100;

/// The number of records in a run.
pub const RECORDS: usize = 1_000;

pub fn writers() -> Vec<Writer> {
    const ON: &[Distribution] = &[Elasticsearch8, Elasticsearch9];
    let of = |signal, configuration, target: Target| Writer {
        name: "OpenTelemetry collector 0.150",
        configuration,
        on: ON,
        targets: vec![target],
        run: Run::Program(Program::OtelCollector(signal)),
        documents: RECORDS,
        has_ids: false,
        volatile: &[],
    };
    let plain = |name| Target::stream(name, json!({}));
    // `otel-data` and `logs` of Elasticsearch, which the distributions for tests lack, have this pipeline.
    let processors = json!([
        {"set": {"field": "@timestamp", "value": "2026-11-23T00:00:00.000Z", "override": false}},
        {"pipeline": {"name": "logs@custom", "ignore_missing_pipeline": true}},
    ]);
    let piped = Target::stream("logs-generic.otel-default", json!({"index.default_pipeline": "logs@default-pipeline"}))
        .pipeline("logs@default-pipeline", processors);
    // Each line names one of these templates.
    let counter = json!([{"counter_long": {"mapping": {"type": "long"}}}]);
    let metrics = Target::stream_with("metrics-generic.otel-default", json!({}), counter);
    vec![
        of(Signal::Logs, "default: logs", piped),
        of(Signal::Traces, "default: traces", plain("traces-generic.otel-default")),
        of(Signal::Metrics, "default: metrics, without time series mode", metrics),
    ]
}

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
    fn request(self, numbers: std::ops::Range<usize>) -> Value {
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

pub async fn run(signal: Signal, place: &Place<'_>) -> Result<()> {
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
    let mut command: Command = bare(place.tools.folder("otel-collector")?.join("otel-collector"));
    command.args(["--config", &format!("file:{config}")]).current_dir(place.folder());
    let process = place.start("otel-collector", command)?;
    signal.send(place, &process, port).await?;
    process.stop().await
}
