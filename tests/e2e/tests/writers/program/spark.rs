//! Spark with elasticsearch-spark, in one process.

use anyhow::Result;
use bulk_reshuffle_stack::Distribution::{Elasticsearch7_17, Elasticsearch8, Elasticsearch9};

use super::{ENTRIES, Place, Program, entry};
use crate::target::Target;
use crate::writer::{Run, Writer};

/// The operation that the library writes.
#[derive(Debug, Clone, Copy)]
pub enum Operation {
    Index,
    Upsert,
}

pub fn writers() -> Vec<Writer> {
    let of = |operation, configuration, has_ids| Writer {
        name: "Spark 3.5, elasticsearch-spark 9.5",
        configuration,
        // The library refuses OpenSearch, whose root lacks the header `X-elastic-product`.
        on: &[Elasticsearch7_17, Elasticsearch8, Elasticsearch9],
        targets: vec![Target::index("books")],
        run: Run::Program(Program::Spark(operation)),
        documents: ENTRIES,
        has_ids,
        volatile: &[],
    };
    vec![
        of(Operation::Index, "`es.nodes.wan.only`", false),
        of(Operation::Upsert, "`es.nodes.wan.only`, `es.mapping.id`, `es.write.operation: upsert`", true),
    ]
}

pub async fn run(operation: Operation, place: &Place<'_>) -> Result<()> {
    let entries = place.write_entries("books.json", |n| entry(n).to_string())?;
    let mut arguments = vec![entries.as_str(), place.url];
    if let Operation::Upsert = operation {
        arguments.extend(["es.mapping.id=id", "es.write.operation=upsert"]);
    }
    place.run_java("spark", &arguments).await
}
