use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::example;

/// The values of Grafana's variables when all jobs and Envoys are selected, and of its intervals.
const VARIABLES: [(&str, &str); 4] =
    [("$__rate_interval", "20s"), ("$__range", "5m"), ("$instance", ".+"), ("$job", ".+")];

/// The shipped dashboard.
#[derive(Debug)]
pub struct Dashboard {
    /// The JSON that Grafana imports.
    pub json: Value,
}

/// A panel of the dashboard, except a row.
#[derive(Debug)]
pub struct Panel<'a> {
    /// The panel's JSON.
    pub json: &'a Value,
    /// The panel's title.
    pub title: &'a str,
}

/// A query of a panel.
#[derive(Debug, Clone)]
pub struct Target {
    /// The PromQL expression, with all jobs and Envoys selected.
    pub expression: String,
    /// The legend's format, in which `{{label}}` is a label's value.
    pub legend: String,
}

impl Dashboard {
    /// Reads the shipped dashboard.
    pub fn read() -> Result<Self> {
        let text = fs::read_to_string(example("dashboard.json"))?;
        Ok(Self { json: serde_json::from_str(&text)? })
    }

    /// Returns all panels except rows.
    pub fn panels(&self) -> impl Iterator<Item = Panel<'_>> {
        let all = self.json.get("panels").and_then(Value::as_array).into_iter().flatten();
        let shown = all.filter(|panel| panel.get("type").is_some_and(|kind| kind != "row"));
        shown.map(|json| Panel { json, title: json.get("title").and_then(Value::as_str).unwrap_or_default() })
    }

    /// Returns the selector and the label that give the values of each variable.
    pub fn choices(&self) -> Result<Vec<(String, String)>> {
        let variables = self
            .json
            .pointer("/templating/list")
            .and_then(Value::as_array)
            .context("the dashboard has no variables")?;
        let queries = variables.iter().filter_map(|variable| variable.pointer("/query/query")?.as_str());
        queries
            .map(|query| {
                let inner = query.strip_prefix("label_values(").and_then(|query| query.strip_suffix(')'));
                let (selector, label) = inner
                    .and_then(|inner| inner.rsplit_once(", "))
                    .context("a variable's query is not label_values(…)")?;
                Ok((with_everything_selected(selector), label.to_owned()))
            })
            .collect()
    }
}

impl Panel<'_> {
    /// Returns the panel's queries.
    pub fn targets(&self) -> Vec<Target> {
        let targets = self.json.get("targets").and_then(Value::as_array).into_iter().flatten();
        let text = |target: &Value, field: &str| target.get(field)?.as_str().map(str::to_owned);
        targets
            .map(|target| Target {
                expression: with_everything_selected(&text(target, "expr").unwrap_or_default()),
                legend: text(target, "legendFormat").unwrap_or_default(),
            })
            .collect()
    }
}

impl Target {
    /// Returns the labels in the legend's format.
    pub fn legend_labels(&self) -> impl Iterator<Item = &str> {
        self.legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next())
    }
}

fn with_everything_selected(expression: &str) -> String {
    VARIABLES.iter().fold(expression.to_owned(), |text, (name, value)| text.replace(name, value))
}
