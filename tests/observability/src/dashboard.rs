use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::example;

/// What Grafana puts for its variables when all jobs and Envoys are chosen, and for its times.
const VARIABLES: [(&str, &str); 4] =
    [("$__rate_interval", "20s"), ("$__range", "5m"), ("$instance", ".+"), ("$job", ".+")];

/// The shipped dashboard.
#[derive(Debug)]
pub struct Dashboard {
    /// As Grafana imports it.
    pub json: Value,
}

/// One of its panels that shows something.
#[derive(Debug)]
pub struct Panel<'a> {
    /// As Grafana has it.
    pub json: &'a Value,
    /// What stands above it.
    pub title: &'a str,
}

/// What a panel shows.
#[derive(Debug, Clone)]
pub struct Target {
    /// In PromQL, with everything chosen.
    pub expression: String,
    /// How a line is called: `{{label}}` stands for a label's value.
    pub legend: String,
}

impl Dashboard {
    /// Reads it.
    pub fn read() -> Result<Self> {
        let text = fs::read_to_string(example("dashboard.json"))?;
        Ok(Self { json: serde_json::from_str(&text)? })
    }

    /// The panels that show something.
    pub fn panels(&self) -> impl Iterator<Item = Panel<'_>> {
        let all = self.json.get("panels").and_then(Value::as_array).into_iter().flatten();
        let shown = all.filter(|panel| panel.get("type").is_some_and(|kind| kind != "row"));
        shown.map(|json| Panel { json, title: json.get("title").and_then(Value::as_str).unwrap_or_default() })
    }

    /// What its variables can be chosen from: the selector, and the label whose values they are.
    pub fn choices(&self) -> Result<Vec<(String, String)>> {
        let variables = self.json.pointer("/templating/list").and_then(Value::as_array).context("no variables")?;
        let queries = variables.iter().filter_map(|variable| variable.pointer("/query/query")?.as_str());
        queries
            .map(|query| {
                let inner = query.strip_prefix("label_values(").and_then(|query| query.strip_suffix(')'));
                let (selector, label) = inner.and_then(|inner| inner.rsplit_once(", ")).context("no label_values")?;
                Ok((with_everything_chosen(selector), label.to_owned()))
            })
            .collect()
    }
}

impl Panel<'_> {
    /// What it shows.
    pub fn targets(&self) -> Vec<Target> {
        let targets = self.json.get("targets").and_then(Value::as_array).into_iter().flatten();
        let text = |target: &Value, field: &str| target.get(field)?.as_str().map(str::to_owned);
        targets
            .map(|target| Target {
                expression: with_everything_chosen(&text(target, "expr").unwrap_or_default()),
                legend: text(target, "legendFormat").unwrap_or_default(),
            })
            .collect()
    }
}

impl Target {
    /// The labels that the legend names.
    pub fn legend_labels(&self) -> impl Iterator<Item = &str> {
        self.legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next())
    }
}

fn with_everything_chosen(expression: &str) -> String {
    VARIABLES.iter().fold(expression.to_owned(), |text, (name, value)| text.replace(name, value))
}
