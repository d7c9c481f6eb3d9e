//! The shipped alerts, and tests of them and of the configuration with promtool.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use bulk_reshuffle_stack::Tools;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::example;

/// A shipped alert.
pub struct Rule {
    /// The alert's name.
    pub alert: String,
    /// The PromQL expression.
    pub expression: String,
    json: Value,
}

impl Rule {
    /// Reads all shipped alerts.
    pub fn all() -> Vec<Self> {
        let file: Value = serde_saphyr::from_str(&fs::read_to_string(example("rules.yaml")).unwrap()).unwrap();
        let rules = file["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
        let text = |rule: &Value, field: &str| {
            rule[field].as_str().unwrap_or_else(|| panic!("the rule is not an alert: {rule}")).to_owned()
        };
        rules
            .map(|rule| Self { alert: text(rule, "alert"), expression: text(rule, "expr"), json: rule.clone() })
            .collect()
    }
}

/// A section of the page about an alert.
pub struct Section {
    /// The alert's name.
    pub alert: String,
    /// Its list, without the heading.
    pub text: String,
}

impl Section {
    /// Reads the page's sections about alerts.
    pub fn all() -> Vec<Self> {
        let page = fs::read_to_string(example("README.md")).unwrap();
        let sections =
            page.split("\n#").filter_map(|section| section.strip_prefix("## BulkReshuffle")?.split_once('\n'));
        sections
            .map(|(name, text)| Self { alert: format!("BulkReshuffle{name}"), text: text.trim().to_owned() })
            .collect()
    }

    /// Returns the regular expressions with which its commands select metrics of Envoy: those that say where to look, and
    /// those that show that it is over.
    pub fn filters(&self) -> [Vec<&str>; 2] {
        let (look, over) = self.text.split_once("\n- Over: ").unwrap_or((&self.text, ""));
        [look, over]
            .map(|text| text.split("/stats?filter=").skip(1).filter_map(|rest| rest.split('\'').next()).collect())
    }
}

/// Runs promtool; returns whether it succeeds, and its output.
fn promtool(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let program = Tools::find().unwrap().folder("prometheus").unwrap().join("promtool");
    let output = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[track_caller]
fn assert_success(arguments: &[&str]) {
    let (is_ok, output) = promtool(&example(""), arguments);
    assert!(is_ok, "{output}");
}

#[test]
fn prometheus_accepts_the_configuration_and_the_rules() {
    assert_success(&["check", "config", "--lint=all", "--lint-fatal", "prometheus.yaml"]);
    assert_success(&["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"]);
}

#[test]
fn each_alert_fires_only_when_it_should() {
    assert_success(&["test", "rules", "rules.test.yaml"]);
}

/// Returns broken variants of a rule: one never fires, one fires at once, one fires below each threshold, and one does
/// not tell the search clusters of an Envoy apart.
fn broken(rule: &Rule) -> Vec<Value> {
    let with = |field: &str, value: Value| {
        let mut broken = rule.json.clone();
        broken[field] = value;
        broken
    };
    let expression = &rule.expression;
    let mut all = vec![with("expr", json!(format!("({expression}) and on () vector(0) > 1")))];
    if rule.json.get("for").is_some() {
        all.push(with("for", json!("0s")));
    }
    if expression.contains(", coordinator") {
        all.push(with("expr", json!(expression.replace(", coordinator", ""))));
    }
    for (place, _) in expression.match_indices(" > ") {
        let (before, after) = expression.split_at(place + 3);
        let rest = after.trim_start_matches(|one: char| one.is_ascii_digit() || one == '.');
        all.push(with("expr", json!(format!("{before}-1{rest}"))));
    }
    all
}

#[test]
fn the_rule_tests_detect_every_broken_rule() {
    let rules = Rule::all();
    let folder = TempDir::new().unwrap();
    fs::copy(example("rules.test.yaml"), folder.path().join("rules.test.yaml")).unwrap();
    for rule in &rules {
        let others = rules.iter().filter(|other| other.alert != rule.alert).map(|other| other.json.clone());
        let others: Vec<Value> = others.collect();
        for broken in broken(rule) {
            let all = [&others[..], std::slice::from_ref(&broken)].concat();
            let file = json!({"groups": [{"name": "broken", "rules": all}]});
            fs::write(folder.path().join("rules.yaml"), file.to_string()).unwrap();
            let (is_ok, output) = promtool(folder.path(), &["test", "rules", "rules.test.yaml"]);
            assert!(!is_ok && output.contains(&rule.alert), "the tests accept {broken}: {output}");
        }
    }
}

#[test]
fn every_alert_has_a_summary_a_description_an_action_and_a_severity() {
    let mut names = BTreeSet::new();
    for rule in Rule::all() {
        assert!(names.insert(rule.alert.clone()), "{}", rule.alert);
        for annotation in ["summary", "description", "action"] {
            assert!(rule.json["annotations"][annotation].is_string(), "{} has no {annotation}", rule.alert);
        }
        let severity = rule.json["labels"]["severity"].as_str().unwrap();
        assert!(["warning", "critical"].contains(&severity), "{}: {severity}", rule.alert);
    }
}

#[test]
fn the_page_lists_every_alert() {
    let page = fs::read_to_string(example("README.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `BulkReshuffle")).map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        (format!("BulkReshuffle{}", cells[0].trim_end_matches('`')), cells[1].to_owned())
    });
    let rules = Rule::all();
    let alerts =
        rules.iter().map(|rule| (rule.alert.clone(), rule.json["labels"]["severity"].as_str().unwrap().into()));
    assert_eq!(rows.collect::<Vec<_>>(), alerts.collect::<Vec<_>>());
}

#[test]
fn every_alert_names_its_section_which_says_where_to_look_and_when_it_is_over() {
    let sections = Section::all();
    let (rules, names) = (Rule::all(), sections.iter().map(|section| section.alert.clone()));
    assert_eq!(names.collect::<Vec<_>>(), rules.iter().map(|rule| rule.alert.clone()).collect::<Vec<_>>());
    for (rule, Section { alert, text }) in rules.iter().zip(&sections) {
        let link = format!("examples/observability/README.md#{}", alert.to_lowercase());
        assert_eq!(rule.json["annotations"]["runbook"], link, "{alert}");
        let items: Vec<&str> = text.lines().filter(|line| line.starts_with("- ")).collect();
        assert!(items[0].starts_with("- Look") && items.last().unwrap().starts_with("- Over: "), "{alert}: {text}");
        let says_where = ["`curl ", "(#bulkreshuffle"].iter().any(|place| text.contains(place));
        assert!(says_where, "{alert} has neither a command nor a link to another alert's section: {text}");
        assert!(text.lines().count() <= 8, "{alert} is too long: {text}");
    }
}
