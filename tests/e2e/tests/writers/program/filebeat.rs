//! Filebeat in its default configuration, and with a pipeline.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::Result;
use bulk_reshuffle_stack::Distribution::{Elasticsearch7_17, Elasticsearch8, Elasticsearch9};
use serde_json::json;

use super::{ENTRIES, Place, Program, bare, entry};
use crate::target::Target;
use crate::writer::{Run, Writer};

/// The setting that varies.
#[derive(Debug, Clone, Copy)]
pub enum Configuration {
    Default,
    DocumentIds,
    Pipeline,
}

pub fn writers() -> Vec<Writer> {
    let of = |configuration, title, target| Writer {
        name: "Filebeat 7.17",
        configuration: title,
        on: &[Elasticsearch7_17, Elasticsearch8, Elasticsearch9],
        targets: vec![target],
        run: Run::Program(Program::Filebeat(configuration)),
        documents: ENTRIES,
        has_ids: matches!(configuration, Configuration::DocumentIds),
        volatile: &["/@timestamp", "/agent", "/log/file", "/event/ingested"],
    };
    let index = || Target::index("filebeat-test");
    let processors = json!([{"set": {"field": "event.kind", "value": "event"}}]);
    vec![
        of(Configuration::Default, "default", index()),
        of(Configuration::DocumentIds, "`document_id`", index()),
        of(Configuration::Pipeline, "`pipeline`, as of a module", index().pipeline("filebeat-module", processors)),
    ]
}

pub async fn run(configuration: Configuration, place: &Place<'_>) -> Result<()> {
    let entries = place.write_entries("app.json", |n| entry(n).to_string())?;
    let parser = match configuration {
        Configuration::DocumentIds => "parsers: [{ndjson: {target: app, document_id: id}}]",
        _ => "parsers: [{ndjson: {target: app}}]",
    };
    let pipeline = match configuration {
        Configuration::Pipeline => "  pipeline: filebeat-module\n",
        _ => "",
    };
    let config = format!(
        "filebeat.inputs: [{{type: filestream, id: app, paths: [\"{entries}\"], {parser}}}]\n\
         setup.template: {{name: filebeat-test, pattern: filebeat-test*}}\nsetup.ilm.enabled: false\n\
         output.elasticsearch:\n  hosts: [\"{}\"]\n  index: filebeat-test\n{pipeline}",
        place.url
    );
    // Filebeat rejects a configuration file that other users may write.
    let config = place.write("filebeat.yml", &config)?;
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600))?;
    let mut command = bare(place.tools.folder("filebeat")?.join("filebeat"));
    command.args(["-e", "-c", &config, "--path.home"]).arg(place.folder());
    place.run_until_written("filebeat", command).await
}
