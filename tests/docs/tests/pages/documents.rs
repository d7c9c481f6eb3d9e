//! The pages and the shipped configurations are correct.

use std::collections::{BTreeMap, BTreeSet};

use bulk_reshuffle::config::Config;
use bulk_reshuffle::engine::metrics::{Counter, Families, Family, Gauge, Histogram, Kind, Label, Workers};
use bulk_reshuffle::engine::{PassThrough, TRANSPORT_HEADERS, Why};
use bulk_reshuffle::routing::Upstreams;
use bulk_reshuffle_docs::root;
use bulk_reshuffle_stack::{Distribution, Envoy, EnvoyOptions, Tools};
use regex_lite::Regex;
use serde_json::{Value, json};

fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Returns the rows of the table under a heading, each as a list of cells.
fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let section = text.split(&format!("\n{heading}\n")).nth(1).unwrap().split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', "")).collect()).collect()
}

/// Returns `{"hold": {"interval": value}}` for `hold.interval`.
fn nested(field: &str, value: Value) -> Value {
    field.rsplit('.').fold(value, |value, name| json!({name: value}))
}

#[test]
fn the_configuration_table_has_every_field_with_its_default() {
    let minimal = format!("{:?}", Config::read(br#"{"coordinator":"es"}"#).unwrap());
    let page = page("filter/README.md");
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
    for field in fields("").expect("the configuration has fields") {
        let paths = match fields(&field) {
            Some(inner) => inner.iter().map(|inner| format!("{field}.{inner}")).collect(),
            None => vec![field],
        };
        for path in paths {
            assert!(rows.iter().any(|row| row[0].starts_with(&path)), "the table lacks {path}");
        }
    }
}

/// Returns the fields of a section of the configuration, or of the whole; `None` if it is a single field. An error about
/// an unknown field lists the known ones.
fn fields(section: &str) -> Option<Vec<String>> {
    let mut unknown = json!({"coordinator": "es", "?": 1});
    if !section.is_empty() {
        unknown = json!({"coordinator": "es"});
        unknown[section] = json!({"?": 1});
    }
    let problem = Config::read(unknown.to_string().as_bytes()).err()?.problem;
    let known = problem.strip_prefix("unknown field `?`, expected ")?;
    Some(known.split('`').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Returns the row of a metric.
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

/// Checks that the table between `<!-- name -->` and `<!-- /name -->` is this one, or with `RENEW` writes it there.
fn check_table(path: &str, name: &str, made: &str) {
    let text = page(path);
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->\n"));
    let (before, rest) = text.split_once(&begin).unwrap();
    let (table, after) = rest.split_once(&end).unwrap();
    if std::env::var_os("RENEW").is_some() {
        std::fs::write(root().join(path), [before, &begin, made, &end, after].concat()).unwrap();
    } else {
        assert_eq!(table, made, "the table in {path} is out of date: RENEW=1 rewrites it");
    }
}

#[test]
fn the_table_of_metrics_matches_the_source() {
    let rows: String = Families::all().map(row).collect();
    check_table(
        "envoy/operations.md",
        "metrics",
        &format!("| metric | type | labels | description |\n|---|---|---|---|\n{rows}"),
    );
}

#[test]
fn the_table_of_reasons_matches_the_source() {
    let handling = |why: PassThrough| match why {
        PassThrough::Unrouted(why) if why.may_be_merged() => "coordinator",
        _ => "whole",
    };
    let row = |why: PassThrough| {
        let Why { reason, text } = why.into();
        format!("| `{reason}` | {} | {text} |\n", handling(why))
    };
    let rows: String = PassThrough::all().map(row).collect();
    check_table("filter/README.md", "reasons", &format!("| reason | handling | condition |\n|---|---|---|\n{rows}"));
}

#[test]
fn the_table_of_writers_has_the_recorded_outcomes() {
    let [_, releases @ ..] = Distribution::ALL;
    let recorded = page("tests/e2e/tests/programs/writers/outcomes.txt");
    let lines: Vec<Vec<&str>> =
        recorded.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(" | ").collect()).collect();
    let row = |lines: &[Vec<&str>]| {
        let outcome =
            |release: Distribution| lines.iter().find(|line| line[2] == release.name()).map_or("–", |it| it[3]);
        format!("| {} | {} | {} |\n", lines[0][0], lines[0][1], releases.map(outcome).join(" | "))
    };
    let rows: String = lines.chunk_by(|one, other| one[..2] == other[..2]).map(row).collect();
    let titles = releases.map(Distribution::title).join(" | ");
    let head = format!("| writer | configuration | {titles} |\n|{}\n", "---|".repeat(2 + releases.len()));
    // The recorded links are those of the root's pages.
    check_table("examples/writers.md", "writers", &(head + &rows.replace("](examples/", "](")));
    let configurations: Vec<&[Vec<&str>]> = lines.chunk_by(|one, other| one[..2] == other[..2]).collect();
    let split = configurations.iter().filter(|lines| lines.iter().all(|line| line[3] == "split")).count();
    let writers: BTreeSet<&str> = lines.iter().map(|line| line[0]).collect();
    let (all, writers) = (configurations.len(), writers.len());
    let split = if split == all { "all".to_owned() } else { split.to_string() };
    let sentence = format!(
        "Of {all} tested configurations of {writers} [writers](examples/writers.md), {split} are split on every release.\n"
    );
    check_table("README.md", "writers", &sentence);
}

/// Formats a count of instructions, with a comma after the thousands.
fn instructions(count: f64) -> String {
    let count = count.round() as u64;
    format!("{},{:03}", count / 1_000, count % 1_000)
}

#[test]
fn the_table_of_growth_has_the_counted_instructions() {
    let limits = page("tests/bench/benches/instructions/limits.txt");
    let counts = limits.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let columns: Vec<&str> = line.split(" | ").collect();
        (columns[0], columns[1], columns[2].parse::<f64>().unwrap())
    });
    // The load of a routine has two factors; the case of a series is one value.
    let counts: Vec<_> = counts.filter(|(_, case, _)| !case.contains(" x ")).collect();
    let row = |series: &[(&str, &str, f64)]| {
        let &[(name, small, smallest), (_, medium, middle), (_, large, largest)] = series else { panic!("{series:?}") };
        let [first, second, third] = [smallest, middle, largest].map(instructions);
        format!("| {name} | {small}, {medium}, {large} | {first} | {second} | {third} | {:.2} |\n", largest / smallest)
    };
    let rows: String = counts.chunk_by(|one, other| one.0 == other.0).map(row).collect();
    let head = "| quantity and workload | values | smallest | middle | largest | largest ÷ smallest |\n";
    check_table("k6/README.md", "growth", &format!("{head}|---|---|---|---|---|---|\n{rows}"));
}

/// Returns the labels that Prometheus derives from a metric's name by rules like `metric_relabel_configs`.
fn relabelled(rules: &Value, name: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([("__name__".to_owned(), name.to_owned())]);
    for rule in rules.as_array().unwrap() {
        let regex = Regex::new(&format!("^(?:{})$", rule["regex"].as_str().unwrap())).unwrap();
        if let Some(found) = regex.captures(&labels["__name__"]) {
            let mut value = String::new();
            found.expand(rule["replacement"].as_str().unwrap_or("$1"), &mut value);
            labels.insert(rule["target_label"].as_str().unwrap().into(), value);
        }
    }
    labels
}

#[test]
fn prometheus_derives_labels_from_the_metrics_of_istios_proxies() {
    let page = page("istio/README.md");
    let yaml = page.split("```yaml\n").find(|text| text.starts_with("metric_relabel_configs")).unwrap();
    let config: Value = serde_saphyr::from_str(yaml.split("```").next().unwrap()).unwrap();
    let mut upstreams = Upstreams::new("outbound|9200||any.es.internal");
    upstreams.intern("outbound|9200||es-0.es.internal").unwrap();
    let counters = Counter::all(upstreams.ids()).map(|counter| (counter.name(&upstreams), counter.family(), ""));
    let gauges = Gauge::all(upstreams.ids()).map(|gauge| (gauge.name(&upstreams), gauge.family(), ""));
    let histograms = Histogram::all([]).flat_map(|histogram| {
        ["_bucket", "_count", "_sum"].map(|part| (histogram.name(&upstreams), histogram.family(), part))
    });
    for (name, family, part) in counters.chain(gauges).chain(histograms) {
        // Envoy writes names for Prometheus like this.
        let plain: String = name.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '_' }).collect();
        let labels = relabelled(&config["metric_relabel_configs"], &(plain.clone() + part));
        assert_eq!(labels["__name__"], format!("{}{part}", family.name), "{plain}");
        for label in family.labels {
            let told = name.split_once(&format!(".{}.", label.name())).map(|(_, rest)| match label {
                Label::Coordinator => "es",
                Label::Upstream if rest.contains("es-0") => "es_0",
                Label::Upstream => "any",
                _ => rest.split('.').next().unwrap(),
            });
            assert_eq!(labels.get(label.name()).map(String::as_str), told, "{plain}");
        }
    }
}

