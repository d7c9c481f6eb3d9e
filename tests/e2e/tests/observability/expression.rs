use std::collections::BTreeSet;

use serde_json::Value;

/// A selector of series in a PromQL expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    /// The metric's name, or a pattern for names.
    pub metric: String,
    /// Labels that must have a certain value.
    pub exact: Vec<(String, String)>,
    /// Labels that the expression uses to select, group or match series.
    pub labels: BTreeSet<String>,
}

impl Selector {
    /// Returns all selectors of an expression that Prometheus has parsed: `GET /api/v1/parse_query`.
    pub fn all(syntax_tree: &Value) -> Vec<Self> {
        let mut found = Vec::new();
        collect(syntax_tree, &BTreeSet::new(), &mut found);
        found
    }
}

/// Collects selectors. If an expression is grouped or matched by a label, all selectors inside it use the label.
fn collect(node: &Value, used_outside: &BTreeSet<String>, found: &mut Vec<Selector>) {
    let mut used = used_outside.clone();
    for place in ["/grouping", "/matching/labels", "/matching/include"] {
        used.extend(strings(node.pointer(place)));
    }
    if let Some(matchers) = node.get("matchers").and_then(Value::as_array) {
        let selector = selector(node, matchers, used);
        // Each alternative of a pattern must exist.
        let metrics = selector.metric.split('|').map(str::to_owned);
        found.extend(metrics.map(|metric| Selector { metric, ..selector.clone() }));
        return;
    }
    match node {
        Value::Object(fields) => fields.values().for_each(|field| collect(field, &used, found)),
        Value::Array(list) => list.iter().for_each(|item| collect(item, &used, found)),
        _ => {}
    }
}

fn selector(node: &Value, matchers: &[Value], mut labels: BTreeSet<String>) -> Selector {
    let text = |node: &Value, field: &str| node.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (mut exact, mut metric) = (Vec::new(), text(node, "name"));
    for matcher in matchers {
        let name = text(matcher, "name");
        if name == "__name__" {
            metric = text(matcher, "value");
            continue;
        }
        if text(matcher, "type") == "=" {
            exact.push((name.clone(), text(matcher, "value")));
        }
        labels.insert(name);
    }
    Selector { metric, exact, labels }
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = String> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn outer_grouping_labels_apply_to_inner_selectors() {
        // sum by (a) (rate(m{b="1",c=~"x"}[5m])) / on (a) n
        let matcher = |name: &str, kind: &str, value: &str| json!({"name": name, "type": kind, "value": value});
        let rate = json!({"type": "call", "args": [{"type": "matrixSelector", "name": "m", "matchers": [
            matcher("__name__", "=", "m"), matcher("b", "=", "1"), matcher("c", "=~", "x"),
        ]}]});
        let sum = json!({"type": "aggregation", "grouping": ["a"], "expr": rate});
        let other = json!({"type": "vectorSelector", "name": "n", "matchers": [matcher("__name__", "=", "n")]});
        let tree =
            json!({"type": "binaryExpr", "matching": {"labels": ["a"], "include": []}, "lhs": sum, "rhs": other});
        let selector = |metric: &str, exact: &[(&str, &str)], labels: &[&str]| Selector {
            metric: metric.into(),
            exact: exact.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            labels: labels.iter().map(|label| (*label).into()).collect(),
        };
        assert_eq!(Selector::all(&tree), [selector("m", &[("b", "1")], &["a", "b", "c"]), selector("n", &[], &["a"])]);
    }

    #[test]
    fn each_alternative_of_a_pattern_for_names_is_a_selector() {
        // {__name__=~"m.+|n"}
        let matcher = json!({"name": "__name__", "type": "=~", "value": "m.+|n"});
        let tree = json!({"type": "vectorSelector", "name": "", "matchers": [matcher]});
        let metrics: Vec<String> = Selector::all(&tree).into_iter().map(|selector| selector.metric).collect();
        assert_eq!(metrics, ["m.+", "n"]);
    }
}
