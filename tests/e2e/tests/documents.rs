//! The README and the shipped configurations say what is true.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use bulk_reshuffle::config::Config;
use bulk_reshuffle::engine::TRANSPORT_HEADERS;
use bulk_reshuffle_stack::{Envoy, EnvoyOptions, Tools};
use serde_json::{Value, json};

fn readme(tools: &Tools) -> String {
    std::fs::read_to_string(tools.root.join("README.md")).unwrap()
}

/// The rows of the table under a heading, each with its cells.
fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let section = text.split(&format!("\n## {heading}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', "")).collect()).collect()
}

/// `{"hold": {"interval": value}}` for `hold.interval`.
fn nested(field: &str, value: Value) -> Value {
    field.rsplit('.').fold(value, |value, name| json!({name: value}))
}

#[test]
fn the_configuration_table_has_every_field_with_its_default() {
    let tools = Tools::find().unwrap();
    let minimal = format!("{:?}", Config::read(br#"{"coordinator":"es"}"#).unwrap());
    let rows = table(&readme(&tools), "Configuration");
    for row in rows.iter().skip(1) {
        let default: Value = serde_json::from_str(&row[1]).unwrap();
        let mut config = nested(&row[0], default);
        config["coordinator"] = json!("es");
        let config = Config::read(config.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(format!("{config:?}"), minimal, "{}", row[0]);
    }
    for name in TRANSPORT_HEADERS {
        assert!(readme(&tools).contains(&format!("`{name}`")), "the README lacks {name}");
    }
    // Errors about unknown fields list the known ones.
    for section in ["", "nodes", "cluster_state", "hold", "dispatch", "limits"] {
        let unknown = if section.is_empty() { json!({"?": 1}) } else { json!({section: {"?": 1}}) };
        let problem = Config::read(unknown.to_string().as_bytes()).unwrap_err().problem;
        for field in problem.split('`').skip(3).step_by(2) {
            let path = if section.is_empty() { field.to_owned() } else { format!("{section}.{field}") };
            assert!(rows.iter().any(|row| row[0].starts_with(&path)), "the table lacks {path}");
        }
    }
}

#[tokio::test]
async fn the_readmes_envoy_configuration_is_valid() {
    let tools = Tools::find().unwrap();
    let yaml = readme(&tools).split("```yaml\n").nth(1).unwrap().split("```").next().unwrap().to_owned();
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("documents");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("readme.yaml");
    std::fs::write(&path, yaml).unwrap();
    let options = EnvoyOptions { config: Some(path), name: "readme".into(), ..EnvoyOptions::new(folder) };
    let address = "127.0.0.1:9201".parse().unwrap();
    Envoy::validate(&tools, options.cluster("es", [address]).cluster("es-0", [address])).await.unwrap();
}

/// A shipped configuration without what TLS and credentials change in it.
fn without_tls(tools: &Tools, file: &str) -> Value {
    let mut config: Value = serde_saphyr::from_str(&std::fs::read_to_string(tools.root.join(file)).unwrap()).unwrap();
    for cluster in config["static_resources"]["clusters"].as_array_mut().unwrap() {
        for field in ["type", "transport_socket"] {
            cluster.as_object_mut().unwrap().remove(field);
        }
        for endpoint in cluster["load_assignment"]["endpoints"][0]["lb_endpoints"].as_array_mut().unwrap() {
            *endpoint = json!({});
        }
    }
    let manager = &mut config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"];
    for filter in manager["http_filters"].as_array_mut().unwrap() {
        if let Some(value) = filter.pointer_mut("/typed_config/config/configuration/value") {
            let mut own: Value = serde_json::from_str(value.as_str().unwrap()).unwrap();
            own.as_object_mut().unwrap().remove("credentials");
            *value = own;
        }
    }
    config
}

// That it works is tested with the real cluster.
#[test]
fn the_configuration_for_tls_differs_from_the_plain_one_in_nothing_else() {
    let tools = Tools::find().unwrap();
    assert_eq!(without_tls(&tools, "envoy/tls.yaml"), without_tls(&tools, "envoy/envoy.yaml"));
}

#[tokio::test]
async fn the_shipped_envoy_configuration_is_valid() {
    let tools = Tools::find().unwrap();
    let output = tokio::process::Command::new(&tools.envoy)
        .args(["--mode", "validate", "-c", "envoy/envoy.yaml"])
        .current_dir(&tools.root)
        .output()
        .await
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    // Envoy takes what it is about to give up with no more than a warning.
    assert!(!log.to_lowercase().contains("deprecated"), "{log}");
}
