use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::operation::OfAction;
use super::splice::NULL;
use super::{Action, Gap, Parameter, Splice};
use crate::invariant::{Count, found, part};
use crate::json::{Distinct, FastReader, present};

/// The longest document id that a cluster takes, in bytes of UTF-8.
const MAX_ID: usize = 512;

/// The number of digits of the largest version or sequence number.
const MAX_DIGITS: usize = 19;

/// An action line that the filter vouches for: every version of Elasticsearch and OpenSearch accepts it and gives it
/// the same meaning.
///
/// The filter does not vouch for a line on whose meaning versions differ (text after the object, ids of other types), for a line that could fail the whole request (a version without a version type, half of a sequence number
/// and primary term), or for a merely unusual line. The whole request then passes through unchanged.
///
/// A parameter that is `null` is absent for every cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionLine<'a> {
    /// The action to perform.
    pub action: Action,
    /// The index, alias or data stream, if the line names one.
    pub index: Option<Cow<'a, str>>,
    /// The document's id, if the line gives one.
    pub id: Option<Cow<'a, str>>,
    /// The custom routing value, if the line gives one.
    pub routing: Option<Cow<'a, str>>,
    /// The ingest pipeline that runs in place of the index's default one, if the line names one.
    pub pipeline: Option<&'a str>,
    /// Whether the name must be an alias, if the line says so. The node checks it. If it is not an alias, the node
    /// refuses only this operation.
    pub require_alias: Option<bool>,
    /// Whether the name must be a data stream, if the line says so. Elasticsearch checks it from 8.13 on. Other
    /// clusters refuse the whole request, so the caller must know that the cluster has no such nodes.
    pub require_data_stream: Option<bool>,
    /// Whether the operation succeeds only at certain versions of its document, and would fail if it was carried out
    /// again: `external` versions, and sequence numbers. `external_gte` accepts the same version again.
    pub is_conditional: bool,
    /// Whether the line has `dynamic_templates`. Elasticsearch knows them from 7.13 on. Other clusters refuse the whole
    /// request, so the caller must know that the cluster has no such nodes.
    pub has_dynamic_templates: bool,
    /// Whether the line has the `_type` `_doc`. Elasticsearch 7 and OpenSearch 1 accept it, and answer with a
    /// `warning`. Later releases refuse the whole request, so the caller must know that the cluster has no such nodes.
    pub has_type: bool,
    nulls: Nulls,
    text: &'a [u8],
}

/// The positions in a line where `null` stands in place of a value. Every cluster treats such a parameter as absent.
/// Logstash writes `null` for an id or a routing value that it does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Nulls {
    id: Option<usize>,
    routing: Option<usize>,
}

/// The error for a line that is not the expected JSON object, or has a parameter or value that the filter does not
/// vouch for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the action line is not one that the filter vouches for")]
pub struct LineError;

impl<'a> ActionLine<'a> {
    /// Parses one line, with or without its line end. Fails if the filter does not vouch for it.
    pub fn read(line: &'a [u8]) -> Result<Self, LineError> {
        let Parsed { action, names, extra } = Parsed::plain(line).map_or_else(|| Parsed::json(line), Ok)?;
        let Names { index, id, routing } = names;
        let nulls =
            Nulls { id: null(line, b"\"_id\"", id.as_ref())?, routing: null(line, b"\"routing\"", routing.as_ref())? };
        let (index, id, routing) = (text(index), text(id), text(routing));
        let id_fits = id.as_ref().is_none_or(|id| !id.is_empty() && id.len() <= MAX_ID);
        let vouched = id_fits
            && (id.is_some() || matches!(action, Action::Index | Action::Create))
            && index.as_ref().is_none_or(|index| !index.is_empty())
            && routing.as_ref().is_none_or(|routing| !routing.is_empty());
        if !vouched {
            return Err(LineError);
        }
        let Extra { pipeline, require_alias, require_data_stream, is_conditional, has_dynamic_templates, has_type } =
            extra;
        Ok(Self {
            action,
            index,
            id,
            routing,
            pipeline,
            require_alias,
            require_data_stream,
            is_conditional,
            has_dynamic_templates,
            has_type,
            nulls,
            text: line,
        })
    }

