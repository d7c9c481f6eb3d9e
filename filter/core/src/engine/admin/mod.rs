//! The endpoints below `admin_path`: the status, an explanation of how a bulk request would be handled, the routing
//! table, a sample, and a live page.

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

/// The maximum number of bytes of a bulk request to explain. It is read in one callback, at about a gigabyte a second,
/// while the worker does nothing else.
const MOST_EXPLAINED: usize = 4 << 20;

/// The maximum number of lines of a bulk request to explain. An operation takes about a microsecond.
const MOST_LINES: usize = 5000;

/// The maximum number of admin requests that a worker handles concurrently, not counting those for the page itself.
/// Each may use four megabytes.
const MOST_AT_A_TIME: usize = 16;

/// The requests below the admin path that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct Admin {
    /// The requests that count toward [`MOST_AT_A_TIME`], until they are over.
    open: HashSet<RequestId>,
    /// The bulk requests to explain, while their bodies arrive.
    requests: HashMap<RequestId, AdminRequest>,
    /// The requests that wait for the status.
    statuses: VecDeque<RequestId>,
    /// The requests that wait for a sample.
    pub samplers: Samplers,
}

#[derive(Debug)]
struct AdminRequest {
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    charge: Charge,
}

impl Admin {
    /// Admits a request, and returns whether there was room for it.
    fn enter(&mut self, id: RequestId) -> bool {
        self.open.len() < MOST_AT_A_TIME && self.open.insert(id)
    }

    /// Returns whether no admin request waits for its answer.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.statuses.is_empty() && self.samplers.is_empty()
    }
}

impl Engine {
    /// Returns whether the engine handles requests with this path.
    pub fn takes(&self, path: &[u8]) -> bool {
        super::may_be_bulk(path) || self.settings.current.admin_path.rest(path).is_some()
    }

