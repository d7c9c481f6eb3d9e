//! rsyslog with `examples/shippers/rsyslog.conf`.

use std::path::Path;

use bulk_reshuffle_e2e::UnpackedProgram;
use bulk_reshuffle_stack::Distribution::OpenSearch2;
use bulk_reshuffle_stack::{Lifetime, Process, Tools};
use serde_json::Value;

use crate::readme;
use crate::shipper::{Shipment, document, is_bad};

fn start(folder: &Path, url: &str) -> Process {
    let tools = Tools::find().unwrap();
    let rsyslog = UnpackedProgram::find(&tools, "rsyslog", "usr/sbin/rsyslogd", "rsyslog").unwrap();
    let mut command = rsyslog.command();
    command
        .args(["-n", "-f"])
        .arg(readme::folder("shippers").join("rsyslog.conf"))
        .arg("-i")
        .arg(folder.join("pid"))
        .arg("-M")
        .arg(rsyslog.modules())
        .env("LOG_FILES", folder.join("app*.json"))
        .env("STATE_DIRECTORY", folder)
        .env("ELASTICSEARCH_URL", url);
    Process::start("rsyslogd", command, &folder.join("rsyslogd.log"), Lifetime::WithParent).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn rsyslog_indexes_all_valid_entries_and_keeps_refused_ones() {
    let shipment = Shipment::start_in_front_of(OpenSearch2, "logs-rsyslog").await;
    shipment.write("app.json");
    shipment.refuse_next();
    let process = start(shipment.folder(), &shipment.scene.envoy.url(""));
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
    shipment.check_split().await;
}
