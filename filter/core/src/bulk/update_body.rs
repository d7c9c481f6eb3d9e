use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::json::{Distinct, Object, present};

/// The longest run of characters that may be a number. Newer versions refuse numbers of more than 1,000 characters.
const MAX_NUMBER: usize = 100;

/// What the source line of an update contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Fields of the document.
    Doc,
    /// A script that changes the document.
    Script,
}

/// Returns what the source line of an update contains, if every cluster accepts it.
///
/// The coordinating node parses update bodies itself and refuses the whole request for a bad one. The filter therefore
/// accepts only `doc` or `script` with their usual companions, each of the right type, without duplicate keys. An
/// update of a certain version of a document cannot create the document.
pub fn accepted_everywhere(line: &[u8], is_conditional: bool) -> Option<Change> {
    let Object(body) = serde_json::from_slice::<Object<UpdateBody>>(line).ok()?;
    let creates_version = is_conditional && body.may_create();
    body.change().filter(|_| !creates_version && !has_long_number(line))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateBody {
    #[serde(default, deserialize_with = "present")]
    doc: Option<StrictObject>,
    #[serde(default, deserialize_with = "present")]
    script: Option<Object<Script>>,
    #[serde(default, deserialize_with = "present")]
    upsert: Option<StrictObject>,
    #[serde(default)]
    doc_as_upsert: bool,
    #[serde(default)]
    scripted_upsert: bool,
    #[serde(default, rename = "detect_noop")]
    _detect_noop: bool,
}

impl UpdateBody {
    fn change(&self) -> Option<Change> {
        match (&self.doc, &self.script) {
            (Some(_), None) if !self.scripted_upsert => Some(Change::Doc),
            (None, Some(Object(script))) if !self.doc_as_upsert && script.is_complete() => Some(Change::Script),
            _ => None,
        }
    }

    fn may_create(&self) -> bool {
        self.upsert.is_some() || self.doc_as_upsert || self.scripted_upsert
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    #[serde(default, deserialize_with = "present")]
    source: Option<String>,
    #[serde(default, deserialize_with = "present")]
    id: Option<String>,
    #[serde(default, deserialize_with = "present")]
    lang: Option<String>,
    #[serde(default, rename = "params", deserialize_with = "present")]
    _params: Option<StrictObject>,
}

impl Script {
    fn is_complete(&self) -> bool {
        let named = self.id.as_ref().is_some_and(|id| !id.is_empty()) && self.lang.is_none();
        match &self.source {
            Some(source) => self.id.is_none() && !source.is_empty(),
            None => named,
        }
    }
}

/// A JSON object in which no object, at any depth, has a duplicate key.
type StrictObject = Distinct<StrictValue>;

struct StrictValue;

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(StrictVisitor).map(|()| Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("JSON without duplicate keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        StrictObject::deserialize(MapAccessDeserializer::new(map)).map(|_| ())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        while sequence.next_element::<StrictValue>()?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Checks all bytes, including those within strings: a false alarm only makes the request pass through unchanged.
fn has_long_number(line: &[u8]) -> bool {
    line.split(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')).any(|run| run.len() > MAX_NUMBER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::MAX_KEY;

    fn is_accepted_everywhere(line: &[u8], is_conditional: bool) -> bool {
        accepted_everywhere(line, is_conditional).is_some()
    }

    #[test]
    fn vouches_for_documents_and_scripts() {
        for body in [
            r#"{"doc":{"a":1,"b":[{"c":null},-1.5e3,"é"]}}"#,
            r#"{"doc":{},"doc_as_upsert":true,"detect_noop":false}"#,
            r#"{"doc":{"a":1},"upsert":{"a":0}}"#,
            r#"{"script":{"source":"ctx._source.n += params.n","lang":"painless","params":{"n":1}},"upsert":{"n":0}}"#,
            r#"{"script":{"id":"count"},"scripted_upsert":true,"upsert":{}}"#,
        ] {
            assert!(is_accepted_everywhere(body.as_bytes(), false), "{body}");
        }
    }

    #[test]
    fn an_update_of_a_certain_version_cannot_create_the_document() {
        for body in [
            r#"{"doc":{},"doc_as_upsert":true}"#,
            r#"{"doc":{},"upsert":{}}"#,
            r#"{"script":{"id":"count"},"scripted_upsert":true}"#,
        ] {
            assert!(is_accepted_everywhere(body.as_bytes(), false), "{body}");
            assert!(!is_accepted_everywhere(body.as_bytes(), true), "{body}");
        }
        assert!(is_accepted_everywhere(br#"{"doc":{},"doc_as_upsert":false}"#, true));
    }

    #[test]
    fn rejects_bodies_that_a_coordinator_may_refuse() {
        let digits = format!(r#"{{"doc":{{"a":0.{}}}}}"#, "1".repeat(1000));
        for body in [
            "",
            "7",
            "[]",
            "{}",
            r#"[{"a":1}]"#,
            r#"{"script":["x"]}"#,
            r#"{"doc":{"a":1}"#,
            r#"{"doc":[]}"#,
            r#"{"doc":{},"upsert":null}"#,
            r#"{"doc":{"a":1,"a":2}}"#,
            r#"{"doc":{"a":{"b":1,"b":2}}}"#,
            r#"{"doc":{"a":1}} {}"#,
            r#"{"doc":{"a":1},"doc":{"a":1}}"#,
            r#"{"doc":{"a":1},"unknown":1}"#,
            r#"{"doc":{"a":1},"script":{"source":"x"}}"#,
            r#"{"doc":{"a":1},"doc_as_upsert":"yes"}"#,
            r#"{"script":{"source":"x"},"doc_as_upsert":true}"#,
            r#"{"script":{"source":"x","id":"y"}}"#,
            r#"{"script":{"id":"y","lang":"painless"}}"#,
            r#"{"script":{}}"#,
            r#"{"upsert":{"a":1}}"#,
            &digits,
        ] {
            assert!(!is_accepted_everywhere(body.as_bytes(), false), "{body}");
        }
        assert!(!is_accepted_everywhere(b"{\"doc\":{\"a\":\"\xff\"}}", false));
    }

    #[test]
    fn keys_have_a_length_that_every_reader_accepts() {
        let with_key =
            |length| is_accepted_everywhere(format!(r#"{{"doc":{{"{}":1}}}}"#, "n".repeat(length)).as_bytes(), false);
        assert!(with_key(MAX_KEY) && !with_key(MAX_KEY + 1));
    }
}
