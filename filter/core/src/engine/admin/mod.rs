//! What the filter tells about itself below `admin_path`: how things are, what would become of a bulk request, the
//! routing table, and a page to look at.

mod asset;
mod build;
mod health;
mod route;
mod sample;
mod status;

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};

use crate::engine::Engine;
use crate::engine::command::{Command, RequestId, Response};
use crate::engine::explain::{LISTED, explained_path};
use crate::engine::memory::Charge;
use crate::engine::metrics::{Counter, Gauge};
use crate::engine::outbox::Reply;
use route::{Refusal, Route};
use sample::Samplers;
use status::Totals;

pub use build::Build;
pub(super) use health::Healths;

/// Bytes of a bulk request that is explained. It is read in one callback, at about a gigabyte a second, while the worker
/// does nothing else.
const MOST_EXPLAINED: usize = 4 << 20;

/// Lines of it: an operation takes about a microsecond.
const MOST_LINES: usize = 5000;

/// Requests that a worker answers at a time, besides those for the page itself: each may take four megabytes.
const MOST_AT_A_TIME: usize = 16;

/// Requests below the admin path that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct Admin {
    /// Those that count as being answered, until they are over.
    open: HashSet<RequestId>,
    /// Bulk requests that are to be explained, while their bodies come.
    questions: HashMap<RequestId, Question>,
    /// Who waits for the status.
    statuses: VecDeque<RequestId>,
    /// Who waits for a bulk request to look at.
    pub samplers: Samplers,
}

#[derive(Debug)]
struct Question {
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    charge: Charge,
}

impl Admin {
    /// Whether there is room for another request.
    fn enter(&mut self, id: RequestId) -> bool {
        self.open.len() < MOST_AT_A_TIME && self.open.insert(id)
    }

    /// Whether no admin request waits for its answer.
    pub fn is_idle(&self) -> bool {
        self.questions.is_empty() && self.statuses.is_empty() && self.samplers.is_empty()
    }
}

impl Engine {
    /// Whether a request with this path is for the engine.
    pub fn takes(&self, path: &[u8]) -> bool {
        super::may_be_bulk(path) || self.settings.current.admin_path.rest(path).is_some()
    }

