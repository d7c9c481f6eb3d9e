//! Telegraf with its outputs for Elasticsearch and OpenSearch.

use std::process::Stdio;

use anyhow::Result;
use bulk_reshuffle_stack::Distribution::{
    Elasticsearch7_17, Elasticsearch8, Elasticsearch9, OpenSearch1, OpenSearch2, OpenSearch3,
};

use super::{ENTRIES, Place, Program, bare};
use crate::target::Target;
use crate::writer::{Run, Writer};

/// An output plug-in.
#[derive(Debug, Clone, Copy)]
pub enum Output {
    Elasticsearch,
    OpenSearch,
}

pub fn writers() -> Vec<Writer> {
    let of = |output, configuration, on| Writer {
        name: "Telegraf 1.37",
        configuration,
        on,
        targets: vec![Target::index("telegraf-2026.11.23")],
        run: Run::Program(Program::Telegraf(output)),
        documents: ENTRIES,
        has_ids: false,
        volatile: &[],
    };
    vec![
        of(
            Output::Elasticsearch,
            "default: `outputs.elasticsearch`, index with a date",
            &[Elasticsearch7_17, Elasticsearch8, Elasticsearch9],
        ),
        of(
            Output::OpenSearch,
            "default: `outputs.opensearch`, index with a date",
            &[OpenSearch1, OpenSearch2, OpenSearch3],
        ),
    ]
}

pub async fn run(output: Output, place: &Place<'_>) -> Result<()> {
    let second = 1_795_435_200; // 2026-11-23T12:00:00Z
    let line = |n| format!("books,host=host-{} views={n}i {}000000000", n % 5, second + n);
    let entries = place.write_entries("metrics.influx", line)?;
    let output = match output {
        Output::Elasticsearch => {
            "[[outputs.elasticsearch]]\nurls = [\"URL\"]\nindex_name = \"telegraf-%Y.%m.%d\"\n\
             manage_template = true\ntemplate_name = \"telegraf\"\n"
        }
        Output::OpenSearch => {
            "[[outputs.opensearch]]\nurls = [\"URL\"]\nindex_name = \"telegraf-{{.Time.Format \\\"2006.01.02\\\"}}\"\n\
             manage_template = true\ntemplate_name = \"telegraf\"\n"
        }
    };
    let output = output.replace("URL", place.url);
    let config = format!(
        "[agent]\nomit_hostname = true\n{output}\
         [[inputs.file]]\nfiles = [\"{entries}\"]\ndata_format = \"influx\"\n"
    );
    let config = place.write("telegraf.conf", &config)?;
    let mut command = bare(place.tools.folder("telegraf")?.join("telegraf"));
    command.args(["--once", "--config", &config]).current_dir(place.folder());
    place.run_to_end("telegraf", command, Stdio::null()).await
}
