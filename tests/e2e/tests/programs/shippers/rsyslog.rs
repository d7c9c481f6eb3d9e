//! rsyslog with `examples/shippers/rsyslog.conf`, and in the default mode of its output.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use bulk_reshuffle_e2e::UnpackedProgram;
use bulk_reshuffle_stack::Distribution::OpenSearch2;
use bulk_reshuffle_stack::Tools;
use serde_json::{Value, json};

use super::shipment::{ENTRIES, Shipment, document, is_bad};
use crate::readme;

/// Returns the command that ships the entries of these files to this URL, as the example does. The program keeps its
/// state in the folder.
pub fn command(tools: &Tools, log_files: &Path, folder: &Path, url: &str) -> Result<Command> {
    command_with(&readme::folder("shippers").join("rsyslog.conf"), tools, log_files, folder, url)
}

fn command_with(config: &Path, tools: &Tools, log_files: &Path, folder: &Path, url: &str) -> Result<Command> {
    let rsyslog = UnpackedProgram::find(tools, "rsyslog", "usr/sbin/rsyslogd", "rsyslog")?;
    let mut command = rsyslog.command();
    command
        .args(["-n", "-f"])
        .arg(config)
        .arg("-i")
        .arg(folder.join("pid"))
        .arg("-M")
        .arg(rsyslog.modules())
        .env("LOG_FILES", log_files)
        .env("STATE_DIRECTORY", folder)
        .env("ELASTICSEARCH_URL", url);
    Ok(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn rsyslog_indexes_all_valid_entries_and_keeps_refused_ones() {
    let shipment = Shipment::start_in_front_of(OpenSearch2, "logs-rsyslog").await;
    shipment.write();
    shipment.refuse_next();
    let (files, url) = (shipment.log_files(), shipment.scene.envoy.url(""));
    let process =
        shipment.start("rsyslogd", command(&Tools::find().unwrap(), &files, shipment.folder(), &url).unwrap());
    shipment.wait_indexed(&process).await;

    let refused = shipment.wait_file("refused.json", |text| text.lines().count() == shipment.bad().count()).await;
    for line in refused.lines() {
        let told: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let n = told["id"].as_str().unwrap().trim_start_matches("entry-").parse().unwrap();
        assert!(is_bad(n), "{line}");
        assert_eq!((&told["document"], &told["status"]), (&document(n), &Value::from(400)));
        assert_eq!(told["type"], "mapper_parsing_exception");
    }
    process.stop().await.unwrap();
    // This file has only requests that were refused as a whole.
    assert!(!shipment.folder().join("errors.json").exists());
    shipment.check_documents().await;
    // rsyslog sends this request before a retry, if a request got no answer.
    let health = shipment.scene.client.get(&shipment.scene.envoy.url("/_cat/health")).await.unwrap();
    assert!(health.ok().unwrap().text().contains("green"));
    shipment.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rsyslog_indexes_all_valid_entries_in_requests_of_their_own() {
    // rsyslog drops a message that gets a 429, so the filter must retry it.
    let shipment = Shipment::start_with(OpenSearch2, "logs-rsyslog-default", json!({"single_documents": true})).await;
    shipment.write();
    shipment.refuse_next();
    let (files, url, tools) = (shipment.log_files(), shipment.scene.envoy.url(""), Tools::find().unwrap());
    let config = tools.root.join("tests/e2e/tests/programs/shippers/rsyslog-default.conf");
    let command = command_with(&config, &tools, &files, shipment.folder(), &url).unwrap();
    let process = shipment.start("rsyslogd", command);
    shipment.wait_indexed(&process).await;

    let bad: BTreeSet<_> = shipment.bad().collect();
    let refused = shipment.wait_file("errors.json", |text| text.lines().count() == bad.len()).await;
    let entry = |line: &str| {
        let told: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(told["reply"]["status"], 400, "{line}");
        assert_eq!(told["reply"]["error"]["type"], "mapper_parsing_exception", "{line}");
        let sent: Value = serde_json::from_str(told["request"]["postdata"].as_str().unwrap()).unwrap();
        let n = sent["id"].as_str().unwrap().trim_start_matches("entry-").parse().unwrap();
        assert_eq!(sent, document(n));
        n
    };
    assert_eq!(refused.lines().map(entry).collect::<BTreeSet<_>>(), bad);
    process.stop().await.unwrap();
    shipment.check_documents_with(|_, source| source["id"].as_str().unwrap().to_owned()).await;
    assert_eq!(shipment.counted().await.single_documents, ENTRIES);
    shipment.end().await;
}
