use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::operation::OfAction;
use super::{Action, ErrorItem, quotation};
use crate::hash::hash;
use crate::invariant::{Count, part};
use crate::json::{FastReader, Text, each_element, each_field, shallow_value};

/// A node's answer to a batch, split into its items without re-serialising them.
///
/// ```text
/// {"took":3,"errors":false,"items":[{"index":{"_index":"books","_id":"1",…,"status":201}},…]}
/// ```
/// Elasticsearch 8 and later write `errors` first.
#[derive(Debug)]
pub struct Answer {
    /// The time that the node reports, in milliseconds.
    pub took: u64,
    /// The time that the node reports for ingest pipelines, in milliseconds, if it ran any.
    pub ingest_took: Option<u64>,
    /// Whether `errors` comes before `took`.
    pub errors_first: bool,
    /// The items: one for each operation of the batch, in its order.
    pub items: Vec<AnswerItem>,
    body: Vec<u8>,
}

/// One item of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerItem {
    /// The action of the item.
    pub action: Action,
    /// Whether it reports an error.
    pub failed: bool,
    /// The HTTP status of the operation.
    pub status: u16,
    /// The hash of the document's id, if the item has one.
    pub id_hash: Option<u32>,
    start: u32,
    end: u32,
}

/// The longest item of a success, or of an error of a few words, in bytes, without the document's id and the names of
/// its index. No release writes a longer one (`make test-matrix` checks them).
pub const ITEM_ROOM: u64 = 384;

/// The longest item of an error, in bytes, without what it quotes: the document, its id and the names of its index,
/// each possibly twice. A release may write errors of any length; this is more than `make test-matrix` has seen.
pub const ERROR_ROOM: u64 = 1024;

/// The beginning of the reason with which OpenSearch's security plug-in refuses operations.
const NO_PERMISSIONS: &[u8] = br#""reason":"no permissions for ["#;

/// The error for a body that is not a bulk answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an answer to a bulk request")]
pub struct AnswerError;

impl Answer {
    /// Splits the body of an answer to `operations` operations into items. Removes what its errors quote of the batch:
    /// see [`quotation`]. Fails if the body is not a bulk answer, or has more than `2 × operations + 16` items:
    /// otherwise the node would decide how much memory they take.
    pub fn read(body: Vec<u8>, operations: usize) -> Result<Self, AnswerError> {
        let most = most_items(operations);
        let body = match quotation::is_in(&body) {
            true => unquoted(&body, most)?,
            false => body,
        };
        Ok(Self::new(cut(&body, operations)?, body))
    }

    /// Does the same for a batch of one request, whose errors may quote what is its own. Returns the body if it is not
    /// such an answer.
    pub fn read_own(body: Vec<u8>, operations: usize) -> Result<Self, Vec<u8>> {
        match cut(&body, operations) {
            Ok(cut) => Ok(Self::new(cut, body)),
            Err(AnswerError) => Err(body),
        }
    }

    fn new((head, items): (Head, Vec<AnswerItem>), body: Vec<u8>) -> Self {
        let Head { took, ingest_took, errors_first } = head;
        Self { took, ingest_took, errors_first, items, body }
    }

    /// Returns the body, unchanged if the answer was [read as its own](Self::read_own).
    pub fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// Returns the text of one of this answer's items.
    pub fn text(&self, item: &AnswerItem) -> &[u8] {
        part(&self.body, item.start as usize..item.end as usize, "an item lies within its answer")
    }

    /// Returns whether OpenSearch's security plug-in refused the operation of one of this answer's items. The plug-in
    /// refuses all operations of a batch on a shard if the user lacks the right to one of them, and none is carried out.
    pub fn is_refused(&self, item: &AnswerItem) -> bool {
        item.status == 403 && memchr::memmem::find(self.text(item), NO_PERMISSIONS).is_some()
    }

