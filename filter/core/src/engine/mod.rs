//! The state machine: takes bulk requests in, splits, holds, dispatches and merges.
//!
//! It does no I/O and has no clock: the shell hands in each event with the time ([`Engine::handle`]) and then carries out
//! the commands that the engine returns, until there are none ([`Engine::poll_stream`], [`Engine::poll_root`]).
//!
//! ```text
//!             head, data, end                   answered, failed
//!   client ────────────────────▶ Request ◀───────────────────────── node
//!                                   │ shares          Batch ▲
//!                                   ▼                       │
//!                                 Holds ────────────────────┘
//! ```
//! A request has one share for each destination. Each share waits in the
//! hold of its destination and caller until the hold leaves as a batch. When the last share of a request has its outcome,
//! the request is answered.
//!
//! The rooms, in the order of a request:
//!
//! - `head`: what its headers say: whether it is a bulk request, of which caller, and where its route leads;
//! - `request`: its operations, where each goes, and the reply that is put together;
//! - `batching`: its shares, the holds in which they wait, and the batches that leave by upstream and identity;
//! - `response`: what a node's answer, or its absence, means for the operations of a batch;
//! - `flow`: the steps of the engine over all of these, from intake to reply;
//! - `metrics`, `explain`, `admin`: what operators are told.
//!
//! Beside them: `outbox` has the commands that wait for the shell, `settings` the configuration in force, `cluster_view`
//! what is known of the cluster, `calls` what is in flight, `memory` the account of bytes.

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
use crate::config::{Config, Switches};
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

/// Decides everything for one VM.
///
/// After each [`handle`](Self::handle) from a stream's callback call [`poll_stream`](Self::poll_stream), after each
/// from the root's call [`poll_root`](Self::poll_root), until there are no more commands.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    now: Time,
    cluster: ClusterView,
    routes: Routes,
    heads: HeadCache,
    callers: Callers,
    /// Boxed, because the table has more places than requests.
    requests: HashMap<RequestId, Box<Request>>,
    holds: Holds,
    calls: Calls,
    /// The round robin of the nodes that take operations without an id.
    turn: usize,
    ids: IdGenerator,
    /// What all requests and answers that are here take.
    memory: Memory,
    header_pauses: HeaderPauses,
    /// Requests that passed on whole and make the cluster change.
    learning: HashSet<RequestId>,
    outbox: Outbox,
    /// The body of the answer that is being read.
    incoming: Charge,
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
            turn: 0,
            ids: IdGenerator::new(origin),
            header_pauses: HeaderPauses::new(config.header_pause),
            learning: HashSet::new(),
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

    /// Sets what the module was compiled from, for the status page.
    pub fn set_build(&mut self, build: Build) {
        self.build = build;
    }

    /// Writes a warning to the log, unless the same one was written just now.
    pub fn warn(&mut self, warning: String) {
        self.outbox.warn(&warning, self.now);
    }

    /// Takes in an event. `now` never goes back.
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
                self.holds.tick(self.now);
                self.let_headers_go();
                self.end_samples();
            }
        }
    }

    /// Returns the next command for a stream's callback: let the request pass, ask for a wake-up.
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

    /// Returns the next command for a root callback: call upstreams, answer requests, set the timer.
    pub fn poll_root(&mut self) -> Option<Command> {
        if let Some(command) = self.outbox.pop_for_root() {
            return Some(command);
        }
        if let Some(call) = self.next_question().or_else(|| self.next_batch()) {
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

    /// Returns whether there was work on the cluster's state since the last call, so that the shell can measure how long
    /// it takes.
    pub fn take_state_work(&mut self) -> bool {
        self.cluster.take_work()
    }

    /// Whether a [`Command::Wake`] is on its way, so that the root's callback comes soon.
    pub fn is_wake_asked(&self) -> bool {
        self.outbox.is_wake_asked()
    }

    /// The upstreams, for the names of metrics.
    pub fn upstreams(&self) -> &Upstreams {
        &self.cluster.upstreams
    }

    /// The routing table, once the cluster's state is known.
    pub fn table(&self) -> Option<&RoutingTable> {
        self.cluster.table().map(Rc::as_ref)
    }

    /// The routing table as JSON, for [`Snapshot`](crate::routing::Snapshot): the first `most` indices that fit a
    /// pattern, with all names that lead to them. `None` before the cluster's state is known.
    pub fn export_state(&self, pattern: &str, most: usize) -> Option<Vec<u8>> {
        let settings = serde_json::from_slice(self.cluster.state.settings()).ok();
        let version = self.cluster.state.verified().map(|(version, _)| version);
        serde_json::to_vec(&self.table()?.export(pattern, most, version, settings)).ok()
    }

    /// Whether there is no request and no call in flight.
    pub fn is_idle(&self) -> bool {
        let is_told_all = !self.outbox.has_replies() && self.admin.is_idle();
        is_told_all && self.requests.is_empty() && self.calls.is_empty() && self.holds.is_empty()
    }

    /// Bytes of all requests that are held or in flight, and of the answers that wait for others.
    pub fn memory(&self) -> u64 {
        self.memory.used()
    }

    /// Bytes of `limits.memory` that are left for further requests: what is neither counted nor needed for the largest copy
    /// that is made of a request.
    pub fn memory_left(&self) -> u64 {
        flow::room(&self.settings.current.limits, &self.memory, 0).free()
    }

    /// The most bytes that [`memory`](Self::memory) has ever told.
    pub fn memory_peak(&self) -> u64 {
        self.memory.peak()
    }

    /// Changes the cluster's run-time settings that are in force, on top of the configuration. What is wrong with them is
    /// counted and logged when it is new.
    pub fn switch(&mut self, switches: Switches, invalid: Vec<String>) {
        let (problems, changed) = self.settings.set_overrides(switches, invalid);
        if !problems.is_empty() {
            self.count(Counter::SwitchesInvalid, problems.len());
        }
        problems.into_iter().for_each(|problem| self.warn(problem));
        if let Some(config) = changed {
            self.reconfigure(config);
        }
    }

    /// Follows this configuration from now on, where it is about requests: `enabled`, `hold`, `dispatch`, `retry`,
    /// `missing_id`, `indices`, `harmless_headers` and `limits`. Requests that are being read keep the one with which
    /// they came; what is held leaves by the new rules.
    pub fn reconfigure(&mut self, config: Rc<Config>) {
        self.holds.configure(config.hold.clone(), config.dispatch.clone(), self.now);
        self.settings.current = config;
    }

    fn woken(&mut self) {
        self.outbox.woken();
        self.cluster.woken();
    }

    /// When something is due that no call or request brings.
    fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.cluster.due(),
            self.holds.deadline(),
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
