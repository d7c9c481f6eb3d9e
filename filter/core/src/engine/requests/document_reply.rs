//! Makes the answer to a request for a single document from the outcome of its operation.

use serde_json::value::RawValue;

use super::bulk_request::Request;
use super::headers::carried;
use super::outcome::{ItemNumbers, NodeAnswer, Outcome, WholeAnswer};
use super::reply::{NO_ANSWER, json_headers};
use crate::bulk::{Action, AnswerItem};
use crate::document;
use crate::engine::command::Response;

/// The status of a document that did not exist before. Its answer has a `Location`.
const CREATED: u16 = 201;

impl Request {
    /// Returns the answer to the request, which is for a single document.
    pub fn document_response(mut self) -> Response {
        let last = self.shares.first_mut().and_then(|share| share.outcomes.pop());
        let whole = |Response { status, headers, body }| Response { status, headers: carried(&headers), body };
        match last.map(|last| last.outcome) {
            Some(Outcome::Whole(answer)) => whole(WholeAnswer::into_response(answer)),
            Some(Outcome::Refused(refusal)) => whole(refusal.response.clone()),
            Some(Outcome::Unknown { status, error }) => self.failed(status, &error),
            Some(Outcome::Items { answer, items }) => {
                self.of_item(&answer, &items).unwrap_or_else(|| self.failed(503, &NO_ANSWER))
            }
            None => self.failed(503, &NO_ANSWER),
        }
    }

    /// Returns the answer that an item stands for. Returns `None` if it is not an item of a write.
    fn of_item(&self, answer: &NodeAnswer, items: &ItemNumbers) -> Option<Response> {
        let item = answer.answer.items.get(items.get(0)?)?;
        let (text, status, mut headers) = (answer.answer.text(item), item.status, answer.headers.clone());
        if !is_of_write(item) {
            return None;
        }
        if item.failed {
            // Like a cluster, without a filter.
            return Some(Response { status, headers, body: self.printed_as_asked(document::failure(text, status)?) });
        }
        let body = document::success(text, status)?;
        let is_update = self.document()?.write.action == Action::Update;
        let body = if is_update { document::updated(body)? } else { body };
        if status == CREATED {
            let location = ("location".to_owned(), document::location(&body, self.routing_value().as_deref())?);
            headers = headers.iter().cloned().chain([location]).collect();
        }
        Some(Response { status, headers, body: self.printed_as_asked(self.selected(200, body)) })
    }

    fn failed(&self, status: u16, error: &RawValue) -> Response {
        Response { status, headers: json_headers(), body: self.printed_as_asked(document::error(error, status)) }
    }

    /// Returns the routing value of the document: that of the request, or the one that an alias adds.
    fn routing_value(&self) -> Option<String> {
        let mut routing = self.document()?.write.routing.clone();
        self.read_line(self.operations.first()?, |line| {
            let target = line.index.as_deref().and_then(|name| self.table().write_target(name).ok());
            let added = target.and_then(|target| target.added_routing);
            routing = added.map(str::to_owned).or(routing.take());
        });
        routing
    }
}

/// Returns whether a cluster answers a write like this. Clients read an answer with some other statuses as one without a
/// body, and its body as the next answer.
fn is_of_write(item: &AnswerItem) -> bool {
    matches!(item.status, 400..=599) || !item.failed && matches!(item.status, 200 | CREATED)
}