    /// Accepts a request below the admin path. Returns whether the request is one.
    pub(super) fn admin_head(&mut self, id: RequestId, headers: &[(String, Vec<u8>)], end: bool) -> bool {
        let value = |name: &str| headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_slice());
        let Some(rest) = value(":path").and_then(|path| self.settings.current.admin_path.rest(path)) else {
            return false;
        };
        let route = Route::read(value(":method").unwrap_or_default(), rest);
        if route.as_ref().is_ok_and(|route| !route.is_page()) && !self.admin.enter(id) {
            let problem = format!("this worker already handles {MOST_AT_A_TIME} admin requests; retry later");
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
            Ok(Route::Explain { rest }) => self.begin_explanation(id, headers, &rest, end),
            Err(refusal) => self.tell(id, refusal.into()),
        }
        true
    }

    fn begin_explanation(&mut self, id: RequestId, headers: &[(String, Vec<u8>)], rest: &str, end: bool) {
        self.cluster.state.wake(self.now);
        let path = explained_path(rest).into_bytes();
        let with_path = |(name, value): &(String, Vec<u8>)| {
            (name.clone(), if name == ":path" { path.clone() } else { value.clone() })
        };
        let headers = headers.iter().map(with_path).collect();
        let request = AdminRequest { headers, body: Vec::new(), charge: self.memory.charge(0) };
        self.admin.requests.insert(id, request);
        if end {
            self.admin_end(id);
        } else if !self.header_pauses.enter(id, self.now) {
            self.outbox.decide(Command::PassHeaders { request: id });
        }
    }

    /// Handles a chunk of a body. Returns whether it belongs to an admin request.
    pub(super) fn admin_data(&mut self, id: RequestId, chunk: &[u8], end: bool) -> bool {
        let room = self.settings.current.limits.memory.saturating_sub(self.memory.used());
        // Usually there is no such request, and this lookup is free.
        let Some(request) = self.admin.requests.get_mut(&id) else { return false };
        let size = request.body.len().saturating_add(chunk.len());
        if size > MOST_EXPLAINED || chunk.len() as u64 > room {
            self.admin.requests.remove(&id);
            self.tell(id, Response::too_large());
            return true;
        }
        request.body.extend_from_slice(chunk);
        request.charge.set(request.body.capacity() as u64);
        if end {
            self.admin_end(id);
        }
        true
    }

    /// Handles the end of a body. Returns whether it belongs to an admin request.
    pub(super) fn admin_end(&mut self, id: RequestId) -> bool {
        let Some(AdminRequest { headers, body, .. }) = self.admin.requests.remove(&id) else { return false };
        let response = self.explain_or_refuse(headers, body);
        self.tell(id, response);
        true
    }

    fn explain_or_refuse(&self, headers: Vec<(String, Vec<u8>)>, body: Vec<u8>) -> Response {
        // The size of a compressed body is known only after the work of inflating it.
        let is_gzip =
            |(name, value): &(String, Vec<u8>)| name == "content-encoding" && value.eq_ignore_ascii_case(b"gzip");
        if headers.iter().any(is_gzip) {
            return Response::problem(415, "the body is compressed; send it uncompressed to have it explained");
        }
        if memchr::memchr_iter(b'\n', &body).count() > MOST_LINES {
            return Response::too_large();
        }
        match (self.cluster.table(), self.explain(headers, body, LISTED)) {
            (None, Some(_)) => no_state(),
            (_, Some(explanation)) => Response::of(&explanation),
            (_, None) => Response::problem(404, "the path after `explain` is not the path of a bulk request"),
        }
    }

    /// Refuses an explanation whose body does not arrive because its headers are held back. Returns whether the request
    /// was one.
    pub(super) fn admin_overdue(&mut self, id: RequestId) -> bool {
        let is_bodiless = self.admin.requests.get(&id).is_some_and(|request| request.body.is_empty());
        if is_bodiless {
            self.admin.requests.remove(&id);
            let problem = "no body arrived; unless the client is slow, send a bulk request first, so that the filter \
                           detects how Envoy delivers bodies";
            self.tell(id, Response::problem(503, problem));
        }
        is_bodiless
    }

    pub(super) fn admin_gone(&mut self, id: RequestId) {
        self.admin.open.remove(&id);
        self.admin.requests.remove(&id);
        self.admin.statuses.retain(|waiting| *waiting != id);
        self.admin.samplers.leave(id);
    }

    /// Returns the measurement that the next status request needs.
    pub(super) fn next_measurement(&mut self) -> Option<Command> {
        let request = self.admin.statuses.pop_front()?;
        Some(Command::Measure {
            request,
            counters: Counter::all(self.reported_upstreams()).collect(),
            gauges: Gauge::all(self.reported_upstreams()).collect(),
        })
    }

    /// Answers a status request with the measured metrics.
    pub(super) fn measured(&mut self, id: RequestId, counters: Vec<(Counter, u64)>, gauges: Vec<(Gauge, u64)>) {
        let totals = Totals { counters: counters.into_iter().collect(), gauges: gauges.into_iter().collect() };
        let response = Response::of(&self.status(&totals));
        self.tell(id, response);
    }

    /// Returns whether a status request waits for its measurement.
    pub(super) fn has_measurement(&self) -> bool {
        !self.admin.statuses.is_empty()
    }

    fn tell(&mut self, id: RequestId, response: Response) {
        let charge = self.memory.charge(response.body.capacity() as u64);
        self.outbox.reply(id, Reply::Ready(response, charge));
    }
}

fn no_state() -> Response {
    Response::problem(503, "the cluster state is not known yet; the filter is polling it now, so retry in a moment")
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unknown => Self::problem(
                404,
                "not found; use GET /, GET /status, GET /state, GET /sample or POST /explain[/{index}/_bulk]",
            ),
            Refusal::Parameter => {
                Self::problem(400, "invalid query: expected `indices`, a pattern, or `most`, a number from 1 to 1000")
            }
            Refusal::Method(allowed) => {
                let mut response = Self::problem(405, &format!("method not allowed; use {allowed}"));
                response.headers = response.headers.iter().cloned().chain([header("allow", allowed)]).collect();
                response
            }
        }
    }
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Headers that prevent responses from being cached, framed, or interpreted as another type. The page loads only
/// resources from the filter itself.
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
            "too large to be explained: at most {MOST_EXPLAINED} bytes and {MOST_LINES} lines; the explorer takes more"
        );
        Self::problem(413, &problem)
    }

    fn problem(status: u16, problem: &str) -> Self {
        let body = serde_json::json!({"error": problem, "status": status});
        Self::told(status, "application/json", body.to_string().into_bytes())
    }
}
