//! The endpoints below `admin_path`: the status, an explanation of how a bulk request would be handled, the routing
//! table, a sample, and a live page.

mod asset;
mod build;
mod route;
mod sample;
mod status;

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};

use crate::Time;
use crate::engine::cluster_view::ClusterView;
use crate::engine::command::{Command, RequestId, Response};
use crate::engine::explain::{Explainer, LISTED, explained_path};
use crate::engine::memory::{Charge, Memory};
use crate::engine::metrics::{Counter, Gauge};
use crate::engine::observation::Writers;
use crate::engine::outbox::{Outbox, Reply};
use crate::engine::requests::IdGenerator;
use crate::engine::response::Failure;
use crate::engine::settings::Settings;
use crate::routing::UpstreamId;
use route::{Refusal, Resource};
use sample::Samplers;
use status::{Status, Totals};

pub use build::Build;

/// The maximum number of bytes of a bulk request to explain. It is read in one callback, at about a gigabyte a second,
/// while the worker does nothing else.
const MAX_EXPLAINED_BYTES: usize = 4 << 20;

/// The maximum number of lines of a bulk request to explain. An operation takes about a microsecond.
const MAX_LINES: usize = 5000;

/// The maximum number of admin requests that a worker handles concurrently, not counting those for the page itself.
/// Each may use four megabytes.
const MAX_REQUESTS: usize = 16;

const MEDIA_TYPE: &str = "content-type";

/// The media type that curl sends if its user chooses none. A body with it, or without any, is explained as one with
/// [`BULK_MEDIA_TYPE`].
const CURLS_MEDIA_TYPE: &[u8] = b"application/x-www-form-urlencoded";

const BULK_MEDIA_TYPE: &[u8] = b"application/x-ndjson";

/// The requests below the admin path that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct Admin {
    /// The requests that count toward [`MAX_REQUESTS`], until they are over.
    open: HashSet<RequestId>,
    /// The bulk requests to explain, while their bodies arrive.
    requests: HashMap<RequestId, AdminRequest>,
    /// The requests that wait for the status.
    statuses: VecDeque<RequestId>,
    /// The requests that wait for a sample.
    pub samplers: Samplers,
}

/// Whether a request is one below the admin path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is not.
    No,
    /// It is, and needs no body.
    Whole,
    /// It is, and its body is to come.
    Headers,
}

/// A request whose body is to be explained.
#[derive(Debug)]
struct AdminRequest {
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    charge: Charge,
}

impl Admin {
    /// Admits a request, and returns whether there was room for it.
    fn enter(&mut self, id: RequestId) -> bool {
        self.open.len() < MAX_REQUESTS && self.open.insert(id)
    }

