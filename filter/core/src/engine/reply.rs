//! The answer to a request, put together from what became of its shares.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::Response;
use super::outcome::{NodeAnswer, Outcome};
use super::request::Request;
use super::share::Selection;
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

/// Where the item of an operation comes from.
#[derive(Clone, Copy)]
enum Source<'a> {
    Item(&'a AnswerItem, &'a NodeAnswer),
    Error(u16, &'a RawValue),
}

impl Request {
    /// The answer, once all shares have an outcome.
    pub fn response(self) -> Response {
        let mut response = match self.whole() {
            Some(response) => {
                let headers = carried(&response.headers);
                Response { headers, body: self.selected(response), status: response.status }
            }
            None => self.merged(),
        };
        if let Some(printed) = self.head.pretty.then(|| pretty(&response.body)).flatten() {
            response.body = printed;
        }
        response
    }

    /// The response that stands for the whole request: all shares got one of the same status.
    fn whole(&self) -> Option<&Response> {
        let mut all = self.shares.iter().map(|share| match share.outcomes.last()? {
            (Selection::All, Outcome::Refused(refusal)) => Some(&refusal.response),
            (Selection::All, Outcome::Whole(response)) => Some(response.as_ref()),
            _ => None,
        });
        let first = all.next()??;
        all.all(|other| other.is_some_and(|other| other.status == first.status)).then_some(first)
    }

    /// What the client wants to see of a response. Clusters do not filter refusals.
    fn selected(&self, response: &Response) -> Vec<u8> {
        let filtered = match response.status {
            200 if !self.head.filter_path.is_empty() => self.head.filter_path.apply(&response.body),
            _ => None,
        };
        filtered.unwrap_or_else(|| response.body.clone())
    }

    fn merged(&self) -> Response {
        let unknown = ErrorItem::error("bulk_outcome_unknown_exception", "no answer");
        let sources = self.sources(Source::Error(503, &unknown));
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

fn carried(headers: &[(String, String)]) -> Vec<(String, String)> {
    headers.iter().filter(|(name, _)| !OWN_WAY.contains(&name.as_str())).cloned().collect()
}

/// The headers of the first answer, and every warning of the others that it does not have.
fn merged_headers(answers: &[&NodeAnswer]) -> Vec<(String, String)> {
    let Some((first, others)) = answers.split_first() else {
        return vec![("content-type".to_owned(), "application/json; charset=UTF-8".to_owned())];
    };
    let mut headers = carried(&first.headers);
    for header in others.iter().flat_map(|answer| &answer.headers) {
        if header.0 == "warning" && !headers.contains(header) {
            headers.push(header.clone());
        }
    }
    headers
}
