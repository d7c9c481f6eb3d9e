//! The answer to a request, put together from what became of its shares.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Response;
use super::request::{NodeAnswer, Outcome, Request, Share};
use crate::bulk::{ActionLine, AnswerItem, ErrorItem, Operation, Reply, ReplyHead};

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

/// A node's refusal of a whole request.
#[derive(Deserialize)]
struct Refusal {
    error: Box<RawValue>,
}

/// What one share contributes to the reply.
enum Contribution<'a> {
    Items(&'a [AnswerItem], &'a NodeAnswer),
    Error(u16, Box<RawValue>),
}

impl Request {
    /// The answer, once all shares have an outcome.
    pub fn response(self) -> Response {
        match self.refusal() {
            Some(response) => {
                let headers = carried(&response.headers);
                Response { headers, body: self.selected(response), status: response.status }
            }
            None => self.merged(),
        }
    }

    /// The response that stands for the whole request: all shares got one of the same status.
    fn refusal(&self) -> Option<&Response> {
        let mut whole = self.shares.iter().map(|share| match &share.outcome {
            Some(Outcome::Whole(response)) => Some(response.as_ref()),
            _ => None,
        });
        let first = whole.next()??;
        whole.all(|other| other.is_some_and(|other| other.status == first.status)).then_some(first)
    }

    /// What the client wants to see of a response. Clusters do not filter refusals.
    fn selected(&self, response: &Response) -> Vec<u8> {
        let filtered = match response.status {
            200 if !self.filter_path.is_empty() => self.filter_path.apply(&response.body),
            _ => None,
        };
        filtered.unwrap_or_else(|| response.body.clone())
    }

    fn merged(&self) -> Response {
        let mut contributions: Vec<_> = self.shares.iter().map(Share::contribution).collect();
        let failed = contributions.iter().any(|contribution| match contribution {
            Contribution::Items(items, _) => items.iter().any(|item| item.failed),
            Contribution::Error(..) => true,
        });
        let answers: Vec<&NodeAnswer> = self.shares.iter().filter_map(Share::answer).collect();
        let head = ReplyHead {
            took: answers.iter().map(|answer| answer.answer.took).max().unwrap_or_default(),
            errors: failed,
            errors_first: answers.first().is_some_and(|answer| answer.answer.errors_first),
        };
        let mut reply = Reply::new(head, &self.filter_path, contributions.iter().map(Contribution::len).sum());
        for operation in &self.operations {
            let Some(contribution) = contributions.get_mut(usize::from(operation.placement.share)) else { continue };
            reply.item(|to| self.write_item(operation, contribution, to));
        }
        Response { status: 200, headers: merged_headers(&answers), body: reply.finish() }
    }

    /// Appends the item of the next operation of a share.
    fn write_item(&self, operation: &Operation, contribution: &mut Contribution<'_>, to: &mut Vec<u8>) {
        match contribution {
            Contribution::Items(items, answer) => {
                if let Some((item, rest)) = items.split_first() {
                    to.extend_from_slice(answer.answer.text(item));
                    *items = rest;
                }
            }
            Contribution::Error(status, error) => {
                let mut scratch = Vec::new();
                let lines = self.lines(operation, &mut scratch);
                let line = lines.split(|byte| *byte == b'\n').next().unwrap_or_default();
                // It was read before, when the request came in.
                if let Ok(line) = ActionLine::read(line) {
                    ErrorItem { status: *status, error }.write(&line, self.default_index.as_deref(), to);
                }
            }
        }
    }
}

impl Share {
    fn answer(&self) -> Option<&NodeAnswer> {
        match &self.outcome {
            Some(Outcome::Items { answer, .. }) => Some(answer),
            _ => None,
        }
    }

    fn contribution(&self) -> Contribution<'_> {
        match &self.outcome {
            Some(Outcome::Items { answer, first }) => {
                let items = answer.answer.items.get(*first..).unwrap_or_default();
                Contribution::Items(items.get(..self.operations.len()).unwrap_or(items), answer)
            }
            Some(Outcome::Unknown { status, error }) => Contribution::Error(*status, error.as_ref().to_owned()),
            Some(Outcome::Whole(response)) => Contribution::Error(response.status, refusal_error(response)),
            None => Contribution::Error(503, ErrorItem::error("bulk_outcome_unknown_exception", "no answer")),
        }
    }
}

impl Contribution<'_> {
    /// About how many bytes it takes.
    fn len(&self) -> usize {
        match self {
            Self::Items(items, answer) => {
                items.iter().map(|item| answer.answer.text(item).len().saturating_add(1)).sum()
            }
            Self::Error(..) => 0,
        }
    }
}

/// The node's own error object where there is one.
fn refusal_error(response: &Response) -> Box<RawValue> {
    match serde_json::from_slice::<Refusal>(&response.body) {
        Ok(Refusal { error }) => error,
        Err(_) => ErrorItem::error("bulk_refused_exception", "the node refused the operations without saying why"),
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