    /// Returns whether no admin request waits for its answer.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.statuses.is_empty() && self.samplers.is_empty()
    }

    /// Returns whether a status request waits for its measurement.
    pub fn has_measurement(&self) -> bool {
        !self.statuses.is_empty()
    }

    /// Accepts a request below the admin path. Returns whether the request is one, and whether its body is to come.
    pub fn head(&mut self, view: &mut View<'_>, id: RequestId, headers: &[(String, Vec<u8>)], end: bool) -> Taken {
        let value = |name: &str| headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_slice());
        let Some(rest) = value(":path").and_then(|path| view.settings.current.admin_path.rest(path)) else {
            return Taken::No;
        };
        let route = Resource::read(value(":method").unwrap_or_default(), rest);
        if route.as_ref().is_ok_and(|route| !route.is_page()) && !self.enter(id) {
            let problem = format!("this worker already handles {MAX_REQUESTS} admin requests; retry later");
            view.reply(id, Response::problem(429, &problem));
            return Taken::Whole;
        }
        match route {
            Ok(Resource::Asset(asset)) => view.reply(id, Response::asset(asset)),
            Ok(Resource::Slash) => view.reply(id, Response::see(&format!("{}/", view.settings.current.admin_path))),
            Ok(Resource::Status) => self.statuses.push_back(id),
            Ok(Resource::State { pattern, most }) => {
                let state = view.cluster.export(&pattern, most);
                view.cluster.wake(view.now);
                view.reply(id, state.map_or_else(no_state, Response::json));
            }
            Ok(Resource::Sample) => self.samplers.enter(id, view.now),
            Ok(Resource::Explain { rest }) => {
                self.begin_explanation(view, id, headers, &rest);
                if !end {
                    return Taken::Headers;
                }
                self.end(view, id);
            }
            Err(refusal) => view.reply(id, refusal.into()),
        }
        Taken::Whole
    }

    fn begin_explanation(&mut self, view: &mut View<'_>, id: RequestId, headers: &[(String, Vec<u8>)], rest: &str) {
        view.cluster.wake(view.now);
        let path = explained_path(rest).into_bytes();
        let with_path = |(name, value): &(String, Vec<u8>)| {
            (name.clone(), if name == ":path" { path.clone() } else { value.clone() })
        };
        let is_chosen = |(name, value): &(String, Vec<u8>)| name == MEDIA_TYPE && *value != CURLS_MEDIA_TYPE;
        let headers = match headers.iter().any(is_chosen) {
            true => headers.iter().map(with_path).collect(),
            false => {
                let others = headers.iter().filter(|(name, _)| name != MEDIA_TYPE).map(with_path);
                others.chain([(MEDIA_TYPE.to_owned(), BULK_MEDIA_TYPE.to_vec())]).collect()
            }
        };
        self.requests.insert(id, AdminRequest { headers, body: Vec::new(), charge: view.memory.charge(0) });
    }

    /// Returns whether the body of a request is to be explained.
    pub fn reads(&self, id: RequestId) -> bool {
        // Usually there is no such request, and this lookup is free.
        self.requests.contains_key(&id)
    }

    /// Handles a chunk of the body of a request that it [reads](Self::reads).
    pub fn data(&mut self, view: &mut View<'_>, id: RequestId, chunk: &[u8], end: bool) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let size = request.body.len().saturating_add(chunk.len());
        if size > MAX_EXPLAINED_BYTES || !view.memory.has_room(chunk.len() as u64, 0) {
            self.requests.remove(&id);
            return view.reply(id, Response::too_large());
        }
        request.body.extend_from_slice(chunk);
        request.charge.set(request.body.capacity() as u64);
        if end {
            self.end(view, id);
        }
    }

    fn end(&mut self, view: &mut View<'_>, id: RequestId) {
        let Some(AdminRequest { headers, body, .. }) = self.requests.remove(&id) else { return };
        let response = explain_or_refuse(view, headers, body);
        view.reply(id, response);
    }

    /// Refuses an explanation whose body does not arrive because its headers are held back. Returns whether the request
    /// was one.
    pub fn overdue(&mut self, view: &mut View<'_>, id: RequestId) -> bool {
        let is_bodiless = self.requests.get(&id).is_some_and(|request| request.body.is_empty());
        if is_bodiless {
            self.requests.remove(&id);
            let problem = "no body arrived; unless the client is slow, send a bulk request first, so that the filter \
                           detects how Envoy delivers bodies";
            view.reply(id, Response::problem(503, problem));
        }
        is_bodiless
    }

    /// Forgets a request that is over.
    pub fn gone(&mut self, id: RequestId) {
        self.open.remove(&id);
        self.requests.remove(&id);
        self.statuses.retain(|waiting| *waiting != id);
        self.samplers.leave(id);
    }

    /// Returns the measurement that the next status request needs.
    pub fn next_measurement(&mut self, cluster: &ClusterView) -> Option<Command> {
        let request = self.statuses.pop_front()?;
        let upstreams = status::reported_upstreams(cluster);
        Some(Command::Measure {
            request,
            counters: Counter::all(upstreams.clone()).collect(),
            gauges: Gauge::all(upstreams).collect(),
        })
    }
}