    /// Returns the length, in bytes, of `count` items from item `first` on, with their separators.
    pub fn bytes(&self, first: usize, count: usize) -> u64 {
        let last = first.saturating_add(count).saturating_sub(1);
        match (self.items.get(first), self.items.get(last)) {
            (Some(first), Some(last)) => u64::from(last.end.minus(first.start, "items come in order")),
            _ => 0,
        }
    }

    /// Returns the index that one of this answer's items names.
    pub fn index(&self, item: &AnswerItem) -> Option<String> {
        let item: Item<'_> = serde_json::from_slice(self.text(item)).ok()?;
        item.into_parts().1.index.map(Cow::into_owned)
    }

    /// Returns the type of the error that one of this answer's items reports, such as `mapper_parsing_exception`.
    pub fn error_type(&self, item: &AnswerItem) -> Option<String> {
        let item: Item<'_> = serde_json::from_slice(self.text(item)).ok()?;
        Some(serde_json::from_str::<ErrorType>(item.into_parts().1.error?.get()).ok()?.name)
    }

    /// Returns whether an answer that begins like this says that no operation has failed.
    pub fn begins_with_success(beginning: &[u8]) -> bool {
        let mut text = FastReader::new(beginning);
        let mut before_errors = || {
            text.past(b"{")?;
            for field in [&b"\"took\":"[..], b"\"ingest_took\":"] {
                if text.takes(field) {
                    text.number()?;
                    text.past(b",")?;
                }
            }
            Some(())
        };
        before_errors().is_some() && text.takes(b"\"errors\":false")
    }

    /// Returns the type of the error with which a request was refused as a whole.
    pub fn refusal_type(body: &[u8]) -> Option<String> {
        serde_json::from_slice::<Refusal>(body).ok().map(|refusal| refusal.error.name)
    }

    /// Returns whether the document of one of this answer's items went to a failure store, where it got another id.
    pub fn is_redirected(&self, item: &AnswerItem) -> bool {
        serde_json::from_slice::<Item<'_>>(self.text(item))
            .is_ok_and(|item| item.into_parts().1.failure_store.as_deref() == Some("used"))
    }

    /// Returns the approximate memory use, in bytes.
    pub fn memory(&self) -> u64 {
        self.items.capacity().saturating_mul(size_of::<AnswerItem>()).saturating_add(self.body.capacity()) as u64
    }

    /// Returns the answer with each item within [`ITEM_ROOM`]. A longer item keeps its action, index, id and status,
    /// and its error shortened by `shorten`.
    pub fn shortened(mut self, shorten: impl Fn(&RawValue) -> Box<RawValue>) -> Self {
        let mut body = Vec::with_capacity(self.body.len().min(self.items.len().saturating_mul(ITEM_ROOM as usize)));
        for item in &mut self.items {
            let text = part(&self.body, item.start as usize..item.end as usize, "an item lies within its answer");
            if !body.is_empty() {
                body.push(b',');
            }
            let start = body.len() as u32;
            match short(text, &shorten) {
                Some(short) => body.extend_from_slice(&short),
                None => body.extend_from_slice(text),
            }
            *item = item.at(start..body.len() as u32);
        }
        Self { body, ..self }
    }
}

/// Returns the maximum number of items in an answer to `operations` operations.
fn most_items(operations: usize) -> usize {
    operations.saturating_mul(2).saturating_add(16)
}

fn cut(body: &[u8], operations: usize) -> Result<(Head, Vec<AnswerItem>), AnswerError> {
    if u32::try_from(body.len()).is_err() {
        return Err(AnswerError);
    }
    let most = most_items(operations);
    plain(body, operations, most).map_or_else(|| json(body, most), Ok)
}

