//! What users rely on in one version holds in later ones: its configurations are read as before, and its metrics,
//! reasons and alerts keep their names. The CHANGELOG names all that changes nevertheless.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use bulk_reshuffle::config::{Config, RuntimeSettings};
use bulk_reshuffle::engine::metrics::{Families, Kind};
use bulk_reshuffle::engine::{PassThrough, Why};
use bulk_reshuffle_docs::{Page, root};
use regex_lite::Regex;
use serde_json::{Map, Value, json};

/// The folder with a file for each version that has a date in the CHANGELOG.
const VERSIONS: &str = "tests/docs/tests/pages/versions";

/// The page with the commands of a release.
const RELEASE: &str = ".github/RELEASE.md";

/// Other files that name the newest version.
const NAMES_VERSION: [&str; 10] = [
    ".github/ISSUE_TEMPLATE/bug.yml",
    ".github/ISSUE_TEMPLATE/question.yml",
    "Makefile",
    "examples/envoy-gateway/bulk-reshuffle.yaml",
    "examples/explorer/README.md",
    "examples/explorer/package/package.json",
    "examples/kubernetes/Chart.yaml",
    "examples/kubernetes/README.md",
    "filter/README.md",
    "istio/base/values.yaml",
];

/// Returns the versions that a text names as the newest one, without repetitions.
fn names_version(text: &str) -> Vec<String> {
    let places = r#"(?:bulk-reshuffle(?:-explorer)?[:-]|TAG=v|"version": "|placeholder: |ersion: )(\d+\.\d+\.\d+)"#;
    let found =
        Regex::new(places).unwrap().captures_iter(text).map(|found| found[1].to_owned()).collect::<BTreeSet<_>>();
    found.into_iter().collect()
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A version in the CHANGELOG.
struct Version {
    number: String,
    is_released: bool,
    changes: String,
}

/// Returns all versions, the newest first.
fn versions() -> Vec<Version> {
    let changelog = text("CHANGELOG.md");
    let sections = changelog.split("\n## ").skip(1).map(|section| {
        let (heading, changes) = section.split_once('\n').unwrap();
        let (number, date) = heading.split_once(", ").unwrap();
        Version { number: number.into(), is_released: date != "not released yet", changes: changes.into() }
    });
    sections.collect()
}

/// Returns what users rely on in this commit.
fn current() -> Value {
    let every: Value = serde_json::from_str(&text("filter/core/src/config/every_setting.json")).unwrap();
    let mut configurations = Map::from_iter([("every field".to_owned(), every["configuration"].clone())]);
    for file in ["envoy.yaml", "buffer.yaml", "one-cluster.yaml", "tls.yaml", "parts/filter.yaml"] {
        configurations.insert(format!("envoy/{file}"), configuration(&text(&format!("envoy/{file}"))));
    }
    let metrics: Map<String, Value> = Families::all()
        .map(|family| {
            let kind = match family.kind {
                Kind::Counter => "counter",
                Kind::Gauge(_) => "gauge",
                Kind::Histogram => "histogram",
            };
            let labels: Vec<&str> = family.labels.iter().map(|label| label.name()).collect();
            (family.name.to_owned(), json!({"type": kind, "labels": labels}))
        })
        .collect();
    let alert = Regex::new(r"- alert: (\w+)").unwrap();
    let rules = text("examples/observability/rules.yaml");
    json!({
        "configurations": configurations,
        "defaults": defaults(),
        "run_time_settings": every["cluster"],
        "metrics": metrics,
        "reasons": PassThrough::all().map(|reason| Why::from(reason).reason).collect::<Vec<_>>(),
        "alerts": alert.captures_iter(&rules).map(|found| found[1].to_owned()).collect::<Vec<_>>(),
    })
}

/// Returns the filter's configuration in a configuration of Envoy.
fn configuration(yaml: &str) -> Value {
    let start =
        Regex::new(r#"\{\s*"coordinator""#).unwrap().find(yaml).expect("no configuration of the filter").start();
    serde_json::Deserializer::from_str(&yaml[start..]).into_iter().next().unwrap().unwrap()
}

fn defaults() -> Value {
    serde_json::to_value(Config::read(br#"{"coordinator":"es"}"#).unwrap()).unwrap()
}

/// Returns each leaf with its path, such as `hold.interval`. A list is a leaf.
fn leaves(value: &Value, path: &str, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                leaves(value, &format!("{path}.{name}"), found);
            }
        }
        leaf => _ = found.insert(path.trim_start_matches('.').to_owned(), leaf.clone()),
    }
}

/// Returns the paths of the leaves that the other value does not have.
fn differences(one: &Value, other: &Value) -> Vec<String> {
    let (mut ones, mut others) = (BTreeMap::new(), BTreeMap::new());
    leaves(one, "", &mut ones);
    leaves(other, "", &mut others);
    ones.into_iter().filter(|(path, value)| others.get(path) != Some(value)).map(|(path, _)| path).collect()
}

/// Calls `check` for each released version, with its file and the changes since then.
fn for_each_released(check: impl Fn(&str, &Value, &str)) {
    let versions = versions();
    let mut changes = String::new();
    let mut count = 0;
    for Version { number, is_released, changes: own } in versions {
        if is_released {
            let file = format!("{VERSIONS}/{number}.json");
            check(&number, &serde_json::from_str(&text(&file)).unwrap(), &changes);
            count += 1;
        }
        changes += &own;
    }
    assert!(count > 0);
}

#[test]
fn the_newest_version_is_that_of_the_crates_and_has_a_file_if_it_is_released() {
    let newest = versions().remove(0);
    assert_eq!(newest.number, env!("CARGO_PKG_VERSION"));
    let file = root().join(VERSIONS).join(format!("{}.json", newest.number));
    if !newest.is_released {
        return assert!(!file.exists(), "{}: the version is not released yet", file.display());
    }
    let current = serde_json::to_string_pretty(&current()).unwrap() + "\n";
    if std::env::var_os("RENEW").is_some() {
        fs::write(&file, &current).unwrap();
    }
    assert!(fs::read_to_string(&file).is_ok_and(|text| text == current), "RENEW=1 writes {}", file.display());
}

#[test]
fn pages_and_manifests_name_the_newest_version() {
    for file in NAMES_VERSION {
        assert_eq!(names_version(&text(file)), [env!("CARGO_PKG_VERSION")], "{file}");
    }
}

/// In a repository of their own, with the files that name the version.
#[test]
fn the_commands_of_a_release_change_every_place_that_names_the_version() {
    let folder = tempfile::tempdir().unwrap();
    for file in NAMES_VERSION.iter().chain(&["Cargo.toml", "CHANGELOG.md"]) {
        let copy = folder.path().join(file);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::write(copy, text(file)).unwrap();
    }
    let run = |commands: &str| {
        let status = Command::new("bash").args(["-euc", commands]).current_dir(&folder).status();
        assert!(status.unwrap().success(), "{commands}");
    };
    let read = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
    let page = Page::all(&root()).unwrap().into_iter().find(|page| page.path == RELEASE).unwrap();
    let block = |begins: &str| &page.blocks.iter().find(|block| block.text.starts_with(begins)).unwrap().text;
    let version = env!("CARGO_PKG_VERSION");
    run("git init -q && git add .");

    run(block("sed -i"));
    assert!(Regex::new(&format!(r"\n## {version}, 20\d\d-\d\d-\d\d\n")).unwrap().is_match(&read("CHANGELOG.md")));
    run("git -c user.name=a -c user.email=a@b commit -qm a");
    run(&block("git tag").replace("git push origin", "git rev-parse -q --verify"));

    let open = block("OLD=");
    run(&open.replace("cargo update --workspace", ""));
    let next = Regex::new("NEW=(.*)").unwrap().captures(open).unwrap()[1].to_owned();
    for file in NAMES_VERSION {
        assert_eq!(names_version(&read(file)), [next.as_str()], "{file}");
    }
    assert!(read("Cargo.toml").contains(&format!("\nversion = \"{next}\"\n")));
    assert!(read("CHANGELOG.md").contains(&format!("\n\n## {next}, not released yet\n\n## {version}, ")));
}

#[test]
fn pages_and_configurations_name_the_oldest_envoy_that_is_tested() {
    let tool = Regex::new(r#"wheel\("envoy-(\d+\.\d+)""#).unwrap();
    let oldest = tool.captures(&text("tests/tools/fetch.py")).unwrap()[1].to_owned();
    let claim = Regex::new(r"(?:Envoy|Envoy\*\*|Envoy \||Envoy \() ?(\d+\.\d+) or (?:newer|Istio)").unwrap();
    for file in [
        ".github/SECURITY.md",
        "README.md",
        "envoy/README.md",
        "envoy/buffer.yaml",
        "envoy/envoy.yaml",
        "envoy/gateway.yaml",
        "envoy/own-cluster.md",
        "envoy/rollout.yaml",
        "envoy/tls.yaml",
        "istio/README.md",
    ] {
        let text = text(file);
        let claims: Vec<_> = claim.captures_iter(&text).map(|found| found[1].to_owned()).collect();
        assert!(!claims.is_empty() && claims.iter().all(|version| *version == oldest), "{file}: {claims:?}");
    }
}

#[test]
fn no_crate_of_the_filter_needs_a_newer_rust_than_the_manifest_states() {
    // The platform of the tests: cargo has downloaded all crates for it.
    let platform = format!("--filter-platform={}-unknown-linux-gnu", std::env::consts::ARCH);
    let command = ["metadata", "--locked", "--offline", "--format-version=1", &platform];
    let output = Command::new(env!("CARGO")).args(command).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let minor = |version: &str| version.split('.').nth(1).unwrap().parse::<u32>().unwrap();
    let stated = minor(env!("CARGO_PKG_RUST_VERSION"));
    let by_id: BTreeMap<&str, &Value> =
        metadata["packages"].as_array().unwrap().iter().map(|one| (one["id"].as_str().unwrap(), one)).collect();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let mut waiting: Vec<&str> =
        by_id.iter().filter(|(_, package)| package["name"] == "bulk-reshuffle-filter").map(|(id, _)| *id).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !seen.insert(id) {
            continue;
        }
        let needed = by_id[id]["rust_version"].as_str().map_or(0, minor);
        assert!(needed <= stated, "{id} needs Rust 1.{needed}");
        let node = nodes.iter().find(|node| node["id"] == id).unwrap();
        for dependency in node["deps"].as_array().unwrap() {
            // Kinds other than null are those of tests and build scripts.
            if dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null()) {
                waiting.push(dependency["pkg"].as_str().unwrap());
            }
        }
    }
    assert!(seen.len() > 20, "{seen:?}");
}

