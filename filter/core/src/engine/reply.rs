//! The answer to a request, put together from what became of its shares.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::LazyLock;

use serde_json::value::RawValue;

use super::outcome::{NodeAnswer, Outcome};
use super::request::Request;
use super::share::Selection;
use super::{Headers, Response};
use crate::bulk::{ActionLine, AnswerItem, ErrorItem, Operation, Reply, ReplyHead, pretty};

/// Headers that say how an answer travelled to here, not what it says.
const OWN_WAY: &[&str] = &[
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "server",
    "transfer-encoding",
    "x-envoy-upstream-service-time",
];

/// For an operation of which nothing was learnt.
static NO_ANSWER: LazyLock<Box<RawValue>> =
    LazyLock::new(|| ErrorItem::error("bulk_outcome_unknown_exception", "no answer"));

/// Where the item of an operation comes from.
#[derive(Clone, Copy)]
enum Source<'a> {
    Item(&'a AnswerItem, &'a NodeAnswer),
    Error(u16, &'a RawValue),
}

impl Request {
    /// The answer, once all shares have an outcome.
    pub fn response(mut self) -> Response {
        let mut response = match self.whole() {
            Some(Response { status, headers, body }) => {
                Response { status, headers: carried(&headers), body: self.selected(status, body) }
            }
            None => self.merged(),
        };
        if let Some(printed) = self.head.pretty.then(|| pretty(&response.body)).flatten() {
            response.body = printed;
        }
        response
    }

    /// The response that stands for the whole request: all shares got one of the same status.
    fn whole(&mut self) -> Option<Response> {
        let mut all = self.shares.iter().map(|share| match share.outcomes.last()? {
            (Selection::All, Outcome::Refused(refusal)) => Some(refusal.response.status),
            (Selection::All, Outcome::Whole(response)) => Some(response.status),
            _ => None,
        });
        let status = all.next()??;
        if !all.all(|other| other == Some(status)) {
            return None;
        }
        match self.shares.first_mut()?.outcomes.pop()? {
            (_, Outcome::Refused(refusal)) => Some(refusal.response.clone()),
            (_, Outcome::Whole(response)) => Some(Rc::unwrap_or_clone(response)),
            _ => None,
        }
    }

    /// What the client wants to see of a response. Clusters do not filter refusals.
    fn selected(&self, status: u16, body: Vec<u8>) -> Vec<u8> {
        let filtered = match status {
            200 if !self.head.filter_path.is_empty() => self.head.filter_path.apply(&body),
            _ => None,
        };
        filtered.unwrap_or(body)
    }

    fn merged(&self) -> Response {
        let sources = self.sources(Source::Error(503, &NO_ANSWER));
        let failed = sources.iter().any(|source| match source {
            Source::Item(item, _) => item.failed,
            Source::Error(..) => true,
        });
        let answers: Vec<&NodeAnswer> = self.answers().collect();
        let head = ReplyHead {
            took: answers.iter().map(|answer| answer.answer.took).max().unwrap_or_default(),
            errors: failed,
            errors_first: answers.first().is_some_and(|answer| answer.answer.errors_first),
        };
        let mut reply = Reply::new(head, &self.head.filter_path, sources.iter().map(Source::len).sum());
        for (operation, source) in self.operations.iter().zip(&sources) {
            reply.item(|to| self.write_item(operation, source, to));
        }
        Response { status: 200, headers: merged_headers(&answers), body: reply.finish() }
    }

    /// For each operation in order where its item comes from: of what was learnt of it, the last.
    fn sources<'a>(&'a self, unknown: Source<'a>) -> Vec<Source<'a>> {
        let mut sources = vec![unknown; self.operations.len()];
        for share in &self.shares {
            for (selection, outcome) in &share.outcomes {
                for (number, position) in share.positions(selection).enumerate() {
                    let source = sources.get_mut(position as usize).zip(outcome.source(number));
                    if let Some((old, new)) = source {
                        *old = new;
                    }
                }
            }
        }
        sources
    }

    fn answers(&self) -> impl Iterator<Item = &NodeAnswer> {
        let outcomes = self.shares.iter().flat_map(|share| &share.outcomes);
        outcomes.filter_map(|(_, outcome)| match outcome {
            Outcome::Items { answer, .. } => Some(answer.as_ref()),
            _ => None,
        })
    }

    fn write_item(&self, operation: &Operation, source: &Source<'_>, to: &mut Vec<u8>) {
        match source {
            Source::Item(item, answer) => to.extend_from_slice(answer.answer.text(item)),
            Source::Error(status, error) => self.read_line(operation, |line, default_index| {
                ErrorItem { status: *status, error }.write(line, default_index, to);
            }),
        }
    }

    /// Reads an operation's action line again, with the id that was made for it.
    pub fn read_line(&self, operation: &Operation, use_line: impl FnOnce(&ActionLine<'_>, Option<&str>)) {
        let mut scratch = Vec::new();
        let lines = self.lines(operation, &mut scratch);
        // It was read before, when the request came in.
        if let Ok(mut line) = ActionLine::read(lines.split(|byte| *byte == b'\n').next().unwrap_or_default()) {
            line.id = line.id.or(self.generated_id(operation).map(Cow::Borrowed));
            use_line(&line, self.head.default_index.as_deref());
        }
    }
}

impl Outcome {
    /// Where the item of the n-th of its operations comes from.
    fn source(&self, number: usize) -> Option<Source<'_>> {
        match self {
            Self::Items { answer, first } => {
                let item = answer.answer.items.get(first.saturating_add(number))?;
                Some(Source::Item(item, answer))
            }
            Self::Refused(refusal) => Some(Source::Error(refusal.response.status, &refusal.error)),
            Self::Unknown { status, error } => Some(Source::Error(*status, error)),
            Self::Whole(_) => None,
        }
    }
}

impl Source<'_> {
    /// About how many bytes its item takes.
    fn len(&self) -> usize {
        match self {
            Self::Item(item, answer) => answer.answer.text(item).len().saturating_add(1),
            Self::Error(..) => 0,
        }
    }
}

/// What goes on to the client of a response's headers.
pub fn carried(headers: &Headers) -> Headers {
    headers.iter().filter(|(name, _)| !OWN_WAY.contains(&name.as_str())).cloned().collect()
}

/// The headers of the first answer, and every warning of the others that it does not have.
fn merged_headers(answers: &[&NodeAnswer]) -> Headers {
    let Some((first, others)) = answers.split_first() else {
        return [("content-type".to_owned(), "application/json; charset=UTF-8".to_owned())].into();
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
