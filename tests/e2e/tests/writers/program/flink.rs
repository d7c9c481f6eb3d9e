//! Flink with its connectors, in one process.

use anyhow::Result;
use bulk_reshuffle_stack::Distribution::{Elasticsearch7_17, OpenSearch1, OpenSearch2, OpenSearch3};

use super::{ENTRIES, Place, Program};
use crate::target::Target;
use crate::writer::{Run, Writer};

/// A connector.
#[derive(Debug, Clone, Copy)]
pub enum Connector {
    Elasticsearch,
    OpenSearch,
}

pub fn writers() -> Vec<Writer> {
    let of = |connector, name, configuration, on| Writer {
        name,
        configuration,
        on,
        targets: vec![Target::index("books")],
        run: Run::Program(Program::Flink(connector)),
        documents: ENTRIES,
        has_ids: true,
        volatile: &[],
    };
    vec![
        of(
            Connector::Elasticsearch,
            "Flink 1.20, Elasticsearch connector 3.0",
            "`Elasticsearch7SinkBuilder`",
            // The client in this connector cannot read items without `_type`.
            &[Elasticsearch7_17],
        ),
        of(
            Connector::OpenSearch,
            "Flink 1.20, OpenSearch connector 2.0",
            "`Opensearch2SinkBuilder`",
            &[OpenSearch1, OpenSearch2, OpenSearch3],
        ),
    ]
}

pub async fn run(connector: Connector, place: &Place<'_>) -> Result<()> {
    let tool = match connector {
        Connector::Elasticsearch => "flink-elasticsearch",
        Connector::OpenSearch => "flink-opensearch",
    };
    place.run_java(tool, &[&place.writer.documents.to_string(), place.url]).await
}
