//! Tests of the dashboard that do not need Prometheus.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use bulk_reshuffle_observability::{Dashboard, example};
use bulk_reshuffle_stack::Tools;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Returns the compiler's errors if the dashboard does not match Grafana's own types, otherwise an empty text.
fn misfits(dashboard: &str) -> String {
    let tools = Tools::find().unwrap();
    let (packages, folder) = (tools.folder("grafana-types").unwrap().join("node_modules"), TempDir::new().unwrap());
    std::os::unix::fs::symlink(&packages, folder.path().join("node_modules")).unwrap();
    fs::copy(tools.root.join("tests/observability/grafana/file.ts"), folder.path().join("file.ts")).unwrap();
    let program = format!("import {{ File }} from \"./file\";\nexport default {dashboard} satisfies File;\n");
    fs::write(folder.path().join("dashboard.ts"), program).unwrap();
    let output = Command::new(tools.folder("node").unwrap().join("bin/node"))
        .arg(packages.join("typescript/bin/tsc"))
        .args(["--noEmit", "--skipLibCheck", "--strict", "--preserveSymlinks", "dashboard.ts"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_dashboard_matches_grafanas_types() {
    let dashboard = fs::read_to_string(example("dashboard.json")).unwrap();
    let dashboard = dashboard.trim();
    assert_eq!(misfits(dashboard), "");
    for (right, wrong) in [
        ("\"type\": \"timeseries\"", "\"type\": \"graph\""),
        ("\"graphMode\": \"area\"", "\"graphMode\": \"areas\""),
        ("\"stacking\": {", "\"stacked\": {"),
        ("\"gridPos\": {", "\"grid\": {"),
    ] {
        assert!(dashboard.contains(right), "{right}");
        assert_ne!(misfits(&dashboard.replacen(right, wrong, 1)), "", "the compiler accepts {wrong}");
    }
}

#[test]
fn every_panel_has_a_title_a_description_and_a_unit() {
    let dashboard = Dashboard::read().unwrap();
    for panel in dashboard.panels() {
        assert!(!panel.title.is_empty(), "{}", panel.json);
        let description = panel.json["description"].as_str().unwrap_or_default();
        assert!(description.ends_with('.'), "{}: {description}", panel.title);
        assert!(panel.json["fieldConfig"]["defaults"]["unit"].is_string(), "{}", panel.title);
        assert!(!panel.targets().is_empty(), "{}", panel.title);
    }
    assert!(dashboard.panels().count() > 30);
}

/// Checks that the dashboard can be imported into any Grafana, with any data source and any jobs.
#[test]
fn all_queries_use_the_variables() {
    let dashboard = Dashboard::read().unwrap();
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let names: Vec<&Value> =
        dashboard.json["templating"]["list"].as_array().unwrap().iter().map(|variable| &variable["name"]).collect();
    assert_eq!(names, ["datasource", "job", "instance"]);
    for panel in dashboard.panels() {
        assert_eq!(panel.json["datasource"], source, "{}", panel.title);
        for target in panel.json["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"], source, "{}", panel.title);
            let expression = target["expr"].as_str().unwrap();
            let selectors = expression.matches('{').count();
            assert_eq!(expression.matches(r#"job=~"$job", instance=~"$instance"}"#).count(), selectors, "{expression}");
        }
    }
}

#[test]
fn no_panel_covers_another() {
    let dashboard = Dashboard::read().unwrap();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard.json["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{}", panel["title"]);
        let [x, y, width, height] = ["x", "y", "w", "h"].map(|field| panel["gridPos"][field].as_u64().unwrap());
        assert!(x + width <= 24, "{}", panel["title"]);
        for cell in (x..x + width).flat_map(|x| (y..y + height).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{} covers another panel", panel["title"]);
        }
    }
}