#[test]
fn a_configuration_of_an_earlier_version_means_the_same() {
    for_each_released(|version, interface, changes| {
        for (name, configuration) in interface["configurations"].as_object().unwrap() {
            let config = Config::read(configuration.to_string().as_bytes())
                .unwrap_or_else(|error| panic!("{name} of {version}: {error}"));
            let mut differences = differences(configuration, &serde_json::to_value(config).unwrap());
            differences.retain(|path| !path.starts_with("credentials."));
            assert_eq!(differences, [""; 0], "{name} of {version}");
        }
        let mut old_defaults = BTreeMap::new();
        leaves(&interface["defaults"], "", &mut old_defaults);
        for (path, default) in old_defaults {
            let mut config = path.rsplit('.').fold(default, |value, name| json!({name: value}));
            config["coordinator"] = json!("es");
            let config = Config::read(config.to_string().as_bytes()).unwrap();
            let is_default = serde_json::to_value(config).unwrap() == defaults();
            assert!(
                is_default || changes.contains(&format!("`{path}`")),
                "the CHANGELOG lacks the new default of {path}"
            );
        }
        let settings =
            json!({"persistent": {"cluster": {"metadata": {"bulk_reshuffle": interface["run_time_settings"]}}}});
        let (_, ignored) = RuntimeSettings::read(settings.to_string().as_bytes()).unwrap();
        assert_eq!(ignored, [""; 0], "{version}");
    });
}

#[test]
fn metrics_reasons_and_alerts_of_an_earlier_version_keep_their_names_or_are_in_the_changelog() {
    let names = |value: &Value| -> BTreeSet<String> { serde_json::from_value(value.clone()).unwrap() };
    let current = current();
    for_each_released(|version, interface, changes| {
        let is_named = |name: &str| changes.contains(&format!("`{name}`"));
        for (name, metric) in interface["metrics"].as_object().unwrap().iter().filter(|(name, _)| !is_named(name)) {
            let now = &current["metrics"][name];
            assert_eq!(now["type"], metric["type"], "{name} of {version}");
            let (labels, before) = (names(&now["labels"]), names(&metric["labels"]));
            assert!(labels.is_superset(&before), "{name} of {version} has lost a label");
            for label in labels.difference(&before) {
                assert!(changes.contains(&format!("label `{label}`")), "the CHANGELOG lacks the new label {label}");
            }
        }
        for list in ["reasons", "alerts"] {
            let mut lost: Vec<_> = names(&interface[list]).difference(&names(&current[list])).cloned().collect();
            lost.retain(|name| !is_named(name));
            assert_eq!(lost, [""; 0], "the CHANGELOG lacks {list} of {version}");
        }
    });
}
