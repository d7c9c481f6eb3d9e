//! The shipped dashboard, and its tests that do not need Prometheus.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use bulk_reshuffle_stack::Tools;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::example;

/// The values of Grafana's variables when all jobs, Envoys and search clusters are selected, and of its intervals.
const VARIABLES: [(&str, &str); 5] =
    [("$__rate_interval", "20s"), ("$__range", "5m"), ("$instance", ".+"), ("$job", ".+"), ("$coordinator", ".+")];

/// The JSON that Grafana imports.
pub struct Dashboard(Value);

/// A query of a panel.
pub struct Target {
    /// The PromQL expression, with all jobs, Envoys and search clusters selected.
    pub expression: String,
    /// The labels in the legend's format, which has `{{label}}` for a label's value.
    pub legend_labels: Vec<String>,
}

impl Dashboard {
    pub fn read() -> Self {
        Self(serde_json::from_str(&fs::read_to_string(example("dashboard.json")).unwrap()).unwrap())
    }

    /// Returns all panels except rows.
    pub fn panels(&self) -> impl Iterator<Item = &Value> {
        self.0["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row")
    }

    /// Returns the selector and the label that give the values of each variable.
    pub fn choices(&self) -> impl Iterator<Item = (String, &str)> {
        let variables = self.0["templating"]["list"].as_array().unwrap().iter();
        variables.filter_map(|variable| variable.pointer("/query/query")?.as_str()).map(|query| {
            let inner = query.strip_prefix("label_values(").and_then(|query| query.strip_suffix(')'));
            let parts = inner.and_then(|inner| inner.rsplit_once(", "));
            let (selector, label) = parts.unwrap_or_else(|| panic!("{query} is not label_values(…)"));
            (with_everything_selected(selector), label)
        })
    }
}

/// Returns the queries of a panel.
pub fn targets(panel: &Value) -> impl Iterator<Item = Target> {
    panel["targets"].as_array().into_iter().flatten().map(|target| {
        let legend = target["legendFormat"].as_str().unwrap_or_default().split("{{").skip(1);
        let legend_labels = legend.filter_map(|rest| rest.split("}}").next()).map(str::to_owned).collect();
        Target { expression: with_everything_selected(target["expr"].as_str().unwrap_or_default()), legend_labels }
    })
}

fn with_everything_selected(expression: &str) -> String {
    VARIABLES.iter().fold(expression.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// Returns the compiler's errors if the dashboard does not match Grafana's own types, otherwise an empty text.
fn misfits(dashboard: &str) -> String {
    let tools = Tools::find().unwrap();
    let (packages, folder) = (tools.folder("grafana-types").unwrap().join("node_modules"), TempDir::new().unwrap());
    std::os::unix::fs::symlink(&packages, folder.path().join("node_modules")).unwrap();
    fs::copy(tools.root.join("tests/e2e/tests/observability/grafana/file.ts"), folder.path().join("file.ts")).unwrap();
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
    let dashboard = Dashboard::read();
    for panel in dashboard.panels() {
        let title = panel["title"].as_str().unwrap_or_default();
        assert!(!title.is_empty(), "{panel}");
        let description = panel["description"].as_str().unwrap_or_default();
        assert!(description.ends_with('.'), "{title}: {description}");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title}");
        assert!(targets(panel).next().is_some(), "{title}");
    }
    assert!(dashboard.panels().count() > 30);
}

/// Checks that an operator finds every metric of the filter's table of metrics in the dashboard.
#[test]
fn every_metric_has_a_panel() {
    let page = fs::read_to_string(Tools::find().unwrap().root.join("envoy/operations.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `bulk_reshuffle_")?.split_once("` | "));
    let dashboard = Dashboard::read();
    let shown: Vec<String> = dashboard.panels().flat_map(targets).map(|target| target.expression).collect();
    let mut metrics = 0;
    for (name, kind) in rows {
        let series = format!("bulk_reshuffle_{name}{}{{", if kind.starts_with("histogram") { "_bucket" } else { "" });
        assert!(shown.iter().any(|expression| expression.contains(&series)), "no panel shows {series}");
        metrics += 1;
    }
    assert!(metrics > 30, "{metrics} metrics were read");
}

/// Checks that the dashboard can be imported into any Grafana, with any data source and any jobs.
#[test]
fn all_queries_use_the_variables() {
    let dashboard = Dashboard::read();
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let names: Vec<&Value> =
        dashboard.0["templating"]["list"].as_array().unwrap().iter().map(|variable| &variable["name"]).collect();
    assert_eq!(names, ["datasource", "job", "instance", "coordinator"]);
    for panel in dashboard.panels() {
        assert_eq!(panel["datasource"], source, "{}", panel["title"]);
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"], source, "{}", panel["title"]);
            let expression = target["expr"].as_str().unwrap();
            for selector in expression.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
                // Envoy's own metrics have no search cluster.
                let selector = match expression.contains("envoy_") {
                    true => Some(selector),
                    false => selector.strip_suffix(r#", coordinator=~"$coordinator""#),
                };
                let uses_all = selector.is_some_and(|rest| rest.ends_with(r#"job=~"$job", instance=~"$instance""#));
                assert!(uses_all, "{expression}");
            }
        }
    }
}

#[test]
fn no_panel_covers_another() {
    let dashboard = Dashboard::read();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard.0["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{}", panel["title"]);
        let [x, y, width, height] = ["x", "y", "w", "h"].map(|field| panel["gridPos"][field].as_u64().unwrap());
        assert!(x + width <= 24, "{}", panel["title"]);
        for cell in (x..x + width).flat_map(|x| (y..y + height).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{} covers another panel", panel["title"]);
        }
    }
}
