use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::index_metadata::IndexMetadata;
use crate::config::{Enabled, MissingId};

/// The path of the filter's settings in a mapping.
const PLACE: &str = "_meta.bulk_reshuffle";

/// The maximum number of problems that are described for an index.
const MAX_PROBLEMS: usize = 2;

/// The maximum number of characters of a name or a value in the description of a problem.
const MAX_CHARACTERS: usize = 40;

/// The settings that an index itself makes for its operations: `_meta.bulk_reshuffle` in its mapping, and index
/// settings that allow only one choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Overrides {
    /// Whether requests with operations for it are split at all.
    pub enabled: Option<Enabled>,
    /// How its operations without a document id are routed.
    pub missing_id: Option<MissingId>,
    /// Whether requests that write one of its documents join batches.
    pub single_documents: Option<bool>,
}

impl Overrides {
    /// Reads the settings of an index. Anything unknown or malformed is ignored. Also returns the problems with what is
    /// ignored, if there are any.
    pub(crate) fn of_index(metadata: &IndexMetadata) -> (Self, Option<Box<str>>) {
        let (mut overrides, mut problems) = (Self::default(), Vec::new());
        for meta in metadata.mappings.values().filter_map(|mapping| mapping.meta.bulk_reshuffle.as_ref()) {
            let Value::Object(settings) = meta else {
                problems.push(ignored(PLACE, &format!("expected an object, found {}", short(&meta.to_string()))));
                continue;
            };
            for (name, value) in settings {
                if let Err(problem) = overrides.set(name, value) {
                    problems.push(ignored(&format!("{PLACE}.{}", short(name)), &problem));
                }
            }
        }
        // An append-only index refuses documents whose id the cluster has not generated.
        if metadata.may_be_append_only() {
            overrides.missing_id = Some(MissingId::Pass);
        }
        (overrides, joined(&problems))
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let found = |expected: &str| format!("expected {expected}, found {}", short(&value.to_string()));
        match name {
            "enabled" => {
                let enabled = Enabled::read(value.as_str().unwrap_or(&value.to_string()));
                self.enabled = Some(enabled.ok_or_else(|| found("a boolean or \"observe\""))?);
            }
            "missing_id" => {
                let missing_id = MissingId::deserialize(value);
                self.missing_id = Some(missing_id.map_err(|_| found("one of `pass`, `generate`, `direct`"))?);
            }
            "single_documents" => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                self.single_documents = Some(text.parse().map_err(|_| found("a boolean"))?);
            }
            _ => return Err("unknown, expected `enabled`, `missing_id` or `single_documents`".to_owned()),
        }
        Ok(())
    }
}

fn ignored(setting: &str, problem: &str) -> String {
    format!("the mapping's setting `{setting}` is ignored: {problem}")
}

/// Returns the first characters of a text.
fn short(text: &str) -> String {
    let mut characters = text.chars();
    let first: String = characters.by_ref().take(MAX_CHARACTERS).collect();
    if characters.next().is_none() { first } else { first + "…" }
}

/// Returns the first problems as one text, and the number of further ones.
fn joined(problems: &[String]) -> Option<Box<str>> {
    let first = problems.chunks(MAX_PROBLEMS).next()?.join("; ");
    Some(match problems.len().saturating_sub(MAX_PROBLEMS) {
        0 => first.into(),
        more => format!("{first}; and {more} more").into(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn overrides(metadata: Value) -> (Overrides, Option<Box<str>>) {
        Overrides::of_index(&serde_json::from_value(metadata).unwrap())
    }

    fn meta(settings: Value) -> (Overrides, Option<Box<str>>) {
        overrides(json!({"mappings": {"_doc": {"_meta": {"bulk_reshuffle": settings}}}}))
    }

    #[test]
    fn a_mapping_may_hold_settings_of_the_filter() {
        let expected =
            Overrides { enabled: Some(Enabled::No), missing_id: Some(MissingId::Direct), single_documents: Some(true) };
        for settings in [
            json!({"enabled": false, "missing_id": "direct", "single_documents": true}),
            json!({"enabled": "false", "missing_id": "direct", "single_documents": "true"}),
        ] {
            assert_eq!(meta(settings), (expected, None));
        }
        for none in [json!({}), json!(null)] {
            assert_eq!(meta(none), (Overrides::default(), None));
        }
    }

    #[test]
    fn an_invalid_setting_is_ignored_and_described() {
        let valid = Overrides { missing_id: Some(MissingId::Direct), ..Overrides::default() };
        let none = Overrides::default();
        for (settings, applied, problem) in [
            (json!("off"), none, "`: expected an object, found \"off\""),
            (
                json!({"enabled": "no", "missing_id": "direct"}),
                valid,
                ".enabled`: expected a boolean or \"observe\", found \"no\"",
            ),
            (json!({"enabled": null}), none, ".enabled`: expected a boolean or \"observe\", found null"),
            (json!({"single_documents": 1}), none, ".single_documents`: expected a boolean, found 1"),
            (json!({"missing_id": 7}), none, ".missing_id`: expected one of `pass`, `generate`, `direct`, found 7"),
            (
                json!({"missing_ids": "pass", "missing_id": "direct"}),
                valid,
                ".missing_ids`: unknown, expected `enabled`, `missing_id` or `single_documents`",
            ),
        ] {
            let (found, told) = meta(settings.clone());
            let expected = problem.replacen("`:", "` is ignored:", 1);
            assert_eq!(found, applied, "{settings}");
            assert_eq!(told.unwrap().as_ref(), format!("the mapping's setting `_meta.bulk_reshuffle{expected}"));
        }
    }

    #[test]
    fn the_description_of_problems_is_short() {
        let (_, told) = meta(json!({"enabled": ["ü".repeat(1000)], "é".repeat(1000): 1}));
        let told = told.unwrap();
        assert!(told.contains(&format!("found [\"{}…; ", "ü".repeat(38))), "{told}");
        assert!(told.contains(&format!("`_meta.bulk_reshuffle.{}…` is", "é".repeat(40))), "{told}");
        let many: serde_json::Map<_, _> = (0..1000).map(|number| (format!("x{number:03}"), json!(1))).collect();
        let told = meta(Value::Object(many)).1.unwrap();
        assert!(told.contains(".x000`") && told.contains(".x001`") && told.ends_with("; and 998 more"), "{told}");
        assert!(told.len() < 300, "{told}");
    }

    #[test]
    fn an_append_only_index_gets_no_generated_ids() {
        let missing_id = |settings: Value| {
            let generate = json!({"_doc": {"_meta": {"bulk_reshuffle": {"missing_id": "generate"}}}});
            overrides(json!({"settings": {"index": settings}, "mappings": generate})).0.missing_id
        };
        let format = json!({"dataformat": "composite", "dataformat.enabled": "true"});
        for (settings, expected) in [
            (json!({"append_only": {"enabled": "true"}}), MissingId::Pass),
            (json!({"append_only": {"enabled": "false"}}), MissingId::Generate),
            (json!({"pluggable": format}), MissingId::Pass),
            (json!({"pluggable": format, "append_only": {"enabled": "false"}}), MissingId::Generate),
        ] {
            assert_eq!(missing_id(settings.clone()), Some(expected), "{settings}");
        }
    }
}
