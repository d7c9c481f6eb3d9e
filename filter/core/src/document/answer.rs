use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{Text, each_field};

/// The characters that clusters encode in a `Location`: all but letters, digits and these.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'*');

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
    let (mut is_noop, mut unchanged) = (false, String::new());
    each_field(serde_json::from_slice(&success).ok()?, |name, value| {
        match (name.get(), value.get()) {
            (r#""forced_refresh""#, _) => {}
            (r#""_shards""#, _) => add_field(&mut unchanged, name, r#"{"total":0,"successful":0,"failed":0}"#),
            (text, value) => {
                is_noop |= text == r#""result""# && value == r#""noop""#;
                add_field(&mut unchanged, name, value);
            }
        }
        true
    });
    Some(if is_noop { format!("{{{unchanged}}}").into_bytes() } else { success })
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
    let (mut all, mut root) = (String::new(), String::new());
    let is_object = each_field(error, |name, value| {
        add_field(&mut all, name, value.get());
        if name.get() != r#""caused_by""# {
            add_field(&mut root, name, value.get());
        }
        true
    });
    match is_object {
        true => format!(r#"{{"error":{{"root_cause":[{{{root}}}],{all}}},"status":{status}}}"#),
        false => format!(r#"{{"error":{error},"status":{status}}}"#),
    }
    .into_bytes()
}

fn add_field(fields: &mut String, name: &RawValue, value: &str) {
    let comma = if fields.is_empty() { "" } else { "," };
    for part in [comma, name.get(), ":", value] {
        fields.push_str(part);
    }
}

/// Returns the `Location` of a document that was created: its path, given the answer and its routing value.
pub fn location(answer: &[u8], routing: Option<&str>) -> Option<String> {
    let Names { index: Text(index), id: Text(id) } = serde_json::from_slice(answer).ok()?;
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
    }

    #[test]
    fn a_failure_has_the_format_of_a_cluster() {
        let item = br#"{"index":{"_index":"a","_id":"1","status":503,"error":{"type":"x","reason":"y","caused_by":{"type":"z","reason":"w"}}}}"#;
        let expected = r#"{"error":{"root_cause":[{"type":"x","reason":"y"}],"type":"x","reason":"y","caused_by":{"type":"z","reason":"w"}},"status":503}"#;
        assert_eq!(String::from_utf8(failure(item, 503).unwrap()).unwrap(), expected);
        assert_eq!(failure(br#"{"index":{"_id":"1","status":200}}"#, 200), None);
    }

    #[test]
    fn a_location_is_encoded_as_in_java() {
        let location = |id: &str, routing| location(format!(r#"{{"_index":"a","_id":"{id}"}}"#).as_bytes(), routing);
        assert_eq!(location("1", None).unwrap(), "/a/_doc/1");
        assert_eq!(location("a/b c*-_.~é\\\"", None).unwrap(), "/a/_doc/a%2Fb+c*-_.%7E%C3%A9%22");
        assert_eq!(location("1", Some("x y&z")).unwrap(), "/a/_doc/1?routing=x+y%26z");
        assert_eq!(super::location(b"{}", None), None);
    }
}