/// Returns a short item to replace one that is too long, or `None` if it is not.
fn short(text: &[u8], shorten: impl Fn(&RawValue) -> Box<RawValue>) -> Option<Vec<u8>> {
    if text.len() as u64 <= ITEM_ROOM {
        return None;
    }
    let item: Item<'_> = serde_json::from_slice(text).ok()?;
    let (action, fields) = item.into_parts();
    let names = [&fields.index, &fields.id].into_iter().flatten().map(|name| name.len() as u64).sum();
    if text.len() as u64 <= ITEM_ROOM.saturating_add(names) {
        return None;
    }
    let mut short = Vec::new();
    let error = fields.error.map(shorten);
    ErrorItem::write_short(
        action,
        fields.index.as_deref(),
        fields.id.as_deref(),
        fields.status,
        error.as_deref(),
        &mut short,
    );
    Some(short)
}

impl AnswerItem {
    /// Returns whether the item reports a failure that says nothing about an earlier attempt. Every failure does,
    /// except one caused by the document itself (status 400).
    pub fn is_uncertain(&self) -> bool {
        self.failed && self.status != 400
    }

    /// Parses an item in any notation. Its position is still unset.
    fn json(text: &str) -> Option<Self> {
        let item: Item<'_> = serde_json::from_str(text).ok()?;
        let (action, fields) = item.into_parts();
        let id_hash = fields.id.as_deref().map(hash);
        Some(Self { action, failed: fields.error.is_some(), status: fields.status, id_hash, start: 0, end: 0 })
    }

    /// Sets the item's position in the body.
    fn at(self, Range { start, end }: Range<u32>) -> Self {
        Self { start, end, ..self }
    }
}

/// A successful item in the notation that clusters nearly always use, and the texts around the parts that change
/// between items: the id, the version and the sequence number. Comparing these texts with the next item takes a third
/// of the instructions of parsing it.
#[derive(Debug, Clone, Copy)]
struct Pattern<'a> {
    /// The item, with its position unset.
    item: AnswerItem,
    before_id: &'a [u8],
    behind_version: &'a [u8],
    behind_sequence_number: &'a [u8],
}

const VERSION: &[u8] = b",\"_version\":";

impl<'a> Pattern<'a> {
    /// Reads the pattern from the next item, if it is such an item.
    fn read(text: &mut FastReader<'a>) -> Option<Self> {
        let begin = text.rest();
        text.past(b"{")?;
        let action = Action::plain(text)?;
        text.past(b":{\"_index\":")?;
        text.string()?;
        // Elasticsearch up to 7 and OpenSearch 1 write a type.
        text.takes(b",\"_type\":\"_doc\"");
        text.past(b",\"_id\":")?;
        let before_id = text.past_since(begin);
        let id_hash = Some(hash(text.string()?));
        text.number_after(VERSION)?;
        let begin = text.rest();
        text.past(b",\"result\":")?;
        text.string()?;
        text.takes(b",\"forced_refresh\":true");
        text.number_after(b",\"_shards\":{\"total\":")?;
        text.number_after(b",\"successful\":")?;
        text.number_after(b",\"failed\":")?;
        text.past(b"},\"_seq_no\":")?;
        let behind_version = text.past_since(begin);
        text.number()?;
        let begin = text.rest();
        text.number_after(b",\"_primary_term\":")?;
        let status = u16::try_from(text.number_after(b",\"status\":")?).ok()?;
        text.past(b"}}")?;
        let behind_sequence_number = text.past_since(begin);
        let item = AnswerItem { action, failed: false, status, id_hash, start: 0, end: 0 };
        Some(Self { item, before_id, behind_version, behind_sequence_number })
    }

    /// Reads the next item, if it matches this pattern.
    fn repeated(&self, text: &mut FastReader<'_>) -> Option<AnswerItem> {
        text.past(self.before_id)?;
        let id_hash = Some(hash(text.string()?));
        text.number_after(VERSION)?;
        text.number_after(self.behind_version)?;
        text.past(self.behind_sequence_number)?;
        Some(AnswerItem { id_hash, ..self.item })
    }
}

