use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Response, View};
use crate::Time;
use crate::bulk::{Action, ActionLine, Operation, Parameter};
use crate::engine::command::RequestId;
use crate::engine::requests::Request;

/// How long a request waits for a sample.
const PATIENCE: Duration = Duration::from_secs(10);

/// The maximum number of operations in a sample.
const MAX_OPERATIONS: usize = 1000;

/// The maximum number of bytes in a sample. Documents are replaced by as many spaces.
const MAX_BYTES: usize = 1 << 20;

/// The requests that wait for a sample, oldest first.
#[derive(Debug, Default)]
pub struct Samplers(Vec<(Time, RequestId)>);

impl Samplers {
    /// Adds a request that waits for a sample.
    pub fn enter(&mut self, request: RequestId, now: Time) {
        self.0.push((now.saturating_add(PATIENCE), request));
    }

    /// Returns whether no request waits for a sample.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes a request.
    pub fn leave(&mut self, request: RequestId) {
        self.0.retain(|(_, waiting)| *waiting != request);
    }

    /// Returns when the oldest request times out.
    pub fn deadline(&self) -> Option<Time> {
        self.0.first().map(|(deadline, _)| *deadline)
    }

    /// Sends a bulk request that has just been read to all requests that wait for a sample.
    pub fn show(&mut self, view: &mut View<'_>, request: &Request) {
        if self.is_empty() {
            return;
        }
        let body = sample(request);
        for (_, waiting) in std::mem::take(&mut self.0) {
            view.reply(waiting, Response::of_type(200, "application/x-ndjson", body.clone()));
        }
    }

    /// Answers the requests that timed out waiting for a sample.
    pub fn end(&mut self, view: &mut View<'_>) {
        while let Some(waiting) = self.overdue(view.now) {
            let problem = "timed out after 10 s: this worker has split or observed no bulk request";
            view.reply(waiting, Response::problem(504, problem));
        }
    }

    fn overdue(&mut self, now: Time) -> Option<RequestId> {
        let is_overdue = self.deadline().is_some_and(|deadline| deadline <= now);
        is_overdue.then(|| self.0.remove(0).1)
    }
}

/// Returns the request's operations as they are routed, with blank documents of the same size.
fn sample(request: &Request) -> Vec<u8> {
    let mut body = Vec::new();
    for operation in request.operations.iter().take(MAX_OPERATIONS) {
        request.read_line(operation, |line| add(&mut body, request, operation, line));
        if body.len() > MAX_BYTES {
            break;
        }
    }
    body
}

fn add(to: &mut Vec<u8>, request: &Request, operation: &Operation, line: &ActionLine<'_>) {
    let mut fields = Map::new();
    let mut field = |name: &str, value: Option<&str>| {
        fields.extend(value.map(|value| (name.to_owned(), Value::from(value))));
    };
    field("_index", line.index.as_deref());
    // Generated ids and routing values do not come from the client.
    let made = request.body().parameter(operation);
    field("_id", line.id.as_deref().filter(|_| !matches!(made, Some(Parameter::Id(_)))));
    let routing = line.routing.as_deref().filter(|_| !matches!(made, Some(Parameter::Routing(_))));
    field("routing", routing.or(request.head().default_routing.as_deref()));
    let name = line.action.name();
    to.extend_from_slice(json!({ name: fields }).to_string().as_bytes());
    to.push(b'\n');
    if line.action.has_source() {
        let action_line = request.body().line_at(operation.start, operation.len).len();
        // Without the two newlines.
        let bytes = (operation.len as usize).saturating_sub(action_line).saturating_sub(2);
        add_filler(to, line.action, bytes);
        to.push(b'\n');
    }
}

/// Appends a blank JSON object of this size, or the smallest possible one.
fn add_filler(to: &mut Vec<u8>, action: Action, bytes: usize) {
    let (begin, end) = if action == Action::Update { ("{\"doc\":{", "}}") } else { ("{", "}") };
    to.extend_from_slice(begin.as_bytes());
    to.extend(std::iter::repeat_n(b' ', bytes.saturating_sub(begin.len()).saturating_sub(end.len()).min(MAX_BYTES)));
    to.extend_from_slice(end.as_bytes());
}
