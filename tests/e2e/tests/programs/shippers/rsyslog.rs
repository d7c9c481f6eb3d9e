//! rsyslog with `examples/shippers/rsyslog.conf`.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use bulk_reshuffle_e2e::UnpackedProgram;
use bulk_reshuffle_stack::Distribution::OpenSearch2;
use bulk_reshuffle_stack::Tools;
use serde_json::Value;

use super::shipment::{Shipment, document, is_bad};
use crate::readme;

/// Returns the command that ships the entries of these files to this URL. The program keeps its state in the folder.
pub fn command(tools: &Tools, log_files: &Path, folder: &Path, url: &str) -> Result<Command> {
    let rsyslog = UnpackedProgram::find(tools, "rsyslog", "usr/sbin/rsyslogd", "rsyslog")?;
    let mut command = rsyslog.command();
    command
        .args(["-n", "-f"])
        .arg(readme::folder("shippers").join("rsyslog.conf"))
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
