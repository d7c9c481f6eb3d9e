//! Filebeat with `examples/shippers/filebeat.yml`. It must be compiled, so run it with `make test-clients FULL=1`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bulk_reshuffle_stack::Distribution::Elasticsearch7_17;
use bulk_reshuffle_stack::Tools;
use hyper::Method;
use serde_json::Value;

use super::shipment::Shipment;
use crate::default_distribution::answer_as_default_distribution;
use crate::execution::bare;
use crate::readme;

const TEMPLATE: &str = "/_index_template/logs-filebeat";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Filebeat: make test-clients FULL=1"]
async fn filebeat_indexes_all_valid_entries_and_logs_refused_ones() {
    let shipment = Shipment::start_in_front_of(Elasticsearch7_17, "logs-filebeat").await;
    let nodes = (0..3).map(|node| shipment.scene.address(node)).collect();
    answer_as_default_distribution(&shipment.nodes, nodes).await.unwrap();
    shipment.write();
    shipment.refuse_next();
    // Filebeat rejects a configuration file that other users may write.
    let config = shipment.folder().join("filebeat.yml");
    fs::copy(readme::folder("shippers").join("filebeat.yml"), &config).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = bare(Tools::find().unwrap().folder("filebeat").unwrap().join("filebeat"));
    command
        .arg("-e")
        .arg("-c")
        .arg(&config)
        .arg("--path.home")
        .arg(shipment.folder())
        .env("LOG_FILES", shipment.log_files())
        .env("ELASTICSEARCH_URL", shipment.scene.envoy.url(""));
    let process = shipment.start("filebeat", command);
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
    shipment.end().await;
}
