//! The bulk helpers of clients, as the examples use them.

use std::process::Stdio;

use anyhow::{Context, Result};
use bulk_reshuffle_e2e::ExampleClients;
use bulk_reshuffle_stack::Distribution::{Elasticsearch8, Elasticsearch9};

use super::{ENTRIES, Place, Program, entry};
use crate::target::Target;
use crate::writer::{Run, Writer};

pub fn writers() -> Vec<Writer> {
    let of = |language, name, configuration| Writer {
        name,
        configuration,
        on: &[Elasticsearch8, Elasticsearch9],
        targets: vec![Target::index("books")],
        run: Run::Program(Program::Helper(language)),
        documents: ENTRIES,
        has_ids: true,
        volatile: &[],
    };
    vec![
        of("python3", "elasticsearch-py 8.19", "`helpers.streaming_bulk`"),
        of("node", "@elastic/elasticsearch 8.19", "`helpers.bulk`"),
        of("go", "go-elasticsearch 8.19", "`esutil.BulkIndexer`"),
        of("java", "elasticsearch-java 8.19", "`BulkIngester`"),
    ]
}

pub async fn run(language: &str, place: &Place<'_>) -> Result<()> {
    let clients = ExampleClients::new(&place.tools, place.folder(), env!("CARGO_TARGET_TMPDIR"))?;
    clients.write((0..place.writer.documents).map(entry))?;
    let page = std::fs::read_to_string(place.tools.root.join("examples/clients/README.md"))?;
    let command = page.lines().find(|line| line.starts_with(&format!("{language} "))).context("no such command")?;
    let command = clients.shell(command, place.url, None)?;
    place.run_to_end(language, command, Stdio::null()).await
}
