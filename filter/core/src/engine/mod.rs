//! The state machine: accepts bulk requests, splits them, holds their shares, dispatches batches and merges the
//! answers.
//!
//! It does no I/O and has no clock. The shell passes in each event with the current time ([`Engine::handle`]), then
//! executes the commands that the engine returns until there are none ([`Engine::poll_stream`], [`Engine::poll_root`]).
//!
//! ```text
//!             head, data, end                   answered, failed
//!   client ────────────────────▶ Request ◀───────────────────────── node
//!                                   │ shares          Batch ▲
//!                                   ▼                       │
//!                                 Holds ────────────────────┘
//! ```
//! A request has one share for each destination. Each share waits in the hold of its destination and caller until the
//! hold leaves as a batch. When the last share of a request has its outcome, the request is answered.
//!
//! The modules, in the order in which a request passes through them:
//!
//! - `head`: reads the headers: whether it is a bulk request, which caller sent it, and where its route leads;
//! - `request`: holds the operations, routes each one, and assembles the reply;
//! - `batching`: holds the shares, and releases batches by upstream and identity;
//! - `response`: interprets a node's answer, or its absence, for the operations of a batch;
//! - `flow`: implements the engine's steps across these modules, from intake to reply;
//! - `metrics`, `explain`, `admin`: report to operators.
//!
//! Shared state: `outbox` queues the commands for the shell, `settings` has the effective configuration, `cluster_view`
//! the known cluster state, `calls` the calls in flight, and `memory` accounts for bytes.

mod admin;
#[cfg(any(test, feature = "audit"))]
mod audit;
mod batching;
mod calls;
mod cluster_view;
mod command;
mod explain;
mod flow;
mod head;
mod input;
mod memory;
pub mod metrics;
mod outbox;
mod pass_through;
mod request;
mod response;
mod settings;
#[cfg(test)]
mod tests;
mod warnings;

use std::rc::Rc;

use hashbrown::{HashMap, HashSet};

use crate::Time;
use crate::config::{Config, RuntimeSettings};
use crate::routing::{RoutingTable, SharedData, Upstreams};
use admin::{Admin, Healths};
use batching::Holds;
use calls::Calls;
use cluster_view::ClusterView;
use head::{Callers, HeadCache, HeaderPauses, Routes};
use memory::{Charge, Memory};
use metrics::{Counter, Metrics};
use outbox::Outbox;
use request::{IdGenerator, Request};
use settings::Settings;

pub use admin::Build;
#[cfg(any(test, feature = "audit"))]
pub use audit::{Audited, Step};
pub use command::{Call, CallId, Command, Headers, RequestId, Response};
pub use explain::{
    ExplainedOperation, Explanation, Fault, LISTED, NodeName, NodeTotal, ShardTotal, Skew, Sum, UnroutedTotal, Way,
    Why, explained_path,
};
pub use head::{TRANSPORT_HEADERS, may_be_bulk};
pub use input::Input;
pub use pass_through::PassThrough;
pub use request::Origin;

/// Makes all decisions for one VM.
///
/// After each [`handle`](Self::handle), poll until there are no more commands: with [`poll_stream`](Self::poll_stream)
/// in a stream's callback, and with [`poll_root`](Self::poll_root) in a callback of the root context.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    now: Time,
    cluster: ClusterView,
    routes: Routes,
    heads: HeadCache,
    callers: Callers,
    /// Boxed, because the table has more slots than requests.
    requests: HashMap<RequestId, Box<Request>>,
    holds: Holds,
    calls: Calls,
    /// The round-robin counter that chooses nodes for operations without an id.
    round_robin: usize,
    ids: IdGenerator,
    /// The account of the bytes of all requests and answers in memory.
    memory: Memory,
    header_pauses: HeaderPauses,
    /// Requests that passed through for a reason that may soon no longer apply, such as an unknown index.
    may_soon_split: HashSet<RequestId>,
    outbox: Outbox,
    /// The bytes of the answer that is being read.
    incoming: Charge,
    metrics: Metrics,
    /// The last reported memory size of the VM, in bytes.
    vm_memory: u64,
    admin: Admin,
    healths: Healths,
    build: Build,
}

impl Engine {
    /// Creates an engine without requests and without a cluster state.
    pub fn new(config: Config, origin: Origin, shared: Box<dyn SharedData>) -> Self {
        let memory = Memory::default();
        Self {
            now: Time::ZERO,
            cluster: ClusterView::new(&config, origin.number(), shared),
            routes: Routes::default(),
            heads: HeadCache::default(),
            callers: Callers::default(),
            requests: HashMap::new(),
            holds: Holds::new(config.hold.clone(), config.dispatch.clone(), config.limits.max_answer),
            calls: Calls::default(),
            round_robin: 0,
            ids: IdGenerator::new(origin),
            header_pauses: HeaderPauses::new(config.header_pause),
            may_soon_split: HashSet::new(),
            outbox: Outbox::new(&memory),
            incoming: memory.charge(0),
            memory,
            metrics: Metrics::default(),
            vm_memory: 0,
            admin: Admin::default(),
            healths: Healths::default(),
            build: Build::default(),
            settings: Settings::new(config),
        }
    }

    /// Sets the build information for the status page.
    pub fn set_build(&mut self, build: Build) {
        self.build = build;
    }

    /// Logs a warning, unless the same one was logged recently.
    pub fn warn(&mut self, warning: String) {
        self.outbox.warn(&warning, self.now);
    }