/// Parses an answer in the notation that clusters nearly always use. Single items may differ.
fn plain(body: &[u8], operations: usize, most: usize) -> Option<(Head, Vec<AnswerItem>)> {
    let mut text = FastReader::new(body);
    let head = Head::plain(&mut text)?;
    let (mut items, mut pattern) = (Vec::with_capacity(operations.min(body.len() / SHORTEST_ITEM)), None);
    let mut is_over = text.takes(b"]}");
    while !is_over {
        let begin = text.rest();
        let item = next_item(&mut text, &mut pattern)?;
        let place = |rest: &[u8]| body.len().minus(rest.len(), "the rest is a part of the body") as u32;
        if items.len() >= most {
            return None;
        }
        items.push(item.at(place(begin)..place(text.rest())));
        is_over = text.takes(b"]}");
        if !is_over {
            text.past(b",")?;
        }
    }
    text.rest().is_empty().then_some((head, items))
}

/// Reads the next item, which may match the pattern of the previous one.
fn next_item<'a>(text: &mut FastReader<'a>, pattern: &mut Option<Pattern<'a>>) -> Option<AnswerItem> {
    let begin = text.rest();
    if let Some(item) = pattern.and_then(|pattern| pattern.repeated(text)) {
        return Some(item);
    }
    *text = FastReader::new(begin);
    *pattern = Pattern::read(text);
    if let Some(Pattern { item, .. }) = pattern {
        return Some(*item);
    }
    let (value, rest) = shallow_value(begin)?;
    let item = AnswerItem::json(std::str::from_utf8(value).ok()?).filter(|_| begin.starts_with(b"{"))?;
    *text = FastReader::new(rest);
    Some(item)
}

/// The length of `{"index":{"status":1}},` in bytes. No item is shorter.
const SHORTEST_ITEM: usize = 22;

/// Parses an answer in any notation.
fn json(body: &[u8], most: usize) -> Result<(Head, Vec<AnswerItem>), AnswerError> {
    let (head, items) = parsed(body, most)?;
    let item = |text: &RawValue| Some(AnswerItem::json(text.get())?.at(position(text.get(), body)?));
    Ok((head, items.into_iter().map(item).collect::<Option<_>>().ok_or(AnswerError)?))
}

/// The part before the items.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    took: u64,
    ingest_took: Option<u64>,
    errors_first: bool,
}

impl Head {
    /// Reads up to the first item.
    fn plain(text: &mut FastReader<'_>) -> Option<Self> {
        text.past(b"{")?;
        let errors_first = errors(text);
        if errors_first {
            text.past(b",")?;
        }
        text.past(b"\"took\":")?;
        let took = text.number()?;
        text.past(b",")?;
        let mut ingest_took = None;
        if text.takes(b"\"ingest_took\":") {
            ingest_took = Some(text.number()?);
            text.past(b",")?;
        }
        if !errors_first {
            errors(text).then_some(())?;
            text.past(b",")?;
        }
        text.past(b"\"items\":[")?;
        Some(Self { took, ingest_took, errors_first })
    }
}

/// Skips the `errors` field if it comes next. Returns whether it did.
fn errors(text: &mut FastReader<'_>) -> bool {
    text.takes(b"\"errors\":false") || text.takes(b"\"errors\":true")
}

/// Returns the body without what its errors quote.
fn unquoted(body: &[u8], most: usize) -> Result<Vec<u8>, AnswerError> {
    let (_, items) = parsed(body, most)?;
    let (mut made, mut copied) = (Vec::with_capacity(body.len()), 0);
    for item in items {
        let item: Item<'_> = serde_json::from_str(item.get()).map_err(|_| AnswerError)?;
        if let Some(error) = item.into_parts().1.error {
            let Range { start, end } = position(error.get(), body).ok_or(AnswerError)?;
            made.extend_from_slice(part(body, copied..start as usize, "errors come in order"));
            quotation::write_unquoted(error.get(), &mut made);
            copied = end as usize;
        }
    }
    made.extend_from_slice(part(body, copied.., "errors lie within their answer"));
    Ok(made)
}

