//! pino-elasticsearch, which reads pino's lines from its input.

use std::fs::File;

use anyhow::Result;
use bulk_reshuffle_stack::Distribution::{Elasticsearch8, Elasticsearch9};
use serde_json::json;

use super::{ENTRIES, Place, Program, bare};
use crate::target::Target;
use crate::writer::{Run, Writer};

pub fn writers() -> Vec<Writer> {
    vec![Writer {
        name: "pino-elasticsearch 9.0",
        configuration: "default",
        on: &[Elasticsearch8, Elasticsearch9],
        targets: vec![Target::index("pino")],
        run: Run::Program(Program::Pino),
        documents: ENTRIES,
        has_ids: false,
        volatile: &[],
    }]
}

pub async fn run(place: &Place<'_>) -> Result<()> {
    let line = |n| json!({"level": 30, "time": 1_795_000_000_000_u64 + n as u64, "pid": 1, "msg": format!("line {n}")});
    let entries = place.write_entries("app.json", |n| line(n).to_string())?;
    let package = place.tools.folder("pino")?.join("node_modules/pino-elasticsearch/cli.js");
    let mut command = bare(place.tools.folder("node")?.join("bin/node"));
    command.arg(package).args(["--node", place.url]);
    place.run_to_end("pino-elasticsearch", command, File::open(entries)?.into()).await
}
