//! rsyslog with `examples/shippers/rsyslog.conf`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bulk_reshuffle_stack::Distribution::OpenSearch2;
use bulk_reshuffle_stack::{Lifetime, Process, Tools};
use serde_json::Value;

use crate::readme;
use crate::shipper::{Shipment, document, is_bad};

/// Debian's rsyslog, unpacked or installed.
struct Rsyslog {
    program: PathBuf,
    modules: Vec<PathBuf>,
    libraries: Vec<PathBuf>,
}

impl Rsyslog {
    fn find() -> Self {
        let unpacked = Tools::find().unwrap().folder("rsyslog").unwrap();
        let roots = [unpacked.as_path(), Path::new("/")];
        let program = roots.iter().map(|root| root.join("usr/sbin/rsyslogd")).find(|program| program.exists());
        let libraries = roots.iter().flat_map(|root| libraries(root)).collect::<Vec<_>>();
        let modules = libraries.iter().map(|folder| folder.join("rsyslog")).filter(|folder| folder.is_dir()).collect();
        Self { program: program.expect("rsyslogd"), modules, libraries }
    }

    fn start(&self, folder: &Path, url: &str) -> Process {
        let path = |folders: &[PathBuf]| std::env::join_paths(folders).unwrap();
        let mut command = Command::new(&self.program);
        command
            .args(["-n", "-f"])
            .arg(readme::folder("shippers").join("rsyslog.conf"))
            .arg("-i")
            .arg(folder.join("pid"))
            .arg("-M")
            .arg(path(&self.modules))
            .env_clear()
            .env("LD_LIBRARY_PATH", path(&self.libraries))
            .env("LOG_FILES", folder.join("app*.json"))
            .env("STATE_DIRECTORY", folder)
            .env("ELASTICSEARCH_URL", url);
        Process::start("rsyslogd", command, &folder.join("rsyslogd.log"), Lifetime::WithParent).unwrap()
    }
}

/// Returns the folder of libraries, such as `usr/lib/x86_64-linux-gnu` or `usr/lib64`.
fn libraries(root: &Path) -> Vec<PathBuf> {
    let below = |name: &str| fs::read_dir(root.join(name)).into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = below("usr/lib").chain(below("usr")).chain(below(""));
    folders.filter(|folder| folder.join("rsyslog").is_dir() || folder.join("libestr.so.0").exists()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rsyslog_indexes_all_valid_entries_and_keeps_refused_ones() {
    let shipment = Shipment::start_in_front_of(OpenSearch2, "logs-rsyslog").await;
    shipment.write("app.json");
    shipment.refuse_next();
    let process = Rsyslog::find().start(shipment.folder(), &shipment.scene.envoy.url(""));
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
