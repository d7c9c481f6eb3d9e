//! The state machine: takes bulk requests in, splits, holds, dispatches and merges.
//!
//! ```text
//!             head, data, end                   answered, failed
//!   client ────────────────────▶ Request ◀───────────────────────── node
//!                                   │ shares          Batch ▲
//!                                   ▼                       │
//!                                 Holds ────────────────────┘
//! ```
//! A [`Request`](request::Request) has one share for each [`Destination`](destination::Destination). Each share waits
//! in the hold of its destination and caller until the hold leaves as a batch. When the last share of a request has its outcome, the request is
//! answered.

mod accepting;
mod access_log;
mod admin;
mod answering;
mod attribution;
mod call;
mod caller;
mod command;
mod destination;
mod explain;
mod failure;
mod head;
mod header_pause;
mod heads;
mod holds;
mod ids;
mod input;
mod intake;
mod measuring;
mod memory;
pub mod metrics;
mod outcome;
mod pass_through;
mod placer;
mod reconfiguring;
mod redirecting;
mod reply;
mod request;
mod share;
mod share_numbers;
#[cfg(test)]
mod tests;
mod warnings;

use std::collections::VecDeque;
use std::rc::Rc;

use hashbrown::{HashMap, HashSet};

use crate::Time;
use crate::config::{Config, Switches};
use crate::routing::{RoutingTable, SharedData, StateCache, UpstreamId, Upstreams};
use admin::{Admin, Healths};
use call::Purpose;
use caller::Callers;
use header_pause::HeaderPauses;
use heads::Heads;
use holds::Holds;
use ids::Ids;
use memory::Memory;
use metrics::{Counter, Metrics};
use request::Request;
use warnings::Warnings;

pub use admin::Build;
pub use caller::TRANSPORT_HEADERS;
pub use command::{Call, Command, Headers, Response};
pub use explain::{
    ExplainedOperation, Explanation, Fault, LISTED, NodeName, NodeTotal, ShardTotal, Skew, Sum, UnroutedTotal, Way,
    Why, explained_path,
};
pub use head::may_be_bulk;
pub use ids::Origin;
pub use input::{CallId, Input, RequestId};
pub use pass_through::PassThrough;

/// The most replies that [`Engine::poll_root`] hands out after one input. Envoy answers streams nested in one
/// another; some 300 in one callback overflow the VM's stack.
const REPLIES_PER_TURN: usize = 64;

/// Decides everything for one VM.
///
/// After each [`handle`](Self::handle) from a stream's callback call [`poll_stream`](Self::poll_stream), after each
/// from the root's call [`poll_root`](Self::poll_root), until there are no more commands.
#[derive(Debug)]
pub struct Engine {
    /// As it was given, and what was switched in it since.
    configured: Rc<Config>,
    switches: Switches,
    /// What was wrong with the switches that were read last.
    invalid_switches: Vec<String>,
    /// What comes of these: requests keep the one with which they came.
    config: Rc<Config>,
    now: Time,
    upstreams: Upstreams,
    state: StateCache,
    /// Whether the state has had its share of this turn of the event loop.
    is_paused: bool,
    /// Whether there was anything to do about it since that was asked last.
    is_state_work: bool,
    table: Option<Rc<RoutingTable>>,
    /// Upstreams that no node has any more.
    gone: HashSet<UpstreamId>,
    heads: Heads,
    callers: Callers,
    /// Boxed, because the table has more places than requests.
    requests: HashMap<RequestId, Box<Request>>,
    holds: Holds,
    calls: HashMap<CallId, Purpose>,
    next_call: u32,
    /// Whose turn it is to take a request's operations without an id.
    turn: usize,
    ids: Ids,
    /// What all requests and answers that are here take.
    memory: Memory,
    header_pauses: HeaderPauses,
    /// Requests that passed on whole and make the cluster change.
    learning: HashSet<RequestId>,
    /// For the access log.
    notes: VecDeque<Command>,
    /// What becomes of the stream whose input was just handled.
    flow: Option<Command>,
    /// Requests whose headers are to be let go.
    resumes: VecDeque<RequestId>,
    responses: HashMap<RequestId, Response>,
    /// The order in which they leave; one that is no longer in `responses` has lost its client.
    replies: VecDeque<RequestId>,
    replies_left: usize,
    warnings: Warnings,
    wake_asked: bool,
    /// When the timer that was set last runs out.
    timer: Option<Time>,
    metrics: Metrics,
    /// Bytes of the VM in which this runs, as far as it was told.
    vm_memory: u64,
    admin: Admin,
    healths: Healths,
    build: Build,
}

