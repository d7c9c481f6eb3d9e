//! Fluent Bit, Logstash and Vector, if installed: the variables FLUENT_BIT, LOGSTASH and VECTOR are the programs'
//! paths. No registry has these programs, so `recorded` also tests their requests.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use bulk_reshuffle_stack::Distribution::OpenSearch2;
use serde_json::{Value, json};

use super::shipment::Shipment;
use crate::readme;

/// Runs the program that a variable names with a configuration, or prints that the variable is not set.
async fn check(variable: &str, index: &str, file: &str, arguments: &[&str], retries: Value) {
    let Some(program) = std::env::var_os(variable).map(PathBuf::from).filter(|program| program.is_file()) else {
        println!("{variable} does not name a program: skipped");
        return;
    };
    let shipment = Shipment::start_with(OpenSearch2, index, json!({"retry": retries})).await;
    shipment.write();
    shipment.refuse_next();
    let envoy = shipment.scene.envoy.addr();
    fs::create_dir(shipment.folder().join("state")).unwrap();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg(readme::folder("shippers").join(file))
        .current_dir(shipment.folder())
        .env("LOG_FILES", shipment.log_files())
        .env("STATE_DIRECTORY", shipment.folder().join("state"))
        .env("ELASTICSEARCH_URL", format!("http://{envoy}"))
        .env("ELASTICSEARCH_HOST", envoy.ip().to_string())
        .env("ELASTICSEARCH_PORT", envoy.port().to_string());
    let process = shipment.start(file, command);
    shipment.wait_indexed(&process).await;
    process.stop().await.unwrap();
    shipment.check_documents().await;
    shipment.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Fluent Bit: make test-clients FULL=1"]
async fn fluent_bit_indexes_all_valid_entries() {
    // Fluent Bit does not retry single documents, so the filter must retry them.
    check("FLUENT_BIT", "logs-fluent-bit", "fluent-bit.yaml", &["-c"], json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Logstash: make test-clients FULL=1"]
async fn logstash_indexes_all_valid_entries() {
    let arguments = ["--path.data", "state", "-f"];
    check("LOGSTASH", "logs-logstash", "logstash.conf", &arguments, json!({"attempts": 0})).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Vector: make test-clients FULL=1"]
async fn vector_indexes_all_valid_entries() {
    check("VECTOR", "logs-vector", "vector.yaml", &["--config"], json!({"attempts": 0})).await;
}
