//! Assembles the answer to a request from the outcomes of its shares.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::LazyLock;

use serde_json::value::RawValue;

use super::bulk_request::Request;
use super::headers::carried;
use super::outcome::{NodeAnswer, Outcome, Refusal, WholeAnswer};
use crate::bulk::{ActionLine, AnswerItem, ErrorItem, Operation, Reply, ReplyHead, pretty};
use crate::engine::command::{Headers, Response};
use crate::invariant::{Count, found, part};

/// The error for an operation without a recorded outcome.
pub static NO_ANSWER: LazyLock<Box<RawValue>> =
    LazyLock::new(|| ErrorItem::error("bulk_outcome_unknown_exception", "no answer"));

/// The source of an operation's item.
#[derive(Clone, Copy)]
enum Source<'a> {
    Item(&'a AnswerItem, &'a NodeAnswer),
    Error(u16, &'a RawValue),
    Refusal(&'a Refusal),
}

impl Request {
    /// Returns the answer. All shares must have an outcome.
    pub fn response(mut self) -> Response {
        if self.document().is_some() {
            return self.document_response();
        }
        let Response { status, headers, body } = match self.whole() {
            Some(Response { status, headers, body }) => {
                Response { status, headers: carried(&headers), body: self.selected(status, body) }
            }
            None => self.merged(),
        };
        Response { status, headers, body: self.printed_as_asked(body) }
    }

    /// Returns the body of an answer, indented if the client requests that.
    pub fn printed_as_asked(&self, body: Vec<u8>) -> Vec<u8> {
        self.head().pretty.then(|| pretty(&body)).flatten().unwrap_or(body)
    }

    /// Returns the response that answers the whole request, if all parts of all shares got a response with the same
    /// status.
    fn whole(&mut self) -> Option<Response> {
        self.whole_status()?;
        match self.shares.first_mut()?.take_first()? {
            Outcome::Refused(refusal) => Some(refusal.response.clone()),
            Outcome::Whole(answer) => Some(WholeAnswer::into_response(answer)),
            _ => None,
        }
    }

    fn whole_status(&self) -> Option<u16> {
        let outcomes = self.shares.iter().flat_map(|share| {
            let none = share.outcomes.is_empty().then_some(None);
            none.into_iter().chain(share.part_outcomes())
        });
        let mut all = outcomes.map(|outcome| match outcome? {
            Outcome::Refused(refusal) => Some(refusal.response.status),
            Outcome::Whole(answer) => Some(answer.response.status),
            _ => None,
        });
        let status = all.next()??;
        all.all(|other| other == Some(status)).then_some(status)
    }

    /// Applies the client's filter to a response. Refusals are not filtered, as in a cluster.
    pub fn selected(&self, status: u16, body: Vec<u8>) -> Vec<u8> {
        let filtered = match status {
            200 if !self.head().filter_path.is_empty() => self.head().filter_path.apply(&body),
            _ => None,
        };
        filtered.unwrap_or(body)
    }

    /// Merges the items of the nodes in the order of the request.
    fn merged(&self) -> Response {
        match self.rows() {
            Some(rows) => self.merged_rows(rows),
            None => self.merged_outcomes(),
        }
    }

    /// Returns the answer of each share and the number of its first item in it, if the items of each share are
    /// consecutive, as they usually are.
    fn rows(&self) -> Option<Vec<(&NodeAnswer, usize)>> {
        let mut rows = Vec::with_capacity(self.shares.len());
        for share in self.shares.iter() {
            rows.push(share.row()?);
        }
        Some(rows)
    }

    fn merged_rows(&self, mut rows: Vec<(&NodeAnswer, usize)>) -> Response {
        const WHY: &str = "an answer has an item for each operation";
        let (mut failed, mut bytes) = (false, 0_usize);
        for ((answer, first), share) in rows.iter().zip(self.shares.iter()) {
            let count = share.operations.len();
            let items = part(&answer.answer.items, *first..first.plus(count, WHY), WHY);
            failed |= items.iter().any(|item| item.failed);
            // A comma separates two items.
            let with_commas = answer.answer.bytes(*first, count) as usize;
            bytes = bytes.plus(with_commas, WHY).plus(1, WHY).minus(count, WHY);
        }
        let answers: Vec<&NodeAnswer> = rows.iter().map(|(answer, _)| *answer).collect();
        let mut reply = self.reply(&answers, failed, bytes);
        for operation in &self.operations {
            let Some((answer, next)) = rows.get_mut(usize::from(operation.placement.share)) else { continue };
            let item = answer.answer.items.get(*next);
            *next = next.plus(1, WHY);
            reply.item(|to| to.extend_from_slice(item.map_or(&[][..], |item| answer.answer.text(item))));
        }
        Response { status: 200, headers: merged_headers(&answers), body: reply.finish() }
    }

    fn merged_outcomes(&self) -> Response {
        let answers = self.answers();
        let (failed, bytes, is_short) = self.measured();
        let mut reply = self.reply(&answers, failed, bytes as usize);
        for (operation, source) in self.sources() {
            reply.item(|to| self.write_item(operation, source, is_short, to));
        }
        Response { status: 200, headers: merged_headers(&answers), body: reply.finish() }
    }

    /// Creates a reply without items, with room for `bytes` bytes of items.
    fn reply(&self, answers: &[&NodeAnswer], errors: bool, bytes: usize) -> Reply<'_> {
        // The batches may contain operations of other requests under pipelines.
        let is_under_pipeline = || self.operations.iter().any(|operation| operation.placement.under_pipeline);
        let ingest_took = answers.iter().filter_map(|answer| answer.answer.ingest_took).max();
        let head = ReplyHead {
            took: answers.iter().map(|answer| answer.answer.took).max().unwrap_or_default(),
            ingest_took: ingest_took.filter(|_| is_under_pipeline()),
            errors,
            errors_first: answers.first().is_some_and(|answer| answer.answer.errors_first),
        };
        Reply::new(head, &self.head().filter_path, self.operations.len(), bytes)
    }

    /// Returns whether any item reports an error, the bytes of all items, and whether errors have to be shortened: a
    /// refusal of a few kilobytes may appear in a million items.
    ///
    /// The sources of the items are determined here and again for the reply, because a list of them would use as much
    /// memory as short items do.
    fn measured(&self) -> (bool, u64, bool) {
        let mut scratch = Vec::new();
        let mut measure = |is_short: bool| {
            let (mut failed, mut bytes) = (false, 0_u64);
            for (operation, source) in self.sources() {
                let (is_failure, length) = match source {
                    Source::Item(item, answer) => (item.failed, answer.answer.text(item).len()),
                    error => {
                        scratch.clear();
                        self.write_item(operation, error, is_short, &mut scratch);
                        (true, scratch.len())
                    }
                };
                failed |= is_failure;
                bytes = bytes.plus(length as u64, "memory bounds the items");
            }
            (failed, bytes, is_short)
        };
        let long = measure(false);
        if long.1 > self.answer_room.items() { measure(true) } else { long }
    }

    /// Returns the source of the item of each operation, in order. The last outcome of an operation counts.
    fn sources(&self) -> impl Iterator<Item = (&Operation, Source<'_>)> {
        let mut positions = vec![0_u32; self.shares.len()];
        self.operations.iter().map(move |operation| {
            let share = usize::from(operation.placement.share);
            let position = positions.get_mut(share);
            let source = position.and_then(|next| {
                let position =
                    std::mem::replace(next, next.plus(1, "a share has at most as many operations as its request"));
                let (number, outcome) = self.shares.get(share)?.outcome(position)?;
                outcome.source(number)
            });
            (operation, source.unwrap_or(Source::Error(503, &NO_ANSWER)))
        })
    }

    /// Returns the answers that contain its items, each once for each part.
    fn answers(&self) -> Vec<&NodeAnswer> {
        let outcomes = self.shares.iter().flat_map(|share| &share.outcomes);
        let answers = outcomes.filter_map(|recorded| match &recorded.outcome {
            Outcome::Items { answer, .. } => Some(answer.as_ref()),
            _ => None,
        });
        answers.collect()
    }

    fn write_item(&self, operation: &Operation, source: Source<'_>, is_short: bool, to: &mut Vec<u8>) {
        let (status, error) = match source {
            Source::Item(item, answer) => return to.extend_from_slice(answer.answer.text(item)),
            Source::Error(status, error) => (status, error),
            Source::Refusal(refusal) => (refusal.response.status, refusal.error(is_short)),
        };
        self.read_line(operation, |line| ErrorItem { status, error }.write(line, to));
    }

    /// Parses an operation's action line again, with the id that was generated for it, and with the index in the path if
    /// the line names none.
    pub fn read_line(&self, operation: &Operation, use_line: impl FnOnce(&ActionLine<'_>)) {
        let mut scratch = Vec::new();
        let lines = self.body().lines(operation, &mut scratch);
        let line = lines.split(|byte| *byte == b'\n').next().unwrap_or(lines);
        if let Some(mut line) = found(ActionLine::read(line).ok(), "the line was parsed when the request arrived") {
            line.id = line.id.or(self.body().generated_id(operation).map(Cow::Borrowed));
            line.index = line.index.or(self.head().default_index.as_deref().map(Cow::Borrowed));
            use_line(&line);
        }
    }
}

impl Outcome {
    /// Returns the source of the item of its n-th operation.
    fn source(&self, number: usize) -> Option<Source<'_>> {
        match self {
            Self::Items { answer, items } => {
                let item = answer.answer.items.get(items.get(number)?)?;
                Some(Source::Item(item, answer))
            }
            Self::Refused(refusal) => Some(Source::Refusal(refusal)),
            Self::Unknown { status, error } => Some(Source::Error(*status, error)),
            Self::Whole(_) => None,
        }
    }
}

/// Returns the headers of an answer that no node has given.
pub fn json_headers() -> Headers {
    [("content-type".to_owned(), "application/json; charset=UTF-8".to_owned())].into()
}

/// Returns the headers of the first answer, and the warnings that only the other answers have.
fn merged_headers(answers: &[&NodeAnswer]) -> Headers {
    let Some((first, others)) = answers.split_first() else {
        return json_headers();
    };
    let mut further: Vec<&(String, String)> = Vec::new();
    for header in others.iter().flat_map(|answer| answer.headers.iter()) {
        if header.0 == "warning" && !first.headers.contains(header) && !further.contains(&header) {
            further.push(header);
        }
    }
    match further.is_empty() {
        true => Rc::clone(&first.headers),
        false => first.headers.iter().chain(further).cloned().collect(),
    }
}
