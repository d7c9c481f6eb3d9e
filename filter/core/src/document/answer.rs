use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{Text, each_field};

/// The characters that clusters encode in a `Location`: all but letters, digits and these.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'*');

/// The longest name of an index, and the longest id of a document, in bytes.
const MAX_INDEX: usize = 255;
const MAX_ID: usize = 512;

/// Bytes of an answer around the error and its copy.
const ERROR_FRAME: usize = 64;

/// The names in the answer to a write.
#[derive(Deserialize)]
struct Names<'a> {
    #[serde(rename = "_index", borrow)]
    index: Text<'a>,
    #[serde(rename = "_id", borrow)]
    id: Text<'a>,
}

/// Returns the answer to a write that has succeeded: the fields of its item in a bulk answer, except `status`. Returns
/// `None` if the item is not one.
pub fn success(item: &[u8], status: u16) -> Option<Vec<u8>> {
    let fields = fields(item)?;
    // All releases write the status at the end.
    let end = format!(r#","status":{status}}}"#);
    let fields = fields.get().strip_suffix(&end)?;
    Some([fields.as_bytes(), b"}"].concat())
}

/// Returns the answer to an update, given its [`success`]. A single update that changes nothing writes to no shard, and
/// refreshes none, whereas an item reports the shards of its batch.
pub fn updated(success: Vec<u8>) -> Option<Vec<u8>> {
    const NO_SHARDS: &str = r#"{"total":0,"successful":0,"failed":0}"#;
    let (mut is_noop, mut has_shards) = (false, false);
    let mut unchanged = String::with_capacity(success.len().saturating_add(NO_SHARDS.len()));
    unchanged.push('{');
    let is_read = each_field(serde_json::from_slice(&success).ok()?, |name, value| {
        match (name.get(), value.get()) {
            (r#""forced_refresh""#, _) => {}
            (r#""_shards""#, _) => {
                add_field(&mut unchanged, name, NO_SHARDS);
                return !std::mem::replace(&mut has_shards, true);
            }
            (text, value) => {
                is_noop |= text == r#""result""# && value == r#""noop""#;
                add_field(&mut unchanged, name, value);
            }
        }
        true
    });
    unchanged.push('}');
    is_read.then(|| if is_noop { unchanged.into_bytes() } else { success })
}

/// Returns the answer to a write that has failed with the error in its item.
pub fn failure(item: &[u8], status: u16) -> Option<Vec<u8>> {
    let mut found = None;
    each_field(fields(item)?, |name, value| {
        if name.get() == r#""error""# {
            found = Some(value);
        }
        true
    });
    Some(error(found?, status))
}

/// Returns the answer to a write that has failed with this error. Like a cluster, it repeats the error, without its
/// cause, as the only root cause.
pub fn error(error: &RawValue, status: u16) -> Vec<u8> {
    const BEGIN: &str = r#"{"error":"#;
    // A text that grows would take twice the bytes of a long error.
    let mut answer = String::with_capacity(error.get().len().saturating_mul(2).saturating_add(ERROR_FRAME));
    [BEGIN, r#"{"root_cause":[{"#].into_iter().for_each(|part| answer.push_str(part));
    let is_object = each_field(error, |name, value| {
        if name.get() != r#""caused_by""# {
            add_field(&mut answer, name, value.get());
        }
        true
    });
    if is_object {
        answer.push_str("}]");
        each_field(error, |name, value| {
            add_field(&mut answer, name, value.get());
            true
        });
        answer.push('}');
    } else {
        answer.truncate(BEGIN.len());
        answer.push_str(error.get());
    }
    answer.push_str(&format!(r#","status":{status}}}"#));
    answer.into_bytes()
}

/// Appends a field to an object that has no end yet.
fn add_field(object: &mut String, name: &RawValue, value: &str) {
    let comma = if object.ends_with('{') { "" } else { "," };
    for part in [comma, name.get(), ":", value] {
        object.push_str(part);
    }
}

/// Returns the `Location` of a document that was created: its path, given the answer and its routing value. Returns
/// `None` if no cluster has such a document.
pub fn location(answer: &[u8], routing: Option<&str>) -> Option<String> {
    let Names { index: Text(index), id: Text(id) } = serde_json::from_slice(answer).ok()?;
    if index.len() > MAX_INDEX || id.len() > MAX_ID {
        return None;
    }
    let mut location = format!("/{}/_doc/{}", encoded(&index), encoded(&id));
    if let Some(routing) = routing {
        location.push_str("?routing=");
        location.push_str(&encoded(routing));
    }
    Some(location)
}

/// Encodes a text as Java's `URLEncoder` does.
fn encoded(text: &str) -> Cow<'_, str> {
    let encoded: Cow<'_, str> = utf8_percent_encode(text, ENCODED).into();
    if encoded.contains("%20") { encoded.replace("%20", "+").into() } else { encoded }
}

/// Returns the fields of an item, below its action.
fn fields(item: &[u8]) -> Option<&RawValue> {
    let item: &RawValue = serde_json::from_slice(item).ok()?;
    let mut fields = None;
    each_field(item, |_, value| fields.replace(value).is_none()).then_some(fields?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_is_the_item_without_its_status() {
        let fields = r#"{"_index":"a","_id":"\u00e9","_version":1,"result":"created","_shards":{"total":2,"successful":1,"failed":0},"_seq_no":0,"_primary_term":1"#;
        let item = format!(r#"{{"create":{fields},"status":201}}}}"#);
        assert_eq!(success(item.as_bytes(), 201).unwrap(), format!("{fields}}}").into_bytes());
        for (item, status) in [
            (item.as_str(), 200),
            ("[]", 201),
            (r#"{"create":{"status":201,"_id":"1"}}"#, 201),
            (r#"{"create":7,"index":{"_id":"1","status":201}}"#, 201),
        ] {
            assert_eq!(success(item.as_bytes(), status), None, "{item}");
        }
    }

    #[test]
    fn an_update_that_changes_nothing_reports_no_shards() {
        let answer = |result, refresh, shards| {
            format!(
                r#"{{"_index":"a","_id":"1","_version":3,"result":"{result}",{refresh}"_shards":{{"total":{shards},"successful":{shards},"failed":0}},"_seq_no":2,"_primary_term":1}}"#
            )
        };
        let refreshed = r#""forced_refresh":true,"#;
        for (result, refresh, expected) in [
            ("noop", refreshed, answer("noop", "", 0)),
            ("noop", "", answer("noop", "", 0)),
            ("updated", refreshed, answer("updated", refreshed, 2)),
        ] {
            let found = updated(answer(result, refresh, 2).into_bytes()).unwrap();
            assert_eq!(String::from_utf8(found).unwrap(), expected);
        }
        assert_eq!(updated(br#"{"result":"noop","_shards":0,"_shards":0}"#.to_vec()), None);
    }

    #[test]
    fn a_failure_has_the_format_of_a_cluster() {
        let item = br#"{"index":{"_index":"a","_id":"1","status":503,"error":{"type":"x","reason":"y","caused_by":{"type":"z","reason":"w"}}}}"#;
        let expected = r#"{"error":{"root_cause":[{"type":"x","reason":"y"}],"type":"x","reason":"y","caused_by":{"type":"z","reason":"w"}},"status":503}"#;
        assert_eq!(String::from_utf8(failure(item, 503).unwrap()).unwrap(), expected);
        assert_eq!(failure(br#"{"index":{"_id":"1","status":200}}"#, 200), None);
    }

    #[test]
    fn any_error_makes_an_answer_that_is_json_and_takes_no_more_memory_than_twice_its_bytes() {
        let long = format!(r#"{{"type":"x","reason":"{}"}}"#, "y".repeat(10_000));
        let only_cause = r#"{"caused_by":{"type":"z"}}"#;
        for (text, expected) in [
            (r#""a text""#, r#"{"error":"a text","status":500}"#),
            ("7", r#"{"error":7,"status":500}"#),
            ("{}", r#"{"error":{"root_cause":[{}]},"status":500}"#),
            (only_cause, r#"{"error":{"root_cause":[{}],"caused_by":{"type":"z"}},"status":500}"#),
            (
                r#"{ "a" : "{" , "b" : [ ] }"#,
                r#"{"error":{"root_cause":[{"a":"{","b":[ ]}],"a":"{","b":[ ]},"status":500}"#,
            ),
            (&long, &format!(r#"{{"error":{{"root_cause":[{long}],{},"status":500}}"#, &long[1..])),
        ] {
            let answer = error(&RawValue::from_string(text.to_owned()).unwrap(), 500);
            assert!(answer.capacity() <= 2 * text.len() + ERROR_FRAME, "{text}");
            assert_eq!(String::from_utf8(answer).unwrap(), expected);
        }
    }

    #[test]
    fn a_location_is_encoded_as_in_java() {
        let location = |id: &str, routing| location(format!(r#"{{"_index":"a","_id":"{id}"}}"#).as_bytes(), routing);
        assert_eq!(location("1", None).unwrap(), "/a/_doc/1");
        assert_eq!(location("a/b c*-_.~é\\\"", None).unwrap(), "/a/_doc/a%2Fb+c*-_.%7E%C3%A9%22");
        assert_eq!(location("1", Some("x y&z")).unwrap(), "/a/_doc/1?routing=x+y%26z");
        assert_eq!(super::location(b"{}", None), None);
        let longest = "x".repeat(MAX_ID);
        assert_eq!(location(&longest, None), Some(format!("/a/_doc/{longest}")));
        assert_eq!(location(&format!("{longest}x"), None), None);
    }
}
