//! The pages and the shipped configurations say what is true.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use bulk_reshuffle::config::Config;
use bulk_reshuffle::engine::metrics::{Families, Family, Kind, Workers};
use bulk_reshuffle::engine::{PassThrough, TRANSPORT_HEADERS};
use bulk_reshuffle::routing::Unrouted;
use bulk_reshuffle_stack::{Envoy, EnvoyOptions, Tools};
use serde_json::{Value, json};

fn page(tools: &Tools, path: &str) -> String {
    std::fs::read_to_string(tools.root.join(path)).unwrap()
}

/// The rows of the table under a heading, each with its cells.
fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let section = text.split(&format!("\n{heading}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
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
    let page = page(&tools, "filter/README.md");
    let rows = table(&page, "## Configuration");
    for row in rows.iter().skip(1) {
        let default: Value = serde_json::from_str(&row[1]).unwrap();
        let mut config = nested(&row[0], default);
        config["coordinator"] = json!("es");
        let config = Config::read(config.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(format!("{config:?}"), minimal, "{}", row[0]);
    }
    for name in TRANSPORT_HEADERS {
        assert!(page.contains(&format!("`{name}`")), "the page lacks {name}");
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

#[test]
fn the_table_of_reasons_has_every_reason_with_what_becomes_of_it() {
    let tools = Tools::find().unwrap();
    let mut told: Vec<(String, String)> = table(&page(&tools, "filter/README.md"), "### Reasons")
        .into_iter()
        .map(|cells| (cells[0].clone(), cells[1].clone()))
        .collect();
    let becomes = |why: PassThrough| match why {
        PassThrough::Unrouted(why) if Unrouted::may_be_merged(why) => "coordinating",
        _ => "whole",
    };
    let mut expected: Vec<(String, String)> =
        PassThrough::all().map(|why| (why.name().to_owned(), becomes(why).to_owned())).collect();
    told.sort();
    expected.sort();
    assert_eq!(told, expected);
}

/// The row of a metric.
fn row(family: &Family) -> String {
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge(Workers::Sum) => "gauge, of all workers",
        Kind::Gauge(Workers::Largest) => "gauge, of the worker with most",
        Kind::Gauge(Workers::Last) => "gauge",
        Kind::Histogram => "histogram",
    };
    let labels: Vec<String> = family.labels.iter().map(|label| format!("`{}`", label.name())).collect();
    format!("| `{}` | {kind} | {} | {} |\n", family.name, labels.join(", "), family.help)
}

#[test]
fn the_table_of_metrics_is_made_of_the_source() {
    const PAGE: &str = "envoy/README.md";
    let tools = Tools::find().unwrap();
    let text = page(&tools, PAGE);
    let (before, rest) = text.split_once("<!-- metrics -->\n").unwrap();
    let (table, after) = rest.split_once("<!-- /metrics -->\n").unwrap();
    let made = format!("| metric | | labels | |\n|---|---|---|---|\n{}", Families::all().map(row).collect::<String>());
    if std::env::var_os("RENEW").is_some() {
        let text = format!("{before}<!-- metrics -->\n{made}<!-- /metrics -->\n{after}");
        std::fs::write(tools.root.join(PAGE), text).unwrap();
    } else {
        assert_eq!(table, made, "RENEW=1 writes the table anew");
    }
}

#[tokio::test]
async fn the_readmes_envoy_configuration_is_valid() {
    let tools = Tools::find().unwrap();
    let yaml = page(&tools, "README.md").split("```yaml\n").nth(1).unwrap().split("```").next().unwrap().to_owned();
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("documents");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("readme.yaml");
    std::fs::write(&path, yaml).unwrap();
    let options = EnvoyOptions { config: Some(path), name: "readme".into(), ..EnvoyOptions::new(folder) };
    let address = "127.0.0.1:9201".parse().unwrap();
    Envoy::validate(&tools, options.cluster("es", [address]).cluster("es-0", [address])).await.unwrap();
}

/// A shipped configuration.
fn shipped(tools: &Tools, file: &str) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(tools.root.join("envoy").join(file)).unwrap()).unwrap()
}

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

/// One of the HTTP filters of the (first) listener.
fn http_filter(config: &Value, name: &str) -> Value {
    let filters = config.pointer(MANAGER).unwrap()["http_filters"].as_array().unwrap();
    filters.iter().find(|filter| filter["name"] == name).unwrap().clone()
}

/// The clusters without what TLS changes in them.
fn clusters_without_tls(config: &Value) -> Vec<Value> {
    let mut clusters = config["static_resources"]["clusters"].as_array().unwrap().clone();
    for cluster in &mut clusters {
        for field in ["type", "transport_socket", "typed_extension_protocol_options"] {
            cluster.as_object_mut().unwrap().remove(field);
        }
        for endpoint in cluster["load_assignment"]["endpoints"][0]["lb_endpoints"].as_array_mut().unwrap() {
            *endpoint = json!({});
        }
    }
    clusters
}

/// A shipped configuration without what TLS and credentials change in it.
fn without_tls(tools: &Tools, file: &str) -> Value {
    let mut config = shipped(tools, file);
    config["static_resources"]["clusters"] = clusters_without_tls(&config).into();
    let manager = config.pointer_mut(MANAGER).unwrap();
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
    assert_eq!(without_tls(&tools, "tls.yaml"), without_tls(&tools, "envoy.yaml"));
}

/// What a file of `envoy/parts` holds, without its types.
fn resources(tools: &Tools, part: &str) -> Vec<Value> {
    let mut resources = shipped(tools, &format!("parts/{part}"))["resources"].as_array().unwrap().clone();
    for resource in &mut resources {
        resource.as_object_mut().unwrap().remove("@type").unwrap();
    }
    resources
}

#[test]
fn the_shared_parts_are_those_of_the_plain_configuration() {
    let tools = Tools::find().unwrap();
    let plain = shipped(&tools, "envoy.yaml");
    assert_eq!(resources(&tools, "filter.yaml"), [http_filter(&plain, "bulk_reshuffle")]);
    assert_eq!(resources(&tools, "routes.yaml"), [plain.pointer(MANAGER).unwrap()["route_config"].clone()]);
    assert_eq!(json!(resources(&tools, "clusters.yaml")), plain["static_resources"]["clusters"]);
}

// That they work is tested with the real cluster.
#[test]
fn what_the_configurations_have_in_common_is_the_same_in_all_of_them() {
    let tools = Tools::find().unwrap();
    let plain = shipped(&tools, "envoy.yaml");
    for file in ["buffer.yaml", "gateway.yaml", "rollout.yaml"] {
        let other = shipped(&tools, file);
        for field in ["node", "admin", "stats_config"] {
            assert_eq!(other[field], plain[field], "{file}");
        }
        for filter in ["envoy.filters.http.compressor", "envoy.filters.http.router"] {
            assert_eq!(http_filter(&other, filter), http_filter(&plain, filter), "{file}");
        }
    }
    assert_eq!(clusters_without_tls(&shipped(&tools, "gateway.yaml")), clusters_without_tls(&plain));
}

/// The wasm filter's configuration, the text in it as JSON.
fn wasm_config(config: &Value) -> Value {
    let mut config = http_filter(config, "bulk_reshuffle")["typed_config"]["config"].take();
    let value = &mut config["configuration"]["value"];
    *value = serde_json::from_str(value.as_str().unwrap()).unwrap();
    config
}

#[test]
fn the_configuration_with_a_buffer_differs_in_how_headers_are_held_back() {
    let tools = Tools::find().unwrap();
    let mut plain = wasm_config(&shipped(&tools, "envoy.yaml"));
    plain.as_object_mut().unwrap().remove("allow_on_headers_stop_iteration").unwrap();
    plain["configuration"]["value"]["header_pause"] = json!("buffer");
    assert_eq!(wasm_config(&shipped(&tools, "buffer.yaml")), plain);
}

// Those with TLS need certificates; they are validated where they are run.
#[tokio::test]
async fn the_shipped_envoy_configurations_are_valid() {
    let tools = Tools::find().unwrap();
    for file in ["envoy/envoy.yaml", "envoy/buffer.yaml", "envoy/front.yaml", "envoy/rollout.yaml"] {
        let output = tokio::process::Command::new(&tools.envoy)
            .args(["--mode", "validate", "-c", file])
            .current_dir(&tools.root)
            .output()
            .await
            .unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{file}: {log}");
        // Envoy takes what it is about to give up with no more than a warning.
        assert!(!log.to_lowercase().contains("deprecated"), "{file}: {log}");
    }
}
