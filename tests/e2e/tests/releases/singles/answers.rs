//! The answers to a request and to its bulk of one, compared.
//!
//! | outcome | meaning |
//! |---|---|
//! | 201 | the item without `status` is the answer, byte for byte; statuses, headers and documents are the same too |
//! | 409 item | the item failed with the status of the answer; the answer's body can be made from it |
//! | 409 item, caused | the item's error has a cause, and the root causes of the answer are unlike its error |
//! | 409 item, other error | the errors differ in more |
//! | …, other headers | and so do the headers |
//! | bulk 400, single 201 | the bulk request is refused as a whole |
//! | item 201, single 400 | the statuses differ |
//! | 200, unchanged | an update changed nothing: the item has the shards of its batch, and the answer has none |
//! | 200, other answer | the bodies differ in another way |
//! | 201, other location | the answer's `Location` is not that of the documented rule |
//! | 200, other document | the answers agree, but the documents differ |
//! | single 405 | no route for single documents |

use std::sync::LazyLock;

use bulk_reshuffle_stack::Response;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use regex_lite::Regex;
use serde_json::Value;

use super::bulk_of_one::BulkOfOne;
use super::case::Case;

/// What Java's `URLEncoder` escapes, and the space, which becomes a plus.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'*').remove(b' ');

/// The answers to a request and to its bulk of one.
#[derive(Debug)]
pub struct Answers<'a> {
    case: &'a Case,
    bulk: &'a BulkOfOne,
    single: &'a Response,
    batch: &'a Response,
}

impl<'a> Answers<'a> {
    pub fn new(case: &'a Case, bulk: &'a BulkOfOne, single: &'a Response, batch: &'a Response) -> Self {
        Self { case, bulk, single, batch }
    }

    /// Returns the outcome, without a look at the documents.
    pub fn outcome(&self) -> String {
        let (bulk, single) = (self.batch.status.as_u16(), self.single.status.as_u16());
        if bulk != 200 {
            return format!("bulk {bulk}, single {single}");
        }
        let (item, answer) = (self.item(), comparable(&self.single.text()));
        let Some(item) = item else { return "no item".to_owned() };
        let status = status(&item).unwrap_or_default();
        if status != single {
            return format!("item {status}, single {single}");
        }
        let mut outcome = status.to_string();
        if let Some((_, error)) = item.split_once(r#","error":"#) {
            outcome += " item";
            outcome += error_difference(error.strip_suffix('}').unwrap_or_default(), &answer, status);
        } else {
            let fields = item.strip_suffix(&format!(",\"status\":{status}}}")).unwrap_or_default();
            outcome += self.difference(&format!("{fields}}}"), &answer);
        }
        if location(self.single) != self.expected_location() {
            outcome += ", other location";
        }
        if headers(self.single) != headers(self.batch) {
            outcome += ", other headers";
        }
        outcome
    }

    /// Returns how the answer differs from the item without its status.
    fn difference(&self, item: &str, answer: &str) -> &'static str {
        let is_unchanged = self.bulk.action == "update" && item.contains(r#""result":"noop""#);
        match item == answer {
            true => "",
            false if is_unchanged && unchanged(item) == answer => ", unchanged",
            false => ", other answer",
        }
    }

    /// Returns the item's inner object.
    fn item(&self) -> Option<String> {
        let text = comparable(&self.batch.text());
        let (_, item) = text.split_once(&format!("\"items\":[{{\"{}\":", self.bulk.action))?;
        Some(item.strip_suffix("}]}")?.to_owned())
    }

    fn expected_location(&self) -> Option<String> {
        let answer = self.single.json().ok().filter(|_| self.single.status == 201)?;
        let place = format!("/{}/_doc/{}", encoded(answer["_index"].as_str()?), encoded(answer["_id"].as_str()?));
        let routing = match self.case.target().0.starts_with("/fixed") {
            true => Some("ü b".to_owned()),
            false => parameter(self.case, "routing")
                .map(|routing| percent_decode_str(&routing.replace('+', " ")).decode_utf8_lossy().into_owned()),
        };
        let routing = routing.filter(|routing| !routing.is_empty());
        Some(place + &routing.map(|routing| format!("?routing={}", encoded(&routing))).unwrap_or_default())
    }
}

/// Returns the path of the document, if the request has written one, or has found none.
pub fn document(case: &Case, single: &Response) -> Option<String> {
    let answer = single.json().ok()?;
    let (index, id) = (answer["_index"].as_str()?, answer["_id"].as_str()?);
    let path = |text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let routing = location(single).and_then(|location| Some(location.split_once('?')?.1.to_owned()));
    let query = routing.or_else(|| Some(format!("routing={}", parameter(case, "routing")?)));
    let is_made = case.target().0.trim_end_matches('/').split('/').count() < 4;
    (!is_made).then(|| format!("/{}/_doc/{}?{}", path(index), path(id), query.unwrap_or_default()))
}