    /// Whether a request is below the admin path, and so was taken.
    pub(super) fn admin_head(&mut self, id: RequestId, headers: &[(String, Vec<u8>)], end: bool) -> bool {
        let value = |name: &str| headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_slice());
        let Some(rest) = value(":path").and_then(|path| self.settings.current.admin_path.rest(path)) else {
            return false;
        };
        let route = Route::read(value(":method").unwrap_or_default(), rest);
        if route.as_ref().is_ok_and(|route| !route.is_page()) && !self.admin.enter(id) {
            let problem = format!("this worker answers {MOST_AT_A_TIME} such requests at a time");
            self.tell(id, Response::problem(429, &problem));
            return true;
        }
        match route {
            Ok(Route::Asset(asset)) => self.tell(id, Response::asset(asset)),
            Ok(Route::Slash) => self.tell(id, Response::see(&format!("{}/", self.settings.current.admin_path))),
            Ok(Route::Status) => self.admin.statuses.push_back(id),
            Ok(Route::State { pattern, most }) => {
                let state = self.export_state(&pattern, most);
                self.cluster.state.wake(self.now);
                self.tell(id, state.map_or_else(no_state, Response::json));
            }
            Ok(Route::Sample) => self.admin.samplers.enter(id, self.now),
            Ok(Route::Explain { rest }) => self.question(id, headers, &rest, end),
            Err(refusal) => self.tell(id, refusal.into()),
        }
        true
    }

    fn question(&mut self, id: RequestId, headers: &[(String, Vec<u8>)], rest: &str, end: bool) {
        self.cluster.state.wake(self.now);
        let path = explained_path(rest).into_bytes();
        let with_path = |(name, value): &(String, Vec<u8>)| {
            (name.clone(), if name == ":path" { path.clone() } else { value.clone() })
        };
        let headers = headers.iter().map(with_path).collect();
        let question = Question { headers, body: Vec::new(), charge: self.memory.charge(0) };
        self.admin.questions.insert(id, question);
        if end {
            self.admin_end(id);
        } else if !self.header_pauses.enter(id, self.now) {
            self.outbox.decide(Command::PassHeaders { request: id });
        }
    }

    /// Whether a piece of a body was for the admin path.
    pub(super) fn admin_data(&mut self, id: RequestId, chunk: &[u8], end: bool) -> bool {
        let room = self.settings.current.limits.memory.saturating_sub(self.memory.used());
        // No such request is the rule, and costs nothing to find out.
        let Some(question) = self.admin.questions.get_mut(&id) else { return false };
        let size = question.body.len().saturating_add(chunk.len());
        if size > MOST_EXPLAINED || chunk.len() as u64 > room {
            self.admin.questions.remove(&id);
            self.tell(id, Response::too_large());
            return true;
        }
        question.body.extend_from_slice(chunk);
        question.charge.set(question.body.capacity() as u64);
        if end {
            self.admin_end(id);
        }
        true
    }

    /// Whether the end of a body was for the admin path.
    pub(super) fn admin_end(&mut self, id: RequestId) -> bool {
        let Some(Question { headers, body, .. }) = self.admin.questions.remove(&id) else { return false };
        let response = self.explain_or_refuse(headers, body);
        self.tell(id, response);
        true
    }

    fn explain_or_refuse(&self, headers: Vec<(String, Vec<u8>)>, body: Vec<u8>) -> Response {
        // How much work is in a compressed body shows too late.
        let is_gzip =
            |(name, value): &(String, Vec<u8>)| name == "content-encoding" && value.eq_ignore_ascii_case(b"gzip");
        if headers.iter().any(is_gzip) {
            return Response::problem(415, "the body has to be uncompressed to be explained");
        }
        if memchr::memchr_iter(b'\n', &body).count() > MOST_LINES {
            return Response::too_large();
        }
        match (self.cluster.table(), self.explain(headers, body, LISTED)) {
            (None, Some(_)) => no_state(),
            (_, Some(explanation)) => Response::of(&explanation),
            (_, None) => Response::problem(404, "what follows `explain` is not the path of a bulk request"),
        }
    }

    /// Whether this was a request whose body does not come because its headers were held back.
    pub(super) fn admin_overdue(&mut self, id: RequestId) -> bool {
        let is_bodiless = self.admin.questions.get(&id).is_some_and(|question| question.body.is_empty());
        if is_bodiless {
            self.admin.questions.remove(&id);
            let problem = "no body came; unless the client is slow, send a bulk request first, from which the filter \
                           learns how bodies come here";
            self.tell(id, Response::problem(503, problem));
        }
        is_bodiless
    }

    pub(super) fn admin_gone(&mut self, id: RequestId) {
        self.admin.open.remove(&id);
        self.admin.questions.remove(&id);
        self.admin.statuses.retain(|waiting| *waiting != id);
        self.admin.samplers.leave(id);
    }

    /// What has to be measured before somebody can be told how things are.
    pub(super) fn next_measurement(&mut self) -> Option<Command> {
        let request = self.admin.statuses.pop_front()?;
        Some(Command::Measure {
            request,
            counters: Counter::all(self.told_upstreams()).collect(),
            gauges: Gauge::all(self.told_upstreams()).collect(),
        })
    }

    /// Tells how things are.
    pub(super) fn measured(&mut self, id: RequestId, counters: Vec<(Counter, u64)>, gauges: Vec<(Gauge, u64)>) {
        let totals = Totals { counters: counters.into_iter().collect(), gauges: gauges.into_iter().collect() };
        let response = Response::of(&self.status(&totals));
        self.tell(id, response);
    }

    /// Whether anything below the admin path waits for the root.
    pub(super) fn has_measurement(&self) -> bool {
        !self.admin.statuses.is_empty()
    }

    fn tell(&mut self, id: RequestId, response: Response) {
        let charge = self.memory.charge(response.body.capacity() as u64);
        self.outbox.reply(id, Reply::Ready(response, charge));
    }
}

fn no_state() -> Response {
    Response::problem(503, "the cluster's state is not known yet; it is being asked for now")
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unknown => Self::problem(
                404,
                "there is: GET /, GET /status, GET /state, GET /sample, POST /explain[/{index}/_bulk]",
            ),
            Refusal::Parameter => Self::problem(400, "expected `indices`, a pattern, and `most`, a number up to 1000"),
            Refusal::Method(allowed) => {
                let mut response = Self::problem(405, &format!("this is asked for by {allowed}"));
                response.headers = response.headers.iter().cloned().chain([header("allow", allowed)]).collect();
                response
            }
        }
    }
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Nothing of it is kept, framed, or taken for something else; the page loads what comes from the filter itself and
/// nothing more.
const SAFE: &[(&str, &str)] = &[
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
];

impl Response {
    fn told(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        let safe = SAFE.iter().map(|(name, value)| header(name, value));
        Self { status, headers: [header("content-type", content_type)].into_iter().chain(safe).collect(), body }
    }

    fn asset(asset: &asset::Asset) -> Self {
        Self::told(200, asset.content_type, asset.body.as_bytes().to_vec())
    }

    fn json(body: Vec<u8>) -> Self {
        Self::told(200, "application/json", body)
    }

    fn of(value: &impl serde::Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self::json(body),
            Err(error) => Self::problem(500, &error.to_string()),
        }
    }

    fn see(path: &str) -> Self {
        let mut response = Self::told(308, "text/plain", Vec::new());
        response.headers = response.headers.iter().cloned().chain([header("location", path)]).collect();
        response
    }

    fn too_large() -> Self {
        let problem = format!(
            "too large to be explained: {MOST_EXPLAINED} bytes and {MOST_LINES} lines at most; the explorer takes more"
        );
        Self::problem(413, &problem)
    }

    fn problem(status: u16, problem: &str) -> Self {
        let body = serde_json::json!({"error": problem, "status": status});
        Self::told(status, "application/json", body.to_string().into_bytes())
    }
}
