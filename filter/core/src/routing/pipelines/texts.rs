//! The texts in a definition: names of fields, templates and conditions.
//!
//! They may read the id or the routing value of a document. A wrong "no" would let a pipeline notice an id that the
//! filter has added, so everything unusual counts as a "yes".

use serde_json::Value;

/// The metadata that the filter may add to an operation.
const ADDED: [&str; 2] = ["_id", "_routing"];

/// The words that may precede `(` without a call.
const KEYWORDS: [&str; 9] = ["if", "for", "while", "return", "instanceof", "in", "else", "catch", "throw"];

/// The texts that a document with metadata among its fields contains. A key may be escaped, as in `\u005frouting`.
const IN_DOCUMENTS: [&str; 7] =
    ["\"_routing\"", "\"_version_type\"", "\"_if_seq_no\"", "\"_if_primary_term\"", "\\u005", "\\u006", "\\u007"];

/// Returns the words of a text: the longest runs of ASCII letters, digits and underscores.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'))
}

/// Returns whether any text in a value, including the keys of objects, meets a condition.
pub(super) fn any_text(value: &Value, is_met: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is_met(text),
        Value::Array(list) => list.iter().any(|value| any_text(value, is_met)),
        Value::Object(object) => object.iter().any(|(key, value)| is_met(key) || any_text(value, is_met)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns whether a document may have fields that are metadata, such as `_routing`.
pub(crate) fn may_have_metadata(document: &[u8]) -> bool {
    IN_DOCUMENTS.iter().any(|text| memchr::memmem::find(document, text.as_bytes()).is_some())
}

/// Returns whether the value of an option may read them: as the name of a field, or in a template.
pub(super) fn may_read_id(value: &Value) -> bool {
    any_text(value, &|text| words(text).any(|word| ADDED.contains(&word)) || has_unusual_template(text))
}

/// Returns whether a template in a text has a tag that is not just the path of a field. A section or `_source` may
/// contain the whole document.
fn has_unusual_template(text: &str) -> bool {
    text.split("{{").skip(1).any(|rest| {
        let tag = rest.split("}}").next().unwrap_or_default();
        let path = tag.trim_start_matches(['{', '&']).trim();
        let is_field = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || "_-@".contains(c));
        !path.split('.').all(is_field) || path.split('.').next() == Some("_source")
    })
}

/// Returns whether a condition may read them.
pub(super) fn condition_may_read_id(condition: &Value) -> bool {
    let script = match condition {
        Value::String(script) => Some(script),
        Value::Object(script) if script.keys().all(|key| key == "source" || key == "lang") => {
            let is_painless = script.get("lang").is_none_or(|lang| lang == "painless");
            match script.get("source") {
                Some(Value::String(source)) if is_painless => Some(source),
                _ => None,
            }
        }
        _ => None,
    };
    script.is_none_or(|script| of_script(script))
}

/// Returns whether a Painless script may read them. It reads the document only through `ctx` and through functions.
fn of_script(script: &str) -> bool {
    let mut rest = script;
    let mut before = "";
    while let Some(start) = rest.find(is_part_of_name) {
        let (gap, from) = rest.split_at(start);
        let (name, after) = from.split_at(from.find(|c| !is_part_of_name(c)).unwrap_or(from.len()));
        let is_member = gap.trim_end().ends_with('.') || (gap.is_empty() && before.ends_with('.'));
        let is_called = after.trim_start().starts_with('(');
        if ADDED.contains(&name)
            || !is_member && is_called && !KEYWORDS.contains(&name)
            || !is_member && name == "ctx" && !is_field_access(after)
        {
            return true;
        }
        (before, rest) = (name, after);
    }
    false
}

/// Returns whether the text after `ctx` reads a single field with a fixed name, or checks whether there is one.
fn is_field_access(after: &str) -> bool {
    let after = after.trim_start();
    if let Some(key) = after.strip_prefix('[') {
        return is_quoted_name(key, ']');
    }
    let member = after.strip_prefix("?.").or_else(|| after.strip_prefix('.')).map(str::trim_start);
    let Some(member) = member else { return false };
    let end = member.find(|c| !is_part_of_name(c)).unwrap_or(member.len());
    let (name, after) = member.split_at(end);
    match after.trim_start().strip_prefix('(') {
        Some(argument) => name == "containsKey" && is_quoted_name(argument, ')'),
        None => !name.is_empty(),
    }
}

/// Returns whether a text begins with a quoted name and this bracket.
fn is_quoted_name(text: &str, bracket: char) -> bool {
    let text = text.trim_start();
    let Some(quote) = text.chars().next().filter(|quote| ['\'', '"'].contains(quote)) else { return false };
    let Some((name, after)) = text.get(1..).and_then(|text| text.split_once(quote)) else { return false };
    !name.contains('\\') && after.trim_start().starts_with(bracket)
}

fn is_part_of_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}
