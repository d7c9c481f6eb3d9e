//! Jaeger's collector with its storage in Elasticsearch or OpenSearch.

use anyhow::Result;
use bulk_reshuffle_stack::port;

use super::otel_collector::{RECORDS, Signal};
use super::{Place, Program, bare};
use crate::RELEASES;
use crate::target::Target;
use crate::writer::{Run, Writer};

pub fn writers() -> Vec<Writer> {
    vec![Writer {
        name: "Jaeger 1.76",
        configuration: "default: indices with a date",
        on: &RELEASES,
        targets: vec![Target::index("jaeger-span-2026-11-23"), Target::index("jaeger-service-2026-11-23")],
        run: Run::Program(Program::Jaeger),
        // One document describes the service.
        documents: RECORDS + 1,
        has_ids: false,
        volatile: &[],
    }]
}

pub async fn run(place: &Place<'_>) -> Result<()> {
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