    /// Returns the length of the line, in bytes.
    pub fn bytes(&self) -> u64 {
        self.text.len() as u64
    }

    /// Returns the splice that adds a parameter to this line, which begins at `start` in the body. The parameter
    /// replaces its `null` if there is one. Otherwise it is inserted right after the opening brace of the parameters.
    pub fn splice(&self, start: u32, parameter: Parameter) -> Splice {
        let null = match parameter {
            Parameter::Id(_) => self.nulls.id,
            Parameter::Routing(_) => self.nulls.routing,
        };
        let (at, gap) = match null {
            Some(at) => (at, Gap::Null),
            None => {
                // The first brace is the line's own. An action's name never contains one, in any notation.
                let inner = found(memchr::memchr_iter(b'{', self.text).nth(1), "an action line has two braces");
                let at = inner.unwrap_or_default().plus(1, "a line is in memory");
                let rest = part(self.text, at.., "the brace is in the line");
                (at, if rest.trim_ascii_start().starts_with(b"}") { Gap::Alone } else { Gap::First })
            }
        };
        Splice { at: start.saturating_add(at as u32), gap, parameter }
    }
}

/// Returns the position of a parameter's `null`, if that is its value. Fails if the key is written with escapes.
fn null(line: &[u8], key: &[u8], value: Option<&Text>) -> Result<Option<usize>, LineError> {
    match value {
        Some(Text(None)) => place_of_null(line, key).map(Some).ok_or(LineError),
        _ => Ok(None),
    }
}

/// Returns the position of the `null` after a key.
///
/// The bytes of the key, with its quotes and a colon, cannot occur elsewhere: within a string a backslash precedes each
/// quote.
#[cold] // If this was inlined, reading any line would take 7% more instructions.
fn place_of_null(line: &[u8], key: &[u8]) -> Option<usize> {
    memchr::memmem::find_iter(line, key).find_map(|at| {
        let after = line.get(at..)?.strip_prefix(key)?.trim_ascii_start();
        let value = after.strip_prefix(b":")?.trim_ascii_start();
        value.starts_with(NULL.as_bytes()).then(|| line.len().minus(value.len(), "the value is a part of the line"))
    })
}

#[derive(Debug, PartialEq)]
struct Parsed<'a> {
    action: Action,
    names: Names<'a>,
    extra: Extra<'a>,
}

/// The parameters that nearly all lines have.
#[derive(Debug, Default, PartialEq)]
struct Names<'a> {
    index: Option<Text<'a>>,
    id: Option<Text<'a>>,
    routing: Option<Text<'a>>,
}

/// The meaning of the other parameters.
#[derive(Debug, Default, PartialEq)]
struct Extra<'a> {
    pipeline: Option<&'a str>,
    require_alias: Option<bool>,
    require_data_stream: Option<bool>,
    is_conditional: bool,
    has_dynamic_templates: bool,
    has_type: bool,
}

impl<'a> Parsed<'a> {
    /// Parses a line in the notation that most clients use. Returns `None` for any other notation.
    fn plain(line: &'a [u8]) -> Option<Self> {
        let mut line = FastReader::new(line.strip_suffix(b"\n").unwrap_or(line));
        line.past(b"{")?;
        let action = Action::plain(&mut line)?;
        line.colon()?;
        line.past(b"{")?;
        let mut names = Names::default();
        let mut is_over = line.takes(b"}");
        while !is_over {
            let name = if line.takes(b"\"_id\"") {
                &mut names.id
            } else if line.takes(b"\"_index\"") {
                &mut names.index
            } else {
                line.past(b"\"routing\"")?;
                &mut names.routing
            };
            line.colon()?;
            // The value is nearly always a string, so one byte decides.
            let is_null = line.rest().first() == Some(&b'n') && line.takes(b"null");
            let value = Text(if is_null { None } else { Some(Cow::Borrowed(line.string()?)) });
            if name.replace(value).is_some() {
                return None;
            }
            is_over = line.takes(b"}");
            if !is_over {
                line.comma()?;
            }
        }
        line.past(b"}")?;
        line.rest().is_empty().then(|| Self { action, names, extra: Extra::default() })
    }

