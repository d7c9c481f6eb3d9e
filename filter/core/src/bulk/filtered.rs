use serde_json::value::RawValue;

use super::filter_path::{FilterPath, Selection, Verdict};
use crate::json::{Text, each_element, each_field, shallow_value};

impl FilterPath {
    /// Returns the selected part of an answer. Returns `None` if the answer is not JSON or is nested too deeply.
    pub fn apply(&self, answer: &[u8]) -> Option<Vec<u8>> {
        shallow_value(answer)?;
        // A list that grows would take up to three times as much while it is moved.
        let mut to = Vec::with_capacity(answer.len());
        if !write_selected(serde_json::from_slice(answer).ok()?, &self.selection(), &mut to) {
            to.extend_from_slice(b"{}");
        }
        Some(to)
    }
}

/// Appends the selected part of a JSON text, unchanged except for surrounding white space. Returns whether anything was
/// selected.
pub fn write_selected(text: &RawValue, selection: &Selection<'_>, to: &mut Vec<u8>) -> bool {
    write(text, selection.clone().verdict(), to)
}

fn write(text: &RawValue, verdict: Verdict<'_>, to: &mut Vec<u8>) -> bool {
    match verdict {
        Verdict::Kept => append(text, to),
        Verdict::Dropped => false,
        Verdict::Filtered { inside, scalars } => match text.get().as_bytes().first() {
            Some(b'{') => write_object(text, &inside, to),
            Some(b'[') => write_array(text, &inside, to),
            _ => scalars && append(text, to),
        },
    }
}

fn write_object(text: &RawValue, inside: &Selection<'_>, to: &mut Vec<u8>) -> bool {
    let start = to.len();
    let is_read = each_field(text, |key, value| {
        let before = to.len();
        to.push(if before == start { b'{' } else { b',' });
        append(key, to);
        to.push(b':');
        let name: Option<Text<'_>> = serde_json::from_str(key.get()).ok();
        if !name.is_some_and(|Text(name)| write(value, inside.field(&name), to)) {
            to.truncate(before);
        }
        true
    });
    is_read && close(b'}', start, to)
}

fn write_array(text: &RawValue, inside: &Selection<'_>, to: &mut Vec<u8>) -> bool {
    let start = to.len();
    let is_read = each_element(text, |element| {
        let before = to.len();
        to.push(if before == start { b'[' } else { b',' });
        if !write(element, inside.clone().verdict(), to) {
            to.truncate(before);
        }
        true
    });
    is_read && close(b']', start, to)
}

/// Closes the object or array opened at `start`, if anything was written since. Returns whether anything was.
fn close(with: u8, start: usize, to: &mut Vec<u8>) -> bool {
    let any = to.len() > start;
    if any {
        to.push(with);
    }
    any
}

fn append(text: &RawValue, to: &mut Vec<u8>) -> bool {
    to.extend_from_slice(text.get().as_bytes());
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::bulk::FilterPath;

    fn filtered(filter_path: &str, text: &str) -> String {
        let filter_path = FilterPath::parse(filter_path).unwrap();
        String::from_utf8(filter_path.apply(text.as_bytes()).unwrap()).unwrap()
    }

    /// The answers of OpenSearch 2.19.
    #[test]
    fn selects_what_a_cluster_selects() {
        const ANSWER: &str = concat!(
            r#"{"took":7,"errors":true,"items":[{"index":{"_id":"1","_shards":{"total":1,"failed":0},"status":200}},"#,
            r#"{"update":{"_id":"2","status":404,"error":{"type":"t","reason":"r","caused_by":{"type":"u"}}}}]}"#
        );
        for (filter_path, expected) in [
            ("errors,errors", r#"{"errors":true}"#),
            ("items.*.error.type", r#"{"items":[{"update":{"error":{"type":"t"}}}]}"#),
            ("**.type", r#"{"items":[{"update":{"error":{"type":"t","caused_by":{"type":"u"}}}}]}"#),
            ("**.**.status", r#"{"items":[{"index":{"status":200}},{"update":{"status":404}}]}"#),
            ("items.index.s*s,took", r#"{"took":7,"items":[{"index":{"status":200}}]}"#),
            ("items.*,-items.index,-*.*.error", r#"{"items":[{"update":{"_id":"2","status":404}}]}"#),
            ("-items.*.*", r#"{"took":7,"errors":true}"#),
            (
                "-took,-items.update",
                r#"{"errors":true,"items":[{"index":{"_id":"1","_shards":{"total":1,"failed":0},"status":200}}]}"#,
            ),
        ] {
            assert_eq!(filtered(filter_path, ANSWER), expected, "{filter_path}");
        }
        for nothing in ["unknown", "errors.*", "took.x", "items.0", "ITEMS", "-*", "items.*._id,-items.*._id"] {
            assert_eq!(filtered(nothing, ANSWER), "{}", "{nothing}");
        }
    }

    #[test]
    fn keeps_selected_text_unchanged() {
        let text = r#"{ "a\u0062" : {"x": 1.0e5 , "x":"\/"}, "c":[ [], {} ,{"d":[]}] }"#;
        assert_eq!(filtered("ab", text), r#"{"a\u0062":{"x": 1.0e5 , "x":"\/"}}"#);
        assert_eq!(filtered("-ab", text), r#"{"c":[ [], {} ,{"d":[]}]}"#);
        assert_eq!(filtered("c.d", text), r#"{"c":[{"d":[]}]}"#);
    }

    #[test]
    fn deeply_nested_json_is_not_filtered() {
        let nested = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        assert_eq!(filtered("**.b", &nested(100)), "{}");
        assert_eq!(FilterPath::parse("**.b").unwrap().apply(nested(101).as_bytes()), None);
    }

    fn json() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![Just("1".to_owned()), Just("null".to_owned()), any::<String>().prop_map(quoted)];
        scalar.prop_recursive(6, 60, 5, |inner| {
            let field = (prop_oneof!["[ab]{1,2}".prop_map(quoted), any::<String>().prop_map(quoted)], inner.clone());
            let fields = proptest::collection::vec(field, 0..5);
            let object = fields.prop_map(|fields| {
                let fields: Vec<_> = fields.into_iter().map(|(name, value)| format!("{name}:{value}")).collect();
                format!("{{{}}}", fields.join(","))
            });
            let array = proptest::collection::vec(inner, 0..5).prop_map(|values| format!("[{}]", values.join(",")));
            prop_oneof![object, array]
        })
    }

    fn quoted(text: String) -> String {
        serde_json::Value::from(text).to_string()
    }

    proptest! {
        #[test]
        fn no_pattern_panics(value in any::<String>()) {
            FilterPath::parse(&value);
        }

        #[test]
        fn selected_output_is_json(value in "(-?[ab*]{1,2}(\\.[ab*]{1,2}){0,4},?){0,4}", text in json()) {
            if let Some(filter_path) = FilterPath::parse(&value) {
                serde_json::from_slice::<serde::de::IgnoredAny>(&filter_path.apply(text.as_bytes()).unwrap()).unwrap();
            }
        }

        #[test]
        fn selecting_everything_equals_no_filter(text in json(), everything in "\\*{0,2}|-nothing") {
            let object = format!("{{\"a\":{text}}}");
            prop_assert_eq!(filtered(&everything, &object), object);
        }
    }
}
