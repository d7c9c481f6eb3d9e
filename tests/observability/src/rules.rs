use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::example;

/// The shipped alerts.
#[derive(Debug)]
pub struct Rules(Vec<Rule>);

/// A shipped alert.
#[derive(Debug)]
pub struct Rule {
    /// The alert's name.
    pub alert: String,
    /// The PromQL expression.
    pub expression: String,
    /// The rule's JSON, for Prometheus.
    pub json: Value,
}

impl Rules {
    /// Reads the shipped alerts.
    pub fn read() -> Result<Self> {
        let file: Value = serde_saphyr::from_str(&fs::read_to_string(example("rules.yaml"))?)?;
        let groups = file.get("groups").and_then(Value::as_array).context("rules.yaml has no groups")?;
        let rules = groups.iter().filter_map(|group| group.get("rules")?.as_array()).flatten();
        let read = |rule: &Value| {
            let text = |field: &str| rule.get(field)?.as_str().map(str::to_owned);
            Some(Rule { alert: text("alert")?, expression: text("expr")?, json: rule.clone() })
        };
        let rules = rules.map(|rule| read(rule).with_context(|| format!("the rule is not an alert: {rule}")));
        Ok(Self(rules.collect::<Result<_>>()?))
    }

    /// Returns all alerts.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }
}