/// Returns the range of `body` that the slice `text` occupies.
fn position(text: &str, body: &[u8]) -> Option<Range<u32>> {
    let start = (text.as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
    let end = start.checked_add(text.len())?;
    (end <= body.len()).then_some(start as u32..end as u32)
}

/// An item in any notation.
type Item<'a> = OfAction<ItemFields<'a>>;

#[derive(Deserialize)]
struct ItemFields<'a> {
    #[serde(rename = "_index", borrow)]
    index: Option<Cow<'a, str>>,
    #[serde(rename = "_id", borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    failure_store: Option<Cow<'a, str>>,
    status: u16,
}

/// The error of an operation or a whole request.
#[derive(Deserialize)]
struct ErrorType {
    #[serde(rename = "type")]
    name: String,
}

/// The answer to a request that was refused as a whole.
#[derive(Deserialize)]
struct Refusal {
    error: ErrorType,
}

/// Parses an answer of at most `most` items in any notation.
fn parsed(body: &[u8], most: usize) -> Result<(Head, Vec<&RawValue>), AnswerError> {
    // Parsing nested values takes a byte for each level.
    shallow_value(body).ok_or(AnswerError)?;
    let text: &RawValue = serde_json::from_slice(body).map_err(|_| AnswerError)?;
    let (mut took, mut ingest_took, mut errors_first, mut items) = (None, None, false, None);
    let number = |value: &RawValue| serde_json::from_str::<u64>(value.get()).ok();
    let is_read = each_field(text, |key, value| {
        let Ok(Text(key)) = serde_json::from_str(key.get()) else { return false };
        let read = match key.as_ref() {
            "took" => number(value).map(|time| took = Some(time)),
            "ingest_took" => number(value).map(|time| ingest_took = Some(time)),
            "errors" => {
                errors_first = took.is_none();
                Some(())
            }
            "items" if items.is_some() => None,
            "items" => listed(value, most).map(|list| items = Some(list)),
            _ => Some(()),
        };
        read.is_some()
    });
    let items = items.filter(|_| is_read).ok_or(AnswerError)?;
    Ok((Head { took: took.unwrap_or_default(), ingest_took, errors_first }, items))
}