    /// Parses a line in any JSON notation.
    fn json(line: &'a [u8]) -> Result<Self, LineError> {
        let line: OfAction<Parameters<'_>> = serde_json::from_slice(line).map_err(|_| LineError)?;
        let (action, parameters) = line.into_parts();
        let extra = parameters.extra(action)?;
        let Parameters { index, id, routing, .. } = parameters;
        Ok(Self { action, names: Names { index, id, routing }, extra })
    }
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters<'a> {
    #[serde(rename = "_index", borrow, default, deserialize_with = "present")]
    index: Option<Text<'a>>,
    #[serde(rename = "_id", borrow, default, deserialize_with = "present")]
    id: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    routing: Option<Text<'a>>,
    #[serde(borrow)]
    pipeline: Option<&'a str>,
    require_alias: Option<bool>,
    require_data_stream: Option<bool>,
    retry_on_conflict: Option<Integer>,
    version: Option<Integer>,
    version_type: Option<VersionType>,
    if_seq_no: Option<Integer>,
    if_primary_term: Option<Integer>,
    _type: Option<Type>,
    /// The names of dynamic templates, by the fields that they apply to.
    dynamic_templates: Option<Distinct<String>>,
}

impl<'a> Parameters<'a> {
    /// Returns what all parameters but the names mean. Fails if the filter does not vouch for them.
    fn extra(&self, action: Action) -> Result<Extra<'a>, LineError> {
        let has_dynamic_templates = self.dynamic_templates.is_some();
        let is_retried = self.retry_on_conflict.is_some();
        let vouched = (!has_dynamic_templates || matches!(action, Action::Index | Action::Create))
            && (!is_retried || action == Action::Update)
            && self.retry_on_conflict.is_none_or(|Integer(most)| i32::try_from(most).is_ok())
            && self.pipeline != Some("");
        if !vouched {
            return Err(LineError);
        }
        Ok(Extra {
            pipeline: self.pipeline,
            require_alias: self.require_alias,
            require_data_stream: self.require_data_stream,
            is_conditional: self.is_conditional(action)?,
            has_dynamic_templates,
            has_type: self._type.is_some(),
        })
    }

    /// Returns whether the operation succeeds only at certain versions of its document, and would fail if it was carried
    /// out again. Fails if a cluster would refuse the whole request because of its precondition.
    fn is_conditional(&self, action: Action) -> Result<bool, LineError> {
        let has_id = matches!(self.id, Some(Text(Some(_))));
        let may_be_external = has_id && matches!(action, Action::Index | Action::Delete);
        let is_retried = self.retry_on_conflict.is_some_and(|Integer(most)| most > 0);
        let version_type = self.version_type.unwrap_or(VersionType::Internal);
        match (self.version, version_type, self.if_seq_no, self.if_primary_term) {
            (None, VersionType::Internal, None, None) => Ok(false),
            (Some(_), VersionType::External | VersionType::ExternalGt, None, None) if may_be_external => Ok(true),
            // The same version succeeds again.
            (Some(_), VersionType::ExternalGte, None, None) if may_be_external => Ok(false),
            (None, VersionType::Internal, Some(_), Some(Integer(1..)))
                if has_id && action != Action::Create && !is_retried =>
            {
                Ok(true)
            }
            _ => Err(LineError),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VersionType {
    Internal,
    External,
    ExternalGt,
    ExternalGte,
}

/// The only type of documents that Elasticsearch 7 and OpenSearch 1 create.
#[derive(Debug, PartialEq, Deserialize)]
enum Type {
    #[serde(rename = "_doc")]
    Doc,
}

/// A whole number from 0, as a number or as a string of digits. A string has no more digits than the largest number:
/// Elasticsearch 8 and later refuse strings of more than 1,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Integer(i64);

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Text(digits) = Text::deserialize(from)?;
        let is_short = |digits: &Cow<'_, str>| digits.len() <= MAX_DIGITS;
        let digits = digits.filter(is_short).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse().ok());
        number.map(Self).ok_or_else(|| D::Error::custom("not a whole number from 0"))
    }
}

