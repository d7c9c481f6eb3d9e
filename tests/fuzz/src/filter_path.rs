use bulk_reshuffle::bulk::{Answer, FilterPath};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::answer::reply;
use crate::pieces::line;

/// The maximum depth of an answer that is compared with the reference.
const MAX_DEPTH: usize = 90;

/// Checks a `filter_path` in one line, and a JSON text after it.
///
/// The filtered text must equal that of a simple reference, which checks the path of each value. Filtering it again
/// must change nothing. A bulk answer that is built item by item must be filtered to the same text.
pub fn filter_path(input: &[u8]) {
    let (pattern, text) = line(input);
    let Ok(pattern) = std::str::from_utf8(pattern) else { return };
    let Some(filter_path) = FilterPath::parse(pattern) else { return };
    let Some(filtered) = filter_path.apply(text) else {
        assert!(serde_json::from_slice::<&serde_json::value::RawValue>(text).is_err(), "JSON was not filtered");
        return;
    };
    assert_eq!(filter_path.apply(&filtered).as_ref(), Some(&filtered), "filtering it again changes it");
    if let Ok(value) = serde_json::from_slice::<Value>(text) {
        check_reference(pattern, &filter_path, &value);
    }
    if let Ok(answer) = Answer::read(text.to_vec(), text.len()) {
        check_reply(&answer, &filter_path);
    }
}

fn check_reference(pattern: &str, filter_path: &FilterPath, value: &Value) {
    // This text has no duplicate keys.
    let text = value.to_string();
    let filtered = filter_path.apply(text.as_bytes()).expect("JSON");
    let filtered: Value = serde_json::from_slice(&filtered).expect("the filtered text is not JSON");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    if depth(&value) < MAX_DEPTH {
        assert_eq!(filtered, Reference::new(pattern).apply(&value), "{pattern} on {text}");
    }
}

fn check_reply(answer: &Answer, filter_path: &FilterPath) {
    let whole = reply(answer, &FilterPath::default(), true);
    assert_eq!(Some(reply(answer, filter_path, true)), filter_path.apply(&whole));
}

fn depth(value: &Value) -> usize {
    let inside = match value {
        Value::Array(values) => values.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + inside.unwrap_or_default()
}

/// The rules as documented, by the names that lead to a value. An array has no name.
struct Reference {
    included: Vec<Vec<String>>,
    excluded: Vec<Vec<String>>,
}

impl Reference {
    fn new(pattern: &str) -> Self {
        let decoded = percent_decode_str(pattern).decode_utf8_lossy();
        let patterns: Vec<&str> = decoded.split(',').filter(|pattern| !pattern.is_empty()).collect();
        let names = |pattern: &str| pattern.trim_matches(' ').split('.').map(str::to_owned).collect();
        let (excluded, included): (Vec<&str>, Vec<&str>) =
            patterns.into_iter().partition(|pattern| pattern.starts_with('-'));
        Self {
            included: included.into_iter().map(names).collect(),
            excluded: excluded.into_iter().map(|pattern| names(&pattern[1..])).collect(),
        }
    }

    fn apply(&self, value: &Value) -> Value {
        self.left_of(value, &mut Vec::new()).unwrap_or_else(|| Map::new().into())
    }

    fn left_of(&self, value: &Value, path: &mut Vec<String>) -> Option<Value> {
        let excluded = self.excluded.iter().any(|pattern| is_above(pattern, path));
        let included = self.included.is_empty() || self.included.iter().any(|pattern| is_above(pattern, path));
        // A value inside might be left out.
        let in_part = self.excluded.iter().any(|pattern| leads_to(pattern, path));
        match value {
            _ if excluded => None,
            _ if included && !in_part => Some(value.clone()),
            Value::Array(values) => {
                let left: Vec<_> = values.iter().filter_map(|value| self.left_of(value, path)).collect();
                (!left.is_empty()).then_some(left.into())
            }
            Value::Object(fields) => {
                let mut left = Map::new();
                for (name, value) in fields {
                    path.push(name.clone());
                    left.extend(self.left_of(value, path).map(|value| (name.clone(), value)));
                    path.pop();
                }
                (!left.is_empty()).then_some(left.into())
            }
            _ => included.then(|| value.clone()),
        }
    }
}

/// Returns whether a pattern matches a value or one that contains it.
fn is_above(pattern: &[String], path: &[String]) -> bool {
    (1..=path.len()).any(|end| fits(pattern, &path[..end]))
}

fn fits(pattern: &[String], path: &[String]) -> bool {
    match pattern.split_first() {
        None => path.is_empty(),
        Some((first, rest)) if first == "**" => (1..=path.len()).any(|names| fits(rest, &path[names..])),
        Some((first, rest)) => path
            .split_first()
            .is_some_and(|(name, path)| is_name(first.as_bytes(), name.as_bytes()) && fits(rest, path)),
    }
}

/// Returns whether an exclusion, which has no `**`, may match something inside a value.
fn leads_to(pattern: &[String], path: &[String]) -> bool {
    path.len() < pattern.len() && fits(&pattern[..path.len()], path)
}

fn is_name(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|at| is_name(rest, &name[at..])),
        Some((first, rest)) => name.split_first().is_some_and(|(byte, name)| first == byte && is_name(rest, name)),
    }
}