/// The outcome of this worker's last batch to an upstream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Health {
    /// The time of the outcome.
    pub at: Time,
    /// The reason why there was no answer, if there was none.
    pub failure: Option<Failure>,
}

/// What the engine lends to the admin requests: what they report, and where their responses go.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub now: Time,
    pub settings: &'a Settings,
    pub cluster: &'a mut ClusterView,
    pub ids: &'a IdGenerator,
    pub round_robin: usize,
    pub memory: &'a Memory,
    pub outbox: &'a mut Outbox,
    pub build: &'a Build,
    pub healths: &'a HashMap<UpstreamId, Health>,
    /// The number of requests.
    pub requests: usize,
    /// The last reported memory size of the VM, in bytes.
    pub vm_memory: u64,
    pub writers: &'a Writers,
}

impl View<'_> {
    /// Answers a status request with the measured metrics.
    pub fn measured(&mut self, id: RequestId, counters: Vec<(Counter, u64)>, gauges: Vec<(Gauge, u64)>) {
        let totals = Totals { counters: counters.into_iter().collect(), gauges: gauges.into_iter().collect() };
        let response = Response::of(&Status::of(self, &totals));
        self.reply(id, response);
    }

    fn reply(&mut self, id: RequestId, response: Response) {
        let charge = self.memory.charge(response.body.capacity() as u64);
        self.outbox.reply(id, Reply::Ready(response, charge));
    }
}

fn explain_or_refuse(view: &View<'_>, headers: Vec<(String, Vec<u8>)>, body: Vec<u8>) -> Response {
    // The size of a compressed body is known only after the work of inflating it.
    let is_gzip = |(name, value): &(String, Vec<u8>)| name == "content-encoding" && value.eq_ignore_ascii_case(b"gzip");
    if headers.iter().any(is_gzip) {
        return Response::problem(415, "the body is compressed; send it uncompressed to have it explained");
    }
    if memchr::memchr_iter(b'\n', &body).count() > MAX_LINES {
        return Response::too_large();
    }
    let View { now, settings, cluster, ids, round_robin, .. } = view;
    let explainer = Explainer { now: *now, config: &settings.current, cluster, ids, round_robin: *round_robin };
    match (cluster.table(), explainer.explain(headers, body, LISTED)) {
        (None, Some(_)) => no_state(),
        (_, Some(explanation)) => Response::of(&explanation),
        (_, None) => Response::problem(404, "the path after `explain` is not the path of a bulk request"),
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
                Self::problem(405, &format!("method not allowed; use {allowed}")).with("allow", allowed)
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
    fn of_type(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        let safe = SAFE.iter().map(|(name, value)| header(name, value));
        Self { status, headers: [header("content-type", content_type)].into_iter().chain(safe).collect(), body }
    }

    fn asset(asset: &asset::Asset) -> Self {
        Self::of_type(200, asset.content_type, asset.body.as_bytes().to_vec())
    }

    fn json(body: Vec<u8>) -> Self {
        Self::of_type(200, "application/json", body)
    }

    fn of(value: &impl serde::Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self::json(body),
            Err(error) => Self::problem(500, &error.to_string()),
        }
    }

    fn see(path: &str) -> Self {
        Self::of_type(308, "text/plain", Vec::new()).with("location", path)
    }

    /// Appends a header.
    fn with(self, name: &str, value: &str) -> Self {
        Self { headers: self.headers.iter().cloned().chain([header(name, value)]).collect(), ..self }
    }

    fn too_large() -> Self {
        let problem = format!(
            "too large to be explained: at most {MAX_EXPLAINED_BYTES} bytes and {MAX_LINES} lines; the explorer takes more"
        );
        Self::problem(413, &problem)
    }

    fn problem(status: u16, problem: &str) -> Self {
        let body = serde_json::json!({"error": problem, "status": status});
        Self::of_type(status, "application/json", body.to_string().into_bytes())
    }
}
