//! opensearch-benchmark and Rally, with a small workload of their own format.

use std::process::Stdio;

use anyhow::Result;
use bulk_reshuffle_stack::Distribution::{Elasticsearch8, Elasticsearch9, OpenSearch1, OpenSearch2, OpenSearch3};
use serde_json::json;

use super::{ENTRIES, Place, Program, bare, entry};
use crate::target::Target;
use crate::writer::{Run, Writer};

/// A benchmark.
#[derive(Debug, Clone, Copy)]
pub enum Benchmark {
    OpenSearchBenchmark,
    Rally,
}

pub fn writers() -> Vec<Writer> {
    let of = |benchmark, name, on| Writer {
        name,
        configuration: "`bulk`, without ids",
        on,
        targets: vec![Target::index("books")],
        run: Run::Program(Program::Benchmark(benchmark)),
        documents: ENTRIES,
        has_ids: false,
        volatile: &[],
    };
    vec![
        of(Benchmark::OpenSearchBenchmark, "opensearch-benchmark 2.4", &[OpenSearch1, OpenSearch2, OpenSearch3]),
        of(Benchmark::Rally, "Rally 2.13", &[Elasticsearch8, Elasticsearch9]),
    ]
}

pub async fn run(benchmark: Benchmark, place: &Place<'_>) -> Result<()> {
    let path = place.write_entries("documents.json", |n| entry(n).to_string())?;
    let documents = json!({
        "source-file": "documents.json", "document-count": place.writer.documents,
        "uncompressed-bytes": std::fs::metadata(path)?.len(), "target-index": "books",
    });
    let workload = json!({
        "version": 2, "description": "books", "indices": [{"name": "books"}],
        "corpora": [{"name": "books", "documents": [documents]}],
        "schedule": [{"operation": {"name": "index", "operation-type": "bulk", "bulk-size": 200}, "clients": 4}],
    });
    let (tool, module, file, command, path, options) = match benchmark {
        Benchmark::OpenSearchBenchmark => {
            ("opensearch-benchmark", "osbenchmark.benchmark", "workload.json", "run", "--workload-path", "timeout:60")
        }
        Benchmark::Rally => ("esrally", "esrally.rally", "track.json", "race", "--track-path", "timeout:60"),
    };
    place.write(file, &workload.to_string())?;
    let mut program = bare("python3");
    program
        .args(["-m", module, command, path])
        .arg(place.folder())
        .args(["--pipeline=benchmark-only", "--target-hosts", place.authority(), "--client-options", options])
        .args(["--offline", "--on-error=abort"])
        .env("PYTHONPATH", place.tools.folder(tool)?)
        .env("HOME", place.folder())
        .current_dir(place.folder());
    place.run_to_end(tool, program, Stdio::null()).await
}