/// Returns the texts of the items in an array, if there are at most `most`.
fn listed(array: &RawValue, most: usize) -> Option<Vec<&RawValue>> {
    let mut items = Vec::new();
    let is_all = each_element(array, |item| {
        let fits = items.len() < most;
        items.extend(fits.then_some(item));
        fits
    });
    is_all.then_some(items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash;

    #[test]
    fn errors_do_not_quote_the_batch_and_ids_stay() {
        let marker = "[Source: (byte[])";
        let error = |reason: &str| format!(r#"{{"type":"x","reason":"{reason}"}}"#);
        let body = |quoting: &str, plain: &str| {
            format!(
                r#"{{"took":7,"errors":true,"items":[{{"index":{{"_id":"{marker}","error":{quoting},"status":400}}}},
                {{"create":{{"_id":"2","status":201}}}},{{"index":{{"error":{plain},"_id":"3","status":400}}}}]}}"#
            )
        };
        let quoting = error(&format!(r#"at {marker}\"secret\"; line: 1]"#));
        let answer = Answer::read(body(&quoting, &error("y")).into_bytes(), 3).unwrap();
        assert_eq!(
            answer.items.iter().map(|item| item.id_hash).collect::<Vec<_>>(),
            [marker, "2", "3"].map(|id| Some(hash(id)))
        );
        let expected = body(&error("at [Source: REDACTED; line: 1]"), &error("y"));
        assert_eq!(answer.body, expected.into_bytes());
    }

    #[test]
    fn the_fast_path_reads_an_answer_like_the_json_parser() {
        let success = r#"{"index":{"_index":"a","_id":"1","_version":1,"result":"created","_shards":{"total":2,"successful":1,"failed":0},"_seq_no":0,"_primary_term":10,"status":201}}"#;
        let typed = success.replacen(r#""_id""#, r#""_type":"_doc","_id""#, 1).replace("created", "updated");
        let refreshed = success.replace(r#","_shards""#, r#","forced_refresh":true,"_shards""#);
        let again = success.replace(r#""_id":"1","_version":1"#, r#""_id":"z","_version":23"#).replace(":0,", ":45,");
        let error = r#"{"create":{"_index":"a","_id":"é","status":409,"error":{"type":"x"}}}"#;
        let items = [success, &again, success, &typed, &refreshed, error, &again, &again].join(",");
        let replacements = b"\"\\{}[],:0 1a-.e\n\0\xc3";
        for head in [r#""took":3,"errors":true"#, r#""errors":false,"took":30"#] {
            let body = format!(r#"{{{head},"items":[{items}]}}"#).into_bytes();
            assert_eq!(plain(&body, 8, 8).unwrap(), json(&body, 8).unwrap());
            assert_eq!(plain(&body, 8, 8).unwrap().1.len(), 8);
            let mut changed = body.clone();
            for at in 0..body.len() {
                for replacement in replacements {
                    changed[at] = *replacement;
                    let found = plain(&changed, 8, 8);
                    assert!(
                        found.is_none() || found == json(&changed, 8).ok(),
                        "{}",
                        String::from_utf8_lossy(&changed)
                    );
                }
                changed[at] = body[at];
                let found = plain(&body[..at], 8, 8);
                assert!(found.is_none(), "up to {at}: {found:?}");
            }
        }
        let none = br#"{"took":0,"errors":false,"items":[]}"#;
        assert_eq!(plain(none, 1, 8).unwrap(), json(none, 8).unwrap());
    }

    #[test]
    fn splits_items_without_changing_them() {
        let body = br#"{"took":7,"errors":true,"items":[
            {"index":{"_index":"a","_id":"1","status":201}} , {"delete" : {"_id":"\u00e9","error":{"type":"x"},"status":409}}]}"#;
        let answer = Answer::read(body.to_vec(), 2).unwrap();
        assert_eq!((answer.took, answer.errors_first, answer.items.len()), (7, false, 2));
        let texts: Vec<_> = answer.items.iter().map(|item| std::str::from_utf8(answer.text(item)).unwrap()).collect();
        assert_eq!(
            texts,
            [
                r#"{"index":{"_index":"a","_id":"1","status":201}}"#,
                r#"{"delete" : {"_id":"\u00e9","error":{"type":"x"},"status":409}}"#
            ]
        );
        let heads: Vec<_> = answer.items.iter().map(|item| (item.action, item.failed, item.id_hash)).collect();
        assert_eq!(heads, [(Action::Index, false, Some(hash("1"))), (Action::Delete, true, Some(hash("é")))]);
    }

    #[test]
    fn detects_the_field_order_of_newer_versions() {
        let answer = Answer::read(br#"{"errors":false,"took":0,"ingest_took":3,"items":[]}"#.to_vec(), 1).unwrap();
        assert!(answer.errors_first && answer.items.is_empty());
    }

    #[test]
    fn rejects_a_body_that_is_not_a_bulk_answer() {
        for body in [
            &b""[..],
            b"upstream connect error",
            b"{}",
            b"[]",
            br#"{"took":1,"errors":false}"#,
            br#"{"took":1,"errors":false,"items":[{"index":{}}"#,
            br#"{"took":1,"errors":false,"items":[{"other":{}}]}"#,
            br#"{"took":1,"errors":false,"items":[7]}"#,
            b"{\"took\":1,\"items\":[{\"index\":{\"_id\":\"\xff\"}}]}",
        ] {
            assert_eq!(Answer::read(body.to_vec(), 1).unwrap_err(), AnswerError);
        }
    }
}