impl Engine {
    /// An engine without requests, that knows no cluster state yet.
    pub fn new(config: Config, origin: Origin, shared: Box<dyn SharedData>) -> Self {
        let config = Rc::new(config);
        Self {
            configured: Rc::clone(&config),
            switches: Switches::default(),
            invalid_switches: Vec::new(),
            now: Time::ZERO,
            upstreams: Upstreams::new(&config.coordinator),
            state: StateCache::new(&config, origin.number(), shared),
            is_paused: false,
            is_state_work: false,
            table: None,
            gone: HashSet::new(),
            heads: Heads::default(),
            callers: Callers::default(),
            requests: HashMap::new(),
            holds: Holds::new(config.hold.clone(), config.dispatch.clone()),
            calls: HashMap::new(),
            next_call: 0,
            turn: 0,
            ids: Ids::new(origin),
            memory: Memory::default(),
            header_pauses: HeaderPauses::new(config.header_pause),
            learning: HashSet::new(),
            notes: VecDeque::new(),
            flow: None,
            resumes: VecDeque::new(),
            responses: HashMap::new(),
            replies: VecDeque::new(),
            replies_left: REPLIES_PER_TURN,
            warnings: Warnings::default(),
            wake_asked: false,
            timer: None,
            metrics: Metrics::default(),
            vm_memory: 0,
            admin: Admin::default(),
            healths: Healths::default(),
            build: Build::default(),
            config,
        }
    }

    /// Says of what it was compiled, for whoever asks.
    pub fn set_build(&mut self, build: Build) {
        self.build = build;
    }

    /// Something that the operator should know, unless it was told just now.
    pub fn warn(&mut self, warning: String) {
        self.warnings.push(warning, self.now);
    }

    /// Takes in what has happened. `now` never goes back.
    pub fn handle(&mut self, input: Input, now: Time) {
        self.now = self.now.max(now);
        self.ids.advance(self.now);
        self.replies_left = REPLIES_PER_TURN;
        if !matches!(input, Input::Woken | Input::Tick) {
            self.metrics.touch();
        }
        match input {
            Input::RequestHead { request, headers, end } => self.request_head(request, headers, end),
            Input::RequestData { request, chunk, end } => self.request_data(request, chunk, end),
            Input::RequestEnd { request } => self.request_end(request),
            Input::RequestGone { request } => self.request_gone(request),
            Input::CallAnswered { call, response } => self.call_answered(call, response),
            Input::CallFailed { call } => self.call_failed(call),
            Input::CallNotSent { call } => self.call_not_sent(call),
            Input::Measured { request, counters, gauges } => self.measured(request, counters, gauges),
            Input::Woken => (self.wake_asked, self.is_paused) = (false, false),
            Input::Tick => {
                (self.wake_asked, self.is_paused) = (false, false);
                self.timer = None;
                self.holds.tick(self.now);
                self.let_headers_go();
                self.end_samples();
            }
        }
    }

    /// What to do in a stream's callback: let this request pass, ask for a wake-up.
    pub fn poll_stream(&mut self) -> Option<Command> {
        if let Some(note) = self.notes.pop_front() {
            return Some(note);
        }
        if let Some(command) = self.flow.take() {
            return Some(command);
        }
        let work = !self.replies.is_empty()
            || self.has_measurement()
            || self.holds.has_ready()
            || self.state_due().is_some_and(|due| due <= self.now)
            || self.needed_timer().is_some();
        (work && !std::mem::replace(&mut self.wake_asked, true)).then_some(Command::Wake)
    }