/// A string, or an integer that a cluster reads as the string of its digits (clients send numeric ids), or `null`.
#[derive(Debug, PartialEq)]
struct Text<'a>(Option<Cow<'a, str>>);

/// Returns the value of a parameter, unless it is absent or `null`.
fn text(parameter: Option<Text<'_>>) -> Option<Cow<'_, str>> {
    parameter.and_then(|Text(text)| text)
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TextVisitor).map(Text)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a string, an integer or null")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(number.to_string())))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(number.to_string())))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::DocumentId;
    use super::*;

    fn read(line: &str) -> Result<ActionLine<'_>, LineError> {
        ActionLine::read(line.as_bytes())
    }

    #[test]
    fn reads_all_four_actions() {
        for (word, action) in [
            ("index", Action::Index),
            ("create", Action::Create),
            ("update", Action::Update),
            ("delete", Action::Delete),
        ] {
            let text = format!(r#"{{"{word}":{{"_index":"books","_id":"1","routing":"jane"}}}}"#);
            let line = read(&text).unwrap();
            assert_eq!(line.action, action);
            assert_eq!(line.index.as_deref(), Some("books"));
            assert_eq!(line.id.as_deref(), Some("1"));
            assert_eq!(line.routing.as_deref(), Some("jane"));
        }
    }

    #[test]
    fn the_fast_path_reads_a_line_like_the_json_parser() {
        let replacements = b"\"\\{}[],:0 a-_\r\n\0\xc3";
        for line in [
            &br#"{"index":{"_index":"books","_id":"1","routing":"jane"}}"#[..],
            br#"{"create": {"_id": "2", "_index": "books"}}"#,
            br#"{"index":{"_id":null,"_index":"books","routing": null}}"#,
            b"{\"delete\":{}}\n",
        ] {
            assert_eq!(Parsed::plain(line), Parsed::json(line).ok());
            let mut changed = line.to_vec();
            for at in 0..line.len() {
                for replacement in replacements {
                    changed[at] = *replacement;
                    let found = Parsed::plain(&changed);
                    let text = String::from_utf8_lossy(&changed);
                    assert!(found.is_none() || found == Parsed::json(&changed).ok(), "{text}");
                }
                changed[at] = line[at];
                assert_eq!(Parsed::plain(line.get(..at).unwrap()).is_some(), line.get(at..) == Some(b"\n"));
            }
        }
        for line in [r#"{"index":{"_id":"1","_id":"2"}}"#, r#"{"index":{"_id":1}}"#, r#"{"index":{"pipeline":"p"}}"#] {
            assert_eq!(Parsed::plain(line.as_bytes()), None);
        }
    }

    #[test]
    fn takes_spaces_line_ends_escapes_and_numeric_ids() {
        assert_eq!(read("  {\"index\" : {} } \t\r").unwrap().id, None);
        assert_eq!(read(r#"{"index":{"_id":"\u00e9\ud83d\ude42"}}"#).unwrap().id.as_deref(), Some("é🙂"));
        assert_eq!(read(r#"{"index":{"_id":17}}"#).unwrap().id.as_deref(), Some("17"));
        assert_eq!(read(r#"{"index":{"_id":-3}}"#).unwrap().id.as_deref(), Some("-3"));
        assert!(read(r#"{"index":{"require_alias":false}}"#).is_ok());
        assert!(read(r#"{"index":{"require_alias":true}}"#).is_ok());
        assert_eq!(read(r#"{"create":{"require_data_stream":true}}"#).unwrap().require_data_stream, Some(true));
    }

    #[test]
    fn the_number_of_retries_has_32_bits() {
        let with =
            |retries: &str| read(&format!(r#"{{"update":{{"_id":"1","retry_on_conflict":{retries}}}}}"#)).is_ok();
        assert!(["0", "3", "\"3\"", "2147483647", "\"2147483647\""].into_iter().all(with));
        assert!(!["2147483648", "\"2147483648\"", "9223372036854775807", "-1", "3.0", "\"\""].into_iter().any(with));
    }

    /// Logstash writes `null` for absent values.
    #[test]
    fn reads_null_as_absent() {
        let line = read(r#"{"index":{"_id":null,"_index":"books","routing":null}}"#).unwrap();
        assert_eq!((line.index.as_deref(), line.id, line.routing), (Some("books"), None, None));
        let line = read(r#"{"delete":{"_id":"\"_id\":null","routing":null}}"#).unwrap();
        assert_eq!((line.id.as_deref(), line.routing), (Some("\"_id\":null"), None));
        for line in [
            r#"{"delete":{"_id":null}}"#,
            r#"{"update":{"_index":"books","_id":null}}"#,
            r#"{"index":{"_id":null,"_id":"1"}}"#,
            r#"{"index":{"_id":null,"_id":null}}"#,
            r#"{"index":{"\u005fid":null}}"#,
            r#"{"index":{"_id":nul}}"#,
        ] {
            assert_eq!(read(line), Err(LineError), "{line}");
        }
    }

    fn with(line: &str, parameter: Parameter) -> String {
        let start = 7;
        let splice = read(line).unwrap().splice(start, parameter);
        let (at, end) = ((splice.at - start) as usize, (splice.end() - start) as usize);
        let mut added = Vec::new();
        splice.write(&mut added);
        assert_eq!(splice.sent(line.len() as u64), (line.len() - (end - at) + added.len()) as u64);
        format!("{}{}{}", &line[..at], String::from_utf8(added).unwrap(), &line[end..])
    }

    #[test]
    fn a_parameter_can_be_added_in_front_of_the_others() {
        for (line, expected) in [
            (r#"{"index":{}}"#, r#"{"index":{+}}"#),
            (" { \"create\"\t: {  } } \r\n", " { \"create\"\t: {+  } } \r\n"),
            (r#"{"index":{"_index":"{b}"}}"#, r#"{"index":{+,"_index":"{b}"}}"#),
            (r#"{"index" : { "_id":"}" }}"#, r#"{"index" : {+, "_id":"}" }}"#),
            (r#"{"\u0069ndex":{"require_alias":false}}"#, r#"{"\u0069ndex":{+,"require_alias":false}}"#),
            (r#"{"index":{"_id":null}}"#, r#"{"index":{+,"_id":null}}"#),
        ] {
            assert_eq!(with(line, Parameter::Routing(3)), expected.replace('+', r#""routing":"3""#));
        }
    }

    /// A cluster refuses a whole request in which a parameter occurs twice.
    #[test]
    fn a_parameter_replaces_its_null() {
        let line = r#"{"index":{"_id":null,"_index":"books","routing": null}}"#;
        let id = "A".repeat(20);
        let expected = line.replacen("null", &format!("{id:?}"), 1);
        assert_eq!(with(line, Parameter::Id(DocumentId::new([0; 15]))), expected);
        assert_eq!(with(line, Parameter::Routing(3)), line.replace(": null", r#": "3""#));
        let line = "{\"index\":{\"_index\":\"_id\",\"dynamic_templates\":{\"_id\":\"routing\"},\"routing\"\t:\r null}}";
        assert_eq!(with(line, Parameter::Routing(3)), line.replace("null", r#""3""#));
    }

    #[test]
    fn rejects_every_other_line() {
        for line in [
            "",
            "{}",
            "null",
            "[]",
            "\"index\"",
            r#"{"index":null}"#,
            r#"{"index":[]}"#,
            r#"["index",{}]"#,
            r#"{"delete":["books","1"]}"#,
            r#"{"upsert":{"_id":"1"}}"#,
            r#"{"index":{}} x"#,
            r#"{"index":{},"delete":{"_id":"1"}}"#,
            r#"{"index":{"_id":"1","_id":"2"}}"#,
            r#"{"index":{"_id":""}}"#,
            r#"{"index":{"_id":1.5}}"#,
            r#"{"index":{"_id":-0}}"#,
            r#"{"index":{"_id":true}}"#,
            r#"{"index":{"_id":"\ud83d"}}"#,
            r#"{"index":{"_index":""}}"#,
            r#"{"index":{"routing":""}}"#,
            r#"{"index":{"_type":"doc"}}"#,
            r#"{"index":{"_type":["_doc"]}}"#,
            r#"{"index":{"_routing":"a"}}"#,
            r#"{"index":{"_type":null,"_type":null}}"#,
            r#"{"index":{"unknown":null}}"#,
            r#"{"index":{"dynamic_templates":[]}}"#,
            r#"{"index":{"dynamic_templates":{"a":1}}}"#,
            r#"{"index":{"dynamic_templates":{"a":null}}}"#,
            r#"{"index":{"dynamic_templates":{"a":{"b":"c"}}}}"#,
            r#"{"index":{"dynamic_templates":{"a":"b","a":"b"}}}"#,
            r#"{"update":{"_id":"1","dynamic_templates":{"a":"b"}}}"#,
            r#"{"delete":{"_id":"1","dynamic_templates":{"a":"b"}}}"#,
            r#"{"index":{"require_alias":"true"}}"#,
            r#"{"create":{"require_data_stream":"true"}}"#,
            r#"{"index":{"retry_on_conflict":3}}"#,
            r#"{"index":{"unknown":3}}"#,
            r#"{"delete":{}}"#,
            r#"{"update":{"_index":"books"}}"#,
            r#"{index:{}}"#,
        ] {
            assert_eq!(read(line), Err(LineError), "{line}");
        }
        assert_eq!(ActionLine::read(b"{\"index\":{\"_id\":\"\xff\"}}"), Err(LineError));
    }

    #[test]
    fn an_id_has_at_most_512_bytes() {
        let line = |id: String| format!(r#"{{"index":{{"_id":"{id}"}}}}"#);
        assert!(read(&line("x".repeat(512))).is_ok());
        assert!(read(&line("x".repeat(513))).is_err());
        assert!(read(&line("é".repeat(257))).is_err());
    }

    /// Returns whether an operation with these parameters is conditional, or `None` if the line is not vouched for.
    fn is_conditional(action: &str, parameters: &str) -> Option<bool> {
        read(&format!(r#"{{"{action}":{{"_id":"1",{parameters}}}}}"#)).ok().map(|line| line.is_conditional)
    }

    #[test]
    fn external_versions_are_for_index_and_delete() {
        for (kind, conditional) in [("external", true), ("external_gt", true), ("external_gte", false)] {
            for version in ["0", "7", "\"7\"", "\"0012\"", "9223372036854775807"] {
                let parameters = format!(r#""version":{version},"version_type":"{kind}""#);
                for action in ["index", "delete"] {
                    assert_eq!(is_conditional(action, &parameters), Some(conditional), "{parameters}");
                }
                for action in ["create", "update"] {
                    assert_eq!(is_conditional(action, &parameters), None, "{parameters}");
                }
                assert!(read(&format!(r#"{{"index":{{{parameters}}}}}"#)).is_err(), "without an id");
            }
            let zeros = format!("\"{:0>20}\"", 1);
            for version in
                ["-1", "1.0", "1e3", "\"\"", "\"+1\"", "\"-1\"", "\" 1\"", "true", "9223372036854775808", &zeros]
            {
                let parameters = format!(r#""version":{version},"version_type":"{kind}""#);
                assert_eq!(is_conditional("index", &parameters), None, "{parameters}");
            }
            assert_eq!(is_conditional("index", &format!(r#""version_type":"{kind}""#)), None);
            assert_eq!(is_conditional("index", &format!(r#""version":null,"version_type":"{kind}""#)), None);
        }
    }

    #[test]
    fn the_internal_version_type_has_no_version() {
        for action in ["index", "create", "update", "delete"] {
            assert_eq!(is_conditional(action, r#""version_type":"internal""#), Some(false));
            assert_eq!(is_conditional(action, r#""version":null,"version_type":"internal""#), Some(false));
            assert_eq!(is_conditional(action, r#""version":3,"version_type":"internal""#), None);
            assert_eq!(is_conditional(action, r#""version":3"#), None);
            for kind in ["Internal", "EXTERNAL", "force", ""] {
                assert_eq!(is_conditional(action, &format!(r#""version":3,"version_type":"{kind}""#)), None);
            }
        }
        assert!(read(r#"{"index":{"version_type":"internal"}}"#).is_ok());
    }

    #[test]
    fn a_sequence_number_has_a_primary_term_and_no_version() {
        let both = r#""if_seq_no":0,"if_primary_term":1"#;
        for action in ["index", "update", "delete"] {
            assert_eq!(is_conditional(action, both), Some(true));
            assert_eq!(is_conditional(action, r#""if_seq_no":"12","if_primary_term":"3""#), Some(true));
            for half in [r#""if_seq_no":0"#, r#""if_primary_term":1"#, r#""if_seq_no":0,"if_primary_term":0"#] {
                assert_eq!(is_conditional(action, half), None, "{half}");
            }
            assert_eq!(is_conditional(action, &format!(r#"{both},"version":3,"version_type":"external""#)), None);
            assert_eq!(is_conditional(action, &format!(r#"{both},"version_type":"external""#)), None);
            assert!(read(&format!(r#"{{"{action}":{{{both}}}}}"#)).is_err(), "without an id");
        }
        assert_eq!(is_conditional("create", both), None);
        assert_eq!(is_conditional("update", &format!(r#"{both},"retry_on_conflict":0"#)), Some(true));
        assert_eq!(is_conditional("update", &format!(r#"{both},"retry_on_conflict":1"#)), None);
    }

    /// The OpenTelemetry collector's exporter writes them for metrics.
    #[test]
    fn dynamic_templates_are_an_object_of_strings() {
        for templates in ["{}", r#"{"a":"b"}"#, r#"{ "metrics.x" : "gauge_double", "metrics.y":"\u0067" }"#] {
            for action in ["index", "create"] {
                let line = format!(r#"{{"{action}":{{"_index":"m","dynamic_templates":{templates}}}}}"#);
                assert!(read(&line).unwrap().has_dynamic_templates, "{line}");
            }
        }
        assert!(!read(r#"{"create":{"dynamic_templates":null}}"#).unwrap().has_dynamic_templates);
    }

    #[test]
    fn a_parameter_is_added_before_dynamic_templates() {
        let line = r#"{"create":{"dynamic_templates":{"a":"b"},"_index":"m"}}"#;
        assert_eq!(with(line, Parameter::Routing(3)), line.replacen(":{", r#":{"routing":"3","#, 1));
    }

    /// Fluentd writes `null` for the type.
    #[test]
    fn a_parameter_that_is_null_is_absent() {
        for name in [
            "_index",
            "_type",
            "pipeline",
            "require_alias",
            "require_data_stream",
            "retry_on_conflict",
            "version",
            "version_type",
            "if_seq_no",
            "if_primary_term",
            "dynamic_templates",
        ] {
            assert_eq!(is_conditional("index", &format!(r#""{name}":null"#)), Some(false), "{name}");
        }
    }

    #[test]
    fn a_line_may_name_a_pipeline() {
        let pipeline = |parameter: &str| {
            let line = format!(r#"{{"index":{{"_id":"1"{parameter}}}}}"#);
            read(&line).map(|line| line.pipeline.map(str::to_owned))
        };
        assert_eq!(pipeline(r#","pipeline":"p""#), Ok(Some("p".to_owned())));
        assert_eq!(pipeline(r#","pipeline":"_none""#), Ok(Some("_none".to_owned())));
        assert_eq!(pipeline(r#","pipeline":null"#), Ok(None));
        for unusual in [r#""p\u0031""#, r#""""#, "7", "[]", "{}"] {
            assert_eq!(pipeline(&format!(r#","pipeline":{unusual}"#)), Err(LineError), "{unusual}");
        }
    }
}