#[tokio::test]
async fn the_readmes_envoy_configuration_is_valid() {
    let tools = Tools::find().unwrap();
    let yaml = page("README.md").split("```yaml\n").nth(1).unwrap().split("```").next().unwrap().to_owned();
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("documents");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("readme.yaml");
    std::fs::write(&path, yaml).unwrap();
    let options = EnvoyOptions { config: Some(path), name: "readme".into(), ..EnvoyOptions::new(folder) };
    let address = "127.0.0.1:9201".parse().unwrap();
    Envoy::validate(&tools, options.cluster("es", [address])).await.unwrap();
}

/// Reads a shipped configuration.
fn shipped(file: &str) -> Value {
    serde_saphyr::from_str(&page(&format!("envoy/{file}"))).unwrap()
}

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";

/// Returns one of the HTTP filters of the first listener.
fn http_filter(config: &Value, name: &str) -> Value {
    let filters = config.pointer(MANAGER).unwrap()["http_filters"].as_array().unwrap();
    filters.iter().find(|filter| filter["name"] == name).unwrap().clone()
}

/// Returns the clusters without the fields that depend on TLS.
fn clusters_without_tls(config: &Value) -> Vec<Value> {
    let mut clusters = config["static_resources"]["clusters"].as_array().unwrap().clone();
    for cluster in &mut clusters {
        // The last field is set only at the edge.
        for field in
            ["type", "transport_socket", "typed_extension_protocol_options", "per_connection_buffer_limit_bytes"]
        {
            cluster.as_object_mut().unwrap().remove(field);
        }
        for endpoint in cluster["load_assignment"]["endpoints"][0]["lb_endpoints"].as_array_mut().unwrap() {
            *endpoint = json!({});
        }
    }
    clusters
}

