//! Filebeat with `examples/shippers/filebeat.yml`. It must be compiled, so run it with `make test-shippers-full`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use bulk_reshuffle_e2e::Reaction;
use bulk_reshuffle_stack::Distribution::Elasticsearch7_17;
use bulk_reshuffle_stack::{Client, Lifetime, Process, Tools};
use hyper::Method;
use serde_json::{Value, json};

use crate::readme;
use crate::shipper::Shipment;

const TEMPLATE: &str = "/_index_template/logs-filebeat";

/// Answers two requests like the default distribution. The test distribution lacks the licence API, and field types
/// that Filebeat's template uses. Both requests reach the nodes.
fn answer_as_default_distribution(shipment: &Shipment) {
    let addresses: Vec<_> = (0..3).map(|node| shipment.scene.address(node)).collect();
    let client = Client::new();
    let license = json!({"license": {"status": "active", "uid": "e2e", "type": "basic", "mode": "basic"}}).to_string();
    shipment.nodes.react_to_state_queries(move |request| {
        Some(match request.path() {
            "/_license" => Reaction::raw(license.clone()),
            TEMPLATE if request.method == Method::PUT => Reaction::raw(json!({"acknowledged": true}).to_string()),
            _ => Reaction::Forward(Box::new(client.clone()), addresses[request.node]),
        })
    });
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Filebeat: make test-shippers-full"]
async fn filebeat_indexes_all_valid_entries_and_logs_refused_ones() {
    let shipment = Shipment::start_in_front_of(Elasticsearch7_17, "logs-filebeat").await;
    answer_as_default_distribution(&shipment);
    shipment.write("app.json");
    shipment.refuse_next();
    // Filebeat rejects a configuration file that other users may write.
    let config = shipment.folder().join("filebeat.yml");
    fs::copy(readme::folder("shippers").join("filebeat.yml"), &config).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = Command::new(Tools::find().unwrap().folder("filebeat").unwrap().join("filebeat"));
    command
        .arg("-e")
        .arg("-c")
        .arg(&config)
        .arg("--path.home")
        .arg(shipment.folder())
        .env_clear()
        .env("LOG_FILES", shipment.folder().join("app*.json"))
        .env("ELASTICSEARCH_URL", shipment.scene.envoy.url(""));
    let log = shipment.folder().join("filebeat.log");
    let process = Process::start("filebeat", command, &log, Lifetime::WithParent).unwrap();
    shipment.wait_indexed(&process).await;

    // Filebeat does not log which events were refused.
    let refused = |text: &str| text.matches("Cannot index event (status=400)").count();
    shipment.wait_file("filebeat.log", |text| refused(text) == shipment.bad().count()).await;
    process.stop().await.unwrap();
    shipment.check_documents().await;
    // Filebeat's other requests pass through: the server's version, and its template.
    let asked = shipment.nodes.others();
    for (method, target) in [(Method::GET, "/"), (Method::HEAD, TEMPLATE), (Method::PUT, TEMPLATE)] {
        let request = asked.iter().find(|request| request.method == method && request.path() == target);
        let request = request.unwrap_or_else(|| panic!("no {method} {target}"));
        assert!(method != Method::PUT || serde_json::from_slice::<Value>(&request.body).unwrap().is_object());
    }
    shipment.check_split().await;
}