    /// What to do in a root callback: call upstreams, answer requests, set the timer.
    pub fn poll_root(&mut self) -> Option<Command> {
        if let Some(warning) = self.warnings.pop() {
            return Some(Command::Warn(warning));
        }
        if let Some(note) = self.notes.pop_front() {
            return Some(note);
        }
        if let Some(request) = self.resumes.pop_front() {
            return Some(Command::Resume { request });
        }
        if let Some(call) = self.next_question().or_else(|| self.next_batch()) {
            return Some(Command::Call(call));
        }
        if let Some(measurement) = self.next_measurement() {
            return Some(measurement);
        }
        if let Some(reply) = self.next_reply() {
            return Some(reply);
        }
        if (self.is_paused || !self.replies.is_empty()) && !std::mem::replace(&mut self.wake_asked, true) {
            return Some(Command::Wake);
        }
        let timer = self.needed_timer()?;
        self.timer = Some(timer);
        Some(Command::SetTimer(timer.saturating_sub(self.now)))
    }

    /// Whether the cluster's state was worked on since the last time, so that whoever has a clock can tell how long
    /// that takes.
    pub fn take_state_work(&mut self) -> bool {
        std::mem::take(&mut self.is_state_work)
    }

    /// Whether a [`Command::Wake`] is on its way, so that the root's callback comes soon.
    pub fn is_wake_asked(&self) -> bool {
        self.wake_asked
    }

    /// The upstreams, for the names of metrics.
    pub fn upstreams(&self) -> &Upstreams {
        &self.upstreams
    }

    /// Where documents live, as far as that is known.
    pub fn table(&self) -> Option<&RoutingTable> {
        self.table.as_deref()
    }

    /// The routing table as JSON, for [`Snapshot`](crate::routing::Snapshot): the first `most` indices that fit a
    /// pattern, with all names that lead to them. `None` before the cluster's state is known.
    pub fn export_state(&self, pattern: &str, most: usize) -> Option<Vec<u8>> {
        let settings = serde_json::from_slice(self.state.settings()).ok();
        let version = self.state.verified().map(|(version, _)| version);
        serde_json::to_vec(&self.table()?.export(pattern, most, version, settings)).ok()
    }

    /// Whether no request is here and no call on its way.
    pub fn is_idle(&self) -> bool {
        let is_told_all = self.responses.is_empty() && self.admin.is_idle();
        is_told_all && self.requests.is_empty() && self.calls.is_empty() && self.holds.is_empty()
    }

    /// Bytes of all requests that are held or in flight, and of the answers that wait for others.
    pub fn memory(&self) -> u64 {
        self.memory.used()
    }

    /// The most bytes that [`memory`](Self::memory) has ever told.
    pub fn memory_peak(&self) -> u64 {
        self.memory.peak()
    }

    fn next_reply(&mut self) -> Option<Command> {
        while self.replies_left > 0 {
            let request = self.replies.pop_front()?;
            if let Some(response) = self.responses.remove(&request) {
                self.replies_left = self.replies_left.saturating_sub(1);
                return Some(Command::Reply { request, response });
            }
        }
        None
    }

    /// When the timer has to run out, if that is sooner than it will.
    fn needed_timer(&self) -> Option<Time> {
        let deadlines = [
            self.state_due(),
            self.holds.deadline(),
            self.header_pauses.deadline(),
            self.metrics.due(),
            self.admin.samplers.deadline(),
        ];
        let next = deadlines.into_iter().flatten().min()?;
        self.timer.is_none_or(|timer| next < timer).then_some(next)
    }

    /// When there is something to do about the cluster state; while it has to pause it comes with the wake-up.
    fn state_due(&self) -> Option<Time> {
        self.state.due().filter(|_| !self.is_paused)
    }

    fn count(&mut self, counter: Counter, by: usize) {
        self.metrics.count(counter, by as u64);
    }
}