/// Reads a shipped configuration without the fields that depend on TLS and credentials.
fn without_tls(file: &str) -> Value {
    let mut config = shipped(file);
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

// Its function is tested with the real cluster.
#[test]
fn the_configuration_for_tls_differs_from_the_plain_one_only_in_tls() {
    assert_eq!(without_tls("tls.yaml"), without_tls("envoy.yaml"));
}

/// Returns the resources of a file in `envoy/parts`, without their types.
fn resources(part: &str) -> Vec<Value> {
    let mut resources = shipped(&format!("parts/{part}"))["resources"].as_array().unwrap().clone();
    for resource in &mut resources {
        resource.as_object_mut().unwrap().remove("@type").unwrap();
    }
    resources
}

#[test]
fn the_shared_parts_equal_the_plain_configuration() {
    let plain = shipped("envoy.yaml");
    assert_eq!(resources("filter.yaml"), [http_filter(&plain, "bulk_reshuffle")]);
    assert_eq!(resources("routes.yaml"), [plain.pointer(MANAGER).unwrap()["route_config"].clone()]);
    assert_eq!(json!(resources("clusters.yaml")), plain["static_resources"]["clusters"]);
}

// Their function is tested with the real cluster.
#[test]
fn the_common_parts_are_the_same_in_all_configurations() {
    let plain = shipped("envoy.yaml");
    for file in ["buffer.yaml", "gateway.yaml", "rollout.yaml"] {
        let other = shipped(file);
        for field in ["/node", "/admin/address", "/stats_config"] {
            assert_eq!(other.pointer(field), plain.pointer(field), "{file}: {field}");
        }
        for filter in ["envoy.filters.http.compressor", "envoy.filters.http.router"] {
            assert_eq!(http_filter(&other, filter), http_filter(&plain, filter), "{file}");
        }
    }
    assert_eq!(clusters_without_tls(&shipped("gateway.yaml")), clusters_without_tls(&plain));
}

/// Returns the wasm filter's configuration, with the plugin's configuration parsed as JSON.
fn wasm_config(config: &Value) -> Value {
    let mut config = http_filter(config, "bulk_reshuffle")["typed_config"]["config"].take();
    let value = &mut config["configuration"]["value"];
    *value = serde_json::from_str(value.as_str().unwrap()).unwrap();
    config
}

#[test]
fn the_configuration_with_a_buffer_differs_only_in_the_header_pause() {
    let mut plain = wasm_config(&shipped("envoy.yaml"));
    plain.as_object_mut().unwrap().remove("allow_on_headers_stop_iteration").unwrap();
    plain["configuration"]["value"]["header_pause"] = json!("buffer");
    assert_eq!(wasm_config(&shipped("buffer.yaml")), plain);
}

#[test]
fn the_configuration_with_one_cluster_differs_from_the_plain_one_only_in_the_way_to_the_nodes() {
    let (plain, one) = (shipped("envoy.yaml"), shipped("one-cluster.yaml"));
    for field in ["/node", "/admin", "/stats_config/stats_tags", "/static_resources/listeners/0/address"] {
        assert_eq!(one.pointer(field), plain.pointer(field), "{field}");
    }
    let retries =
        |config: &Value| config.pointer(MANAGER).unwrap()["route_config"]["virtual_hosts"][0]["retry_policy"].clone();
    assert_eq!(retries(&one), retries(&plain));
    let mut filter = wasm_config(&plain);
    filter["configuration"]["value"]["nodes"] = json!({"header": "x-bulk-reshuffle-node"});
    assert_eq!(wasm_config(&one), filter);
    let cluster = |config: &Value| {
        let mut cluster = config["static_resources"]["clusters"][0].clone();
        for added in ["load_balancing_policy", "typed_extension_protocol_options"] {
            cluster.as_object_mut().unwrap().remove(added);
        }
        cluster
    };
    assert_eq!(cluster(&one), cluster(&plain));
}

// Configurations with TLS need certificates. They are validated by the tests that run them.
#[tokio::test]
async fn the_shipped_envoy_configurations_are_valid() {
    let tools = Tools::find().unwrap();
    for file in ["envoy.yaml", "buffer.yaml", "front.yaml", "one-cluster.yaml", "rollout.yaml"]
        .map(|name| format!("envoy/{name}"))
    {
        let output = tokio::process::Command::new(&tools.envoy)
            .args(["--mode", "validate", "-c", &file])
            .current_dir(&tools.root)
            .output()
            .await
            .unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{file}: {log}");
        // Envoy only logs a warning for deprecated fields.
        assert!(!log.to_lowercase().contains("deprecated"), "{file}: {log}");
    }
}