fn location(answer: &Response) -> Option<String> {
    Some(answer.headers.get("location")?.to_str().ok()?.to_owned())
}

fn parameter<'a>(case: &'a Case, wanted: &str) -> Option<&'a str> {
    let parameters = case.target().1.split('&').filter_map(|part| part.split_once('='));
    parameters.filter(|(name, _)| *name == wanted).map(|(_, value)| value).next()
}

/// Returns a text without what differs between two runs: sequence numbers, generated ids, and the ids of indices.
pub fn comparable(text: &str) -> String {
    static VARYING: LazyLock<[(Regex, &str); 8]> = LazyLock::new(|| {
        [
            (r#""_seq_no" ?: ?\d+"#, r#""_seq_no":0"#),
            (r"seqNo \[\d+\]", "seqNo [0]"),
            (r#""index_uuid":"[^"]*""#, r#""index_uuid":"u""#),
            (r"/[\w-]{22}\]", "/u]"),
            (r"/\[[\w-]{20}\]", "/[g]"),
            (r"\[Content-Type, Accept\]", "[Accept, Content-Type]"),
            (r"(method, )?allowed: \[[A-Z, ]*\]", "allowed: []"),
            (r#""_id":"[\w-]{20}""#, r#""_id":"g""#),
        ]
        .map(|(pattern, instead)| (Regex::new(pattern).expect("a pattern"), instead))
    });
    let replaced = |text: String, (pattern, instead): &(Regex, &str)| pattern.replace_all(&text, *instead).into_owned();
    VARYING.iter().fold(text.to_owned(), replaced)
}

/// Returns the answer to an update that changes nothing, made of its item.
fn unchanged(item: &str) -> String {
    static SHARDS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"("forced_refresh":true,)?"_shards":\{[^}]*\}"#).expect("a pattern"));
    SHARDS.replace(item, r#""_shards":{"total":0,"successful":0,"failed":0}"#).into_owned()
}

/// Returns an answer as a text, without what differs between two runs. Of failures on the server's side, which the filter
/// writes itself, only the status counts: their texts contain times and the request. It does not write those of a `fail`
/// processor.
pub fn shown(answer: &Response) -> String {
    let status = answer.status.as_u16();
    if status >= 500 && !answer.text().contains("fail_processor_exception") {
        return status.to_string();
    }
    static GENERATED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"/_doc/[\w-]{20}(\?|$)").expect("a pattern"));
    let location = location(answer).map(|location| GENERATED.replace(&location, "/_doc/g$1").into_owned());
    // Nodes list methods in any order, Envoy closes connections after a 400, and its compressor adds `vary`.
    let headers =
        headers(answer).into_iter().filter(|(name, _)| !["allow", "connection", "vary"].contains(&name.as_str()));
    format!("{status} {location:?} {:?} {}", headers.collect::<Vec<_>>(), comparable(&answer.text()))
}

fn status(item: &str) -> Option<u16> {
    serde_json::from_str::<Value>(item).ok()?["status"].as_u64()?.try_into().ok()
}

/// Returns how a failed item's error differs from the answer.
fn error_difference(error: &str, answer: &str, status: u16) -> &'static str {
    let fields = error.strip_prefix('{').unwrap_or_default();
    if answer == format!("{{\"error\":{{\"root_cause\":[{error}],{fields},\"status\":{status}}}") {
        return "";
    }
    let (item, whole) = (serde_json::from_str::<Value>(error), serde_json::from_str::<Value>(answer));
    match (item, whole) {
        (Ok(item), Ok(mut whole)) => {
            let without = whole["error"].as_object_mut().map(|error| error.remove("root_cause"));
            match without.is_some() && whole["error"] == item && item.get("caused_by").is_some() {
                true => ", caused",
                false => ", other error",
            }
        }
        _ => ", other error",
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string().replace(' ', "+")
}

/// Returns the headers, except those that describe the body's length, the location, and those that Envoy adds.
fn headers(response: &Response) -> Vec<(String, String)> {
    let skipped =
        ["content-length", "location", "transfer-encoding", "content-encoding", "date", "server", "x-request-id"];
    let is_skipped = |name: &str| skipped.contains(&name) || name.starts_with("x-envoy-");
    let headers = response.headers.iter().filter(|(name, _)| !is_skipped(name.as_str()));
    let mut headers: Vec<_> = headers
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    headers.sort();
    headers
}