    /// Handles an event. `now` never decreases.
    pub fn handle(&mut self, input: Input, now: Time) {
        self.now = self.now.max(now);
        self.ids.advance(self.now);
        self.outbox.begin_callback();
        if !matches!(input, Input::Woken | Input::Tick) {
            self.metrics.touch();
        }
        match input {
            Input::RequestHead { request, headers, route, end } => self.request_head(request, headers, route, end),
            Input::RequestData { request, chunk, end } => self.request_data(request, chunk, end),
            Input::RequestEnd { request } => self.request_end(request),
            Input::RequestGone { request } => self.request_gone(request),
            Input::CallAnswered { call, response } => self.call_answered(call, response),
            Input::CallFailed { call } => self.call_failed(call),
            Input::CallNotSent { call } => self.call_not_sent(call),
            Input::Measured { request, counters, gauges } => self.measured(request, counters, gauges),
            Input::Woken => self.woken(),
            Input::Tick => {
                self.woken();
                self.outbox.timer_ran_out();
                self.keep_late_apart();
                self.holds.tick(self.now);
                self.let_headers_go();
                self.end_samples();
            }
        }
    }

    /// Returns the next command for a stream's callback: a decision about the request, or a wake-up request.
    pub fn poll_stream(&mut self) -> Option<Command> {
        if let Some(command) = self.outbox.pop_for_stream() {
            return Some(command);
        }
        let is_root_needed = self.outbox.has_replies()
            || self.outbox.has_warnings()
            || self.has_measurement()
            || self.holds.has_ready()
            || self.cluster.due().is_some_and(|due| due <= self.now)
            || self.outbox.needs_timer(self.next_deadline());
        if is_root_needed { self.outbox.wake() } else { None }
    }

    /// Returns the next command for a root callback: a call, a reply, or a timer.
    pub fn poll_root(&mut self) -> Option<Command> {
        if let Some(command) = self.outbox.pop_for_root() {
            return Some(command);
        }
        if let Some(call) = self.next_state_query().or_else(|| self.next_batch()) {
            return Some(Command::Call(call));
        }
        if let Some(measurement) = self.next_measurement() {
            return Some(measurement);
        }
        if let Some(reply) = self.outbox.pop_reply(&self.memory) {
            return Some(reply);
        }
        if (self.cluster.is_paused() || self.outbox.has_replies())
            && let Some(wake) = self.outbox.wake()
        {
            return Some(wake);
        }
        self.outbox.set_timer(self.next_deadline(), self.now)
    }

    /// Returns whether the engine has worked on the cluster state since the last call, so that the shell can measure
    /// how long that takes.
    pub fn take_state_work(&mut self) -> bool {
        self.cluster.take_work()
    }

    /// Returns whether a [`Command::Wake`] is pending, so that the root's callback comes soon.
    pub fn is_wake_asked(&self) -> bool {
        self.outbox.is_wake_asked()
    }

    /// Returns the upstreams, for the names of metrics.
    pub fn upstreams(&self) -> &Upstreams {
        &self.cluster.upstreams
    }

    /// Returns the routing table, once the cluster state is known.
    pub fn table(&self) -> Option<&RoutingTable> {
        self.cluster.table().map(Rc::as_ref)
    }

    /// Returns the routing table as JSON, for [`Snapshot`](crate::routing::Snapshot): the first `most` indices that
    /// match a pattern, with all names that lead to them. Returns `None` until the cluster state is known.
    pub fn export_state(&self, pattern: &str, most: usize) -> Option<Vec<u8>> {
        let settings = serde_json::from_slice(self.cluster.state.settings()).ok();
        let version = self.cluster.state.verified().map(|(version, _)| version);
        serde_json::to_vec(&self.table()?.export(pattern, most, version, settings)).ok()
    }

    /// Returns whether no request, reply or call is pending.
    pub fn is_idle(&self) -> bool {
        let has_sent_all = !self.outbox.has_replies() && self.admin.is_idle();
        has_sent_all && self.requests.is_empty() && self.calls.is_empty() && self.holds.is_empty()
    }

    /// Returns the bytes of all requests that are held or in flight, and of the answers that wait for others.
    pub fn memory(&self) -> u64 {
        self.memory.used()
    }

    /// Returns the bytes of `limits.memory` that are left for further requests: those that are neither counted nor
    /// reserved for the largest copy of a request.
    pub fn memory_left(&self) -> u64 {
        flow::room(&self.settings.current.limits, &self.memory, 0).free()
    }

    /// Returns the peak of [`memory`](Self::memory).
    pub fn memory_peak(&self) -> u64 {
        self.memory.peak()
    }

    /// Applies the cluster's run-time settings on top of the configuration. Counts and logs each new problem with them.
    pub fn apply_runtime_settings(&mut self, settings: RuntimeSettings, invalid: Vec<String>) {
        let (problems, changed) = self.settings.set_overrides(settings, invalid);
        if !problems.is_empty() {
            self.count(Counter::SwitchesInvalid, problems.len());
        }
        problems.into_iter().for_each(|problem| self.warn(problem));
        if let Some(config) = changed {
            self.reconfigure(config);
        }
    }

    /// Replaces the configuration for requests: `enabled`, `hold`, `dispatch`, `retry`, `missing_id`, `indices`,
    /// `harmless_headers` and `limits`. Requests that are being read keep their configuration; held shares leave by the
    /// new rules.
    pub fn reconfigure(&mut self, config: Rc<Config>) {
        self.holds.configure(config.hold.clone(), config.dispatch.clone(), self.now);
        self.settings.current = config;
    }

    fn woken(&mut self) {
        self.outbox.woken();
        self.cluster.woken();
    }

    /// Returns the earliest time at which work is due that no call or request triggers.
    fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.cluster.due(),
            self.holds.deadline(),
            self.calls.check(),
            self.header_pauses.deadline(),
            self.metrics.due(),
            self.admin.samplers.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    fn count(&mut self, counter: Counter, by: usize) {
        self.metrics.count(counter, by as u64);
    }
}
