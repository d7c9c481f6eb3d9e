//! The state machine: accepts bulk requests, splits them, holds their shares, dispatches batches and merges the
//! answers.
//!
//! It does no I/O and has no clock. The shell passes in each event with the current time ([`Engine::handle`]), then
//! executes the commands that the engine returns until there are none ([`Engine::poll_stream`], [`Engine::poll_root`]).
//!
//! ```text
//!              a chunk of a body                                    an answer
//!   client ──▶ intake ──▶ requests                    response ◀── node
//!                │ the body ends                         │ Verdict
//!                ▼                                       ▼
//!            settlement ──▶ batching ──▶ dispatch    settlement ──▶ requests ──▶ outbox ──▶ client
//!                shares       holds    │ a batch         │ what is sent again
//!                                      ▼                 ▼
//!                                     node            batching
//! ```
//! A request has one share for each destination. Each share waits in the hold of its destination and caller until the
//! hold leaves as a batch. When the last share of a request has its outcome, the request is answered.
//!
//! [`Engine`] alone has the state. It lends each step the parts that the step may touch, and no step calls the engine:
//!
//! - `intake`: decides about a request, from its headers to the end of its body;
//! - `dispatch`: makes calls of batches and of queries of the cluster state;
//! - `response`: reads an answer, or its absence, into a verdict, and changes nothing;
//! - `settlement`: holds shares, applies verdicts, and replies; nothing else records an outcome;
//! - `late`: holds the shares of slow shards apart from others.
//!
//! The state:
//!
//! - `head`: what the headers of requests say: their callers, identities and routes;
//! - `requests`: the operations, their shares with the outcomes, and the replies;
//! - `batching`: the holds, the slots, and the batches that wait to be sent again;
//! - `cluster_view`: the known cluster state; `calls`: the calls in flight; `settings`: the effective configuration;
//!   `memory`: the account of bytes; `outbox`: the commands for the shell.
//!
//! `metrics`, `observe`, `explain` and `admin` report to operators.

mod admin;
#[cfg(any(test, feature = "audit"))]
mod audit;
mod batching;
mod calls;
mod cluster_view;
mod command;
mod dispatch;
mod explain;
mod head;
mod input;
mod intake;
mod late;
mod memory;
pub mod metrics;
mod observation;
mod observe;
mod outbox;
mod pass_through;
mod requests;
mod response;
mod settings;
mod settlement;
#[cfg(test)]
mod tests;
mod warnings;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use hashbrown::HashMap;

use crate::Time;
use crate::config::{Config, RuntimeSettings};
use crate::routing::{PollEvent, RoutingTable, SharedData, Silence, UpstreamCheck, UpstreamId, Upstreams};
use admin::{Admin, Health, Taken, View};
use batching::{Batch, Ending, Holds};
use calls::{Calls, Purpose};
use cluster_view::ClusterView;
use explain::Explainer;
use intake::Intake;
use memory::{Charge, Memory};
use metrics::{Counter, Gauge, Histogram, MetricEvents, Metrics, micros};
use outbox::Outbox;
use requests::Requests;
use response::{Failure, Reading, ending, has_errors, reveals_a_change};
use settings::Settings;
use settlement::Settlement;

pub use admin::Build;
#[cfg(any(test, feature = "audit"))]
pub use audit::{Audited, Step};
pub use batching::Shards;
pub use command::{Call, CallId, Command, Headers, RequestId, Response};
pub use explain::{
    ExplainedOperation, Explanation, Fault, LISTED, NodeName, NodeTotal, ShardTotal, Skew, Sum, UnroutedTotal, Way,
    Why, explained_path,
};
use head::Document;
pub use head::{TRANSPORT_HEADERS, may_be_bulk};
pub use input::Input;
pub use pass_through::PassThrough;
pub use requests::Origin;

/// Makes all decisions for one VM.
///
/// After each [`handle`](Self::handle), poll until there are no more commands: with [`poll_stream`](Self::poll_stream)
/// in a stream's callback, and with [`poll_root`](Self::poll_root) in a callback of the root context.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    now: Time,
    cluster: ClusterView,
    intake: Intake,
    requests: Requests,
    holds: Holds,
    calls: Calls,
    /// The account of the bytes of all requests and answers in memory.
    memory: Memory,
    /// The bytes of the answer that is being read.
    incoming: Charge,
    outbox: Outbox,
    metrics: Metrics,
    /// The last reported memory size of the VM, in bytes.
    vm_memory: u64,
    admin: Admin,
    /// The outcome of the last batch to each upstream.
    healths: HashMap<UpstreamId, Health>,
    build: Build,
}

impl Engine {
    /// Creates an engine without requests and without a cluster state.
    pub fn new(config: Config, origin: Origin, shared: Box<dyn SharedData>) -> Self {
        let memory = Memory::new(config.limits.memory);
        Self {
            now: Time::ZERO,
            cluster: ClusterView::new(&config, origin.number(), shared),
            requests: Requests::default(),
            holds: Holds::new(config.hold.clone(), config.dispatch.clone(), config.limits.max_answer),
            calls: Calls::default(),
            outbox: Outbox::new(&memory),
            incoming: memory.charge(0),
            memory,
            metrics: Metrics::default(),
            vm_memory: 0,
            admin: Admin::default(),
            healths: HashMap::new(),
            build: Build::default(),
            intake: Intake::new(&config, origin),
            settings: Settings::new(config),
        }
    }

    /// Sets the build information for the status page.
    pub fn set_build(&mut self, build: Build) {
        self.build = build;
    }

    /// Sets the zone of this Envoy.
    pub fn set_zone(&mut self, zone: String) {
        self.cluster.set_zone(zone, &self.settings.current.nodes);
    }

    /// Returns whether a request passes through and is observed.
    pub fn observes(&self, request: RequestId) -> bool {
        self.intake.observations.contains(request)
    }

    /// Returns whether chunks of the answer to a request are to be passed as [`Input::AnswerData`].
    #[inline]
    pub fn reads_answer(&self, request: RequestId) -> bool {
        self.intake.observations.reads_answer(request)
    }

    /// Logs a warning, unless the same one was logged recently.
    pub fn warn(&mut self, warning: String) {
        self.outbox.warn(&warning, self.now);
    }

    /// Handles an event. `now` never decreases.
    pub fn handle(&mut self, input: Input, now: Time) {
        self.now = self.now.max(now);
        self.intake.ids.advance(self.now);
        self.outbox.begin_callback();
        if !matches!(input, Input::Woken | Input::Tick) {
            self.metrics.touch();
        }
        match input {
            Input::RequestHead { request, headers, route, end } => {
                self.request_head(request, headers, route.as_deref(), end);
            }
            Input::RequestData { request, chunk, end } => self.request_data(request, chunk, end),
            Input::RequestEnd { request } => self.request_data(request, Vec::new(), true),
            Input::AnswerData { request, chunk } => {
                let (intake, _, mut settlement) = self.parts();
                intake.observations.answer_data(&mut settlement, request, &chunk);
            }
            Input::Passed { request, address, status } => {
                let (intake, _, mut settlement) = self.parts();
                intake.observations.passed(&mut settlement, request, &address, status);
            }
            Input::RequestGone { request } => self.request_gone(request),
            Input::CallAnswered { call, response } => self.call_answered(call, response),
            Input::CallFailed { call } => self.call_ended(call, Failure::Unreadable),
            Input::CallNotSent { call, has_upstream } => self.call_not_sent(call, has_upstream),
            Input::Measured { request, counters, gauges } => self.admin_parts().2.measured(request, counters, gauges),
            Input::Woken => self.woken(),
            Input::Tick => {
                self.woken();
                self.cluster.wake(self.now);
                self.outbox.timer_ran_out();
                let (_, calls, mut settlement) = self.parts();
                late::keep_apart(calls, &mut settlement);
                self.holds.tick(self.now);
                self.intake.observations.advance(&mut self.metrics, self.now);
                self.let_headers_go();
                let (admin, _, mut view) = self.admin_parts();
                admin.samplers.end(&mut view);
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
            || self.admin.has_measurement()
            || self.holds.has_ready()
            || self.cluster.due().is_some_and(|due| due <= self.now)
            || self.outbox.needs_timer(self.next_deadline());
        if is_root_needed { self.outbox.wake() } else { None }
    }

    /// Returns the next command for a root callback: a call, a reply, or a timer.
    pub fn poll_root(&mut self) -> Option<Command> {
        self.outbox
            .pop_for_root()
            .or_else(|| self.next_call().map(Command::Call))
            .or_else(|| self.admin.next_measurement(&self.cluster))
            .or_else(|| self.outbox.pop_reply(&self.memory))
            .or_else(|| {
                let is_wake_needed = self.cluster.is_paused() || self.outbox.has_replies();
                if is_wake_needed { self.outbox.wake() } else { None }
            })
            .or_else(|| self.outbox.set_timer(self.next_deadline(), self.now))
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

    /// Takes the header off a request that names a node in calls to the Envoy cluster with all nodes, so that no client
    /// chooses a node. Returns its name if the request had it: the shell must then take it off the request itself. Call it
    /// for every request, before its headers are passed in.
    pub fn take_node_header(&self, headers: &mut Vec<(String, Vec<u8>)>) -> Option<&str> {
        let header = self.cluster.upstreams.node_header()?;
        let before = headers.len();
        headers.retain(|(name, _)| name != header);
        (headers.len() < before).then_some(header)
    }

    /// Returns the routing table, once the cluster state is known.
    pub fn table(&self) -> Option<&RoutingTable> {
        self.cluster.table().map(Rc::as_ref)
    }

    /// Returns whether the engine handles requests with this path.
    pub fn takes(&self, path: &[u8]) -> bool {
        may_be_bulk(path)
            || self.settings.current.admin_path.rest(path).is_some()
            || Document::joins(path, &self.settings.current, self.table())
    }

    /// Explains how this request would be handled if it arrived now, without other requests. Returns `None` if it is
    /// not a bulk request.
    ///
    /// The headers must include `:method` and `:path`. The body may be compressed. At most `listed` operations and
    /// shards are listed; the sums include all of them.
    ///
    /// Nothing is sent, held or counted. The explanation contains no headers; of the path it contains only the index
    /// and the routing value, and of a document only its id.
    pub fn explain(&self, headers: Vec<(String, Vec<u8>)>, body: Vec<u8>, listed: usize) -> Option<Explanation> {
        let Self { now, settings, cluster, intake, .. } = self;
        let (ids, round_robin) = (&intake.ids, intake.round_robin);
        Explainer { now: *now, config: &settings.current, cluster, ids, round_robin }.explain(headers, body, listed)
    }

    /// Returns whether no request, reply or call is pending.
    pub fn is_idle(&self) -> bool {
        let has_sent_all = !self.outbox.has_replies() && self.admin.is_idle();
        has_sent_all
            && self.intake.observations.is_empty()
            && self.requests.is_empty()
            && self.calls.is_empty()
            && self.holds.is_empty()
    }

    /// Returns the bytes of all requests that are held or in flight, and of the answers that wait for others.
    pub fn memory(&self) -> u64 {
        self.memory.used()
    }

    /// Returns the bytes of `limits.memory` that are left for further requests: those that are neither counted nor
    /// reserved for the largest copy of a request.
    pub fn memory_left(&self) -> u64 {
        self.memory.free()
    }

    /// Returns the peak of [`memory`](Self::memory).
    pub fn memory_peak(&self) -> u64 {
        self.memory.peak()
    }

    /// Applies the cluster's run-time settings on top of the configuration. Counts and logs each new problem with them,
    /// unless the worker that read them has reported it.
    pub fn apply_runtime_settings(&mut self, settings: RuntimeSettings, invalid: Vec<String>, is_reported: bool) {
        let (mut problems, changed) = self.settings.set_overrides(settings, invalid);
        problems.retain(|_| !is_reported);
        if !problems.is_empty() {
            self.count(Counter::SwitchesInvalid, problems.len());
        }
        problems.into_iter().for_each(|problem| self.warn(problem));
        if let Some(config) = changed {
            let enabled = config.enabled;
            if enabled != self.settings.current.enabled && !is_reported {
                self.warn(format!("`enabled` is {enabled} from now on, because the cluster's settings have changed"));
            }
            self.reconfigure(config);
        }
    }

    /// Replaces the configuration for requests: `enabled`, `hold`, `dispatch`, `retry`, `missing_id`, `indices`,
    /// `harmless_headers` and `limits`. Requests that are being read keep their configuration; held shares leave by the
    /// new rules.
    pub fn reconfigure(&mut self, config: Rc<Config>) {
        self.holds.configure(config.hold.clone(), config.dispatch.clone(), self.now);
        self.intake.observations.configure(&config, self.now);
        self.memory.set_limit(config.limits.memory);
        self.settings.current = config;
    }

    /// Returns whether there is room for the answer to a call of this size. If there is none, an answer that is longer
    /// than its operations allow is not even read.
    pub fn has_room(&self, call: CallId, bytes: usize) -> bool {
        let batch = match self.calls.purpose(call) {
            Some(Purpose::Batch(batch)) => batch,
            Some(Purpose::UpstreamCheck(_)) => return bytes <= UpstreamCheck::MAX_ANSWER,
            Some(Purpose::StateQuery) | None => return true,
        };
        let expected = self.requests.expected(&batch.shares);
        self.memory.has_room_meanwhile((bytes as u64).saturating_sub(expected))
    }

    fn request_head(&mut self, id: RequestId, headers: Vec<(String, Vec<u8>)>, route: Option<&[u8]>, end: bool) {
        let (admin, _, mut view) = self.admin_parts();
        let taken = admin.head(&mut view, id, &headers, end);
        let (intake, _, mut settlement) = self.parts();
        match taken {
            Taken::No => intake.head(&mut settlement, id, headers, route, end),
            Taken::Headers => intake.hold_headers(&mut settlement, id),
            Taken::Whole => {}
        }
    }

    fn request_data(&mut self, id: RequestId, chunk: Vec<u8>, end: bool) {
        let (intake, _, mut settlement) = self.parts();
        if intake.observations.reads(id) {
            let read = intake.observations.data(&mut settlement, id, (chunk, end), &mut intake.ids);
            let (admin, _, mut view) = self.admin_parts();
            return read.into_iter().for_each(|request| admin.samplers.show(&mut view, &request));
        }
        let Some(chunk) = intake.follow_headers(&mut settlement, id, chunk) else { return };
        if self.admin.reads(id) {
            let (admin, _, mut view) = self.admin_parts();
            return admin.data(&mut view, id, &chunk, end);
        }
        let (intake, _, mut settlement) = self.parts();
        if intake.data(&mut settlement, id, chunk, end) {
            let (admin, requests, mut view) = self.admin_parts();
            requests.get(id).into_iter().for_each(|request| admin.samplers.show(&mut view, request));
        }
    }

    fn request_gone(&mut self, id: RequestId) {
        self.outbox.forget(id);
        self.admin.gone(id);
        let (intake, _, mut settlement) = self.parts();
        intake.gone(&mut settlement, id);
    }

    /// Lets the headers of requests continue that were held back for too long.
    fn let_headers_go(&mut self) {
        while let Some((id, was_suspected)) = self.intake.pauses.next_overdue(self.now) {
            let (admin, _, mut view) = self.admin_parts();
            if !admin.overdue(&mut view, id) {
                let (intake, _, mut settlement) = self.parts();
                intake.let_headers_go(&mut settlement, id, was_suspected);
            }
        }
    }

    fn call_answered(&mut self, call: CallId, mut response: Response) {
        if let Some(failure) = Failure::of(&response) {
            drop(response);
            return self.call_ended(call, failure);
        }
        match self.calls.end(call) {
            Some(Purpose::StateQuery) => {
                self.cluster.answered(response.status, response.body, self.now);
                self.follow_state();
            }
            Some(Purpose::UpstreamCheck(upstream)) => {
                // Whatever node has answered, it is not at the address that the filter knows.
                self.upstream_answered(upstream, &response);
            }
            Some(Purpose::Batch(mut batch)) => {
                self.note_host(&batch, &mut response);
                self.incoming.set(response.body.capacity() as u64);
                let has_errors = has_errors(&response.body);
                self.batch_returned(&mut batch, None, ending(&response, has_errors));
                if has_errors && reveals_a_change(&response.body) {
                    self.cluster.poll_soon(self.now);
                }
                let verdict = self.reading().read(&batch, response);
                self.parts().2.apply(batch, verdict);
                self.incoming.set(0);
            }
            None => {}
        }
    }

    /// Takes the header off an answer that names the host that gave it. If that is not the node to which the batch was
    /// sent, the Envoy cluster with all nodes lacks the node, and Envoy chose another host.
    fn note_host(&mut self, batch: &Batch, response: &mut Response) {
        let Some(header) = self.cluster.upstreams.node_header() else { return };
        let Some((_, host)) = response.headers.iter().find(|(name, _)| name == header).cloned() else { return };
        response.headers = response.headers.iter().filter(|(name, _)| name != header).cloned().collect();
        if batch.address.as_deref().is_some_and(|address| address != host) {
            self.count(Counter::BatchesRedirected(batch.upstream), 1);
            self.miss(batch.upstream);
        }
    }

    /// Handles an upstream's answer to the question which node it leads to. If a header names another host, the Envoy
    /// cluster with all nodes lacks the node, whatever node has answered.
    fn upstream_answered(&mut self, upstream: UpstreamId, response: &Response) {
        let upstreams = &self.cluster.upstreams;
        let named = response.headers.iter().find(|(name, _)| Some(name.as_str()) == upstreams.node_header());
        let is_other = |(_, host): &(String, String)| upstreams.address(upstream).is_some_and(|at| **at != **host);
        let answer = match named.is_some_and(is_other) {
            true => Err(Silence::NoUpstream),
            false => Ok((response.status, response.body.as_slice())),
        };
        self.cluster.checked(upstream, answer, self.now);
        self.follow_state();
    }

    /// Routes to the coordinator what is for an upstream that Envoy does not have, until the next poll.
    fn miss(&mut self, upstream: UpstreamId) {
        self.cluster.miss(upstream);
        self.follow_state();
    }

    /// Routes to the coordinator what is for the upstream of a call whose connection took too long, for a while: each
    /// further batch would wait as long. A connection that is refused costs no time.
    fn avoid_upstream_of(&mut self, call: CallId) {
        if let Some(batch) = self.calls.batch(call)
            && batch.upstream != UpstreamId::COORDINATOR
        {
            self.cluster.avoid(batch.upstream, self.now);
            self.follow_state();
        }
    }

    /// Handles a call for which Envoy has no upstream, or that Envoy could not make at all.
    fn call_not_sent(&mut self, call: CallId, has_upstream: bool) {
        if let Some(batch) = self.calls.batch(call)
            && batch.upstream != UpstreamId::COORDINATOR
        {
            let upstream = batch.upstream;
            self.miss(upstream);
        }
        self.call_ended(call, if has_upstream { Failure::NotSent } else { Failure::NoUpstream });
    }

    /// Handles a call that got no answer.
    fn call_ended(&mut self, call: CallId, failure: Failure) {
        if failure == Failure::ConnectTimeout {
            self.avoid_upstream_of(call);
        }
        match self.calls.end(call) {
            Some(Purpose::StateQuery) => {
                self.cluster.failed(failure.silence(), self.now);
                self.follow_state();
            }
            Some(Purpose::UpstreamCheck(upstream)) => {
                self.cluster.checked(upstream, Err(failure.silence()), self.now);
                self.follow_state();
            }
            Some(Purpose::Batch(mut batch)) => {
                self.batch_returned(&mut batch, Some(failure), failure.ending());
                // Whatever happened to the node, the table may be out of date.
                self.cluster.poll_soon(self.now);
                let verdict = self.reading().failed(&batch, failure);
                self.parts().2.apply(batch, verdict);
            }
            None => {}
        }
    }

    /// Notes that a call with a batch has ended.
    fn batch_returned(&mut self, batch: &mut Batch, failure: Option<Failure>, ending: Ending) {
        self.healths.insert(batch.upstream, Health { at: self.now, failure });
        observe::count_returned(&mut self.metrics, batch, self.now);
        if self.holds.finished(batch, ending, self.now) {
            self.count(Counter::SlotsHalved(batch.upstream), 1);
        }
    }

    fn reading(&self) -> Reading<'_> {
        Reading {
            requests: &self.requests,
            orders_items: self.cluster.table().is_some_and(|table| table.orders_items),
            memory: &self.memory,
        }
    }

    fn next_state_query(&mut self) -> Option<Call> {
        // Without a due action nothing about the state has changed: answers are followed at once.
        if self.cluster.due().is_none_or(|due| due > self.now) {
            return None;
        }
        let Self { calls, cluster, settings, now, .. } = self;
        let call = dispatch::next_state_query(calls, cluster, &settings.current, *now);
        self.follow_state();
        call
    }

    fn next_call(&mut self) -> Option<Call> {
        let call = self.next_state_query().or_else(|| self.next_batch());
        // Usually there is none, and this function is called for each command.
        if call.is_some() || !self.cluster.has_check() {
            return call;
        }
        dispatch::next_check(&mut self.calls, &mut self.cluster, &self.settings.current)
    }

    fn next_batch(&mut self) -> Option<Call> {
        let (_, calls, mut settlement) = self.parts();
        dispatch::next_batch(calls, &mut settlement)
    }

    /// Handles new cluster events, a new routing table and new run-time settings.
    fn follow_state(&mut self) {
        while let Some(event) = self.cluster.next_event() {
            match event {
                PollEvent::Loaded => self.count(Counter::StateLoads, 1),
                PollEvent::TakenOver => self.count(Counter::StateTakeovers, 1),
                PollEvent::Failed(error) => {
                    self.count(Counter::StateErrors, 1);
                    let (upstream, field) = self.settings.current.polled();
                    self.warn(format!("cluster state: {error} (`{field}` is {upstream:?})"));
                }
                PollEvent::Misled(upstream, check) => {
                    let (name, upstreams) = (self.cluster.upstreams.name(upstream), &self.cluster.upstreams);
                    let warning = check.message(&name, upstreams.address(upstream).map(|address| address.as_ref()));
                    self.warn(warning);
                }
                PollEvent::Ignored(warning) => {
                    self.count(Counter::SwitchesInvalid, 1);
                    self.warn(warning);
                }
            }
        }
        if let Some(gone) = self.cluster.update_table(&self.settings.current.nodes) {
            self.redirect_from(&gone);
        }
        if let Some((settings, invalid, is_reported)) = self.cluster.new_settings() {
            self.apply_runtime_settings(settings, invalid, is_reported);
        }
    }

    /// Redirects everything that waits for these upstreams, which have no node any more, to the coordinator.
    pub fn redirect_from(&mut self, gone: &[UpstreamId]) {
        self.parts().2.redirect_from(gone);
    }

    /// Lends the parts for one step: what intake remembers, the calls, and what the shares touch.
    fn parts(&mut self) -> (&mut Intake, &mut Calls, Settlement<'_>) {
        let settlement = Settlement {
            now: self.now,
            config: &self.settings.current,
            cluster: &mut self.cluster,
            requests: &mut self.requests,
            holds: &mut self.holds,
            memory: &self.memory,
            outbox: &mut self.outbox,
            metrics: &mut self.metrics,
            calls_begun: self.calls.begun(),
        };
        (&mut self.intake, &mut self.calls, settlement)
    }

    /// Lends the parts for an admin request: those requests, the bulk requests, and what is reported.
    fn admin_parts(&mut self) -> (&mut Admin, &Requests, View<'_>) {
        let view = View {
            now: self.now,
            settings: &self.settings,
            cluster: &mut self.cluster,
            ids: &self.intake.ids,
            round_robin: self.intake.round_robin,
            memory: &self.memory,
            outbox: &mut self.outbox,
            build: &self.build,
            healths: &self.healths,
            requests: self.requests.len(),
            vm_memory: self.vm_memory,
            writers: &self.intake.observations.writers,
        };
        (&mut self.admin, &self.requests, view)
    }

    /// Returns whether it is time to publish the [metric events](Self::take_events) and the [gauges](Self::gauges).
    pub fn is_due(&self) -> bool {
        let nothing_under_way = self.requests.is_empty() && !self.outbox.has_replies();
        self.metrics.due().is_some_and(|due| nothing_under_way || due <= self.now)
    }

    /// Moves the metric events since the last call into `into`, replacing its contents.
    pub fn take_events(&mut self, into: &mut MetricEvents) {
        self.metrics.take(into, self.now);
    }

    /// Returns the gauges. A gauge that is missing is zero.
    pub fn gauges(&self) -> BTreeMap<Gauge, u64> {
        let mut gauges = observe::gauges(&self.holds, &self.calls);
        if self.cluster.has_faults() {
            gauges.extend(self.cluster.faulty_upstreams().map(|upstream| (Gauge::UpstreamsFaulty(upstream), 1)));
        }
        if self.cluster.serves() {
            let of_worker = [
                (Gauge::Memory, self.memory.used()),
                (Gauge::MemoryLimit, self.settings.current.limits.memory),
                (Gauge::MemoryPeak, self.memory.peak()),
                (Gauge::VmMemoryPeak, self.vm_memory),
            ];
            gauges.extend(of_worker);
        }
        if let Some((version, at)) = self.cluster.verified() {
            let verified = self.intake.ids.since_epoch().saturating_add(at).as_secs();
            gauges.extend([(Gauge::StateVersion, version.version), (Gauge::StateVerified, verified)]);
        }
        gauges
    }

    /// Records how long a callback has worked on the cluster state. The shell measures it.
    pub fn record_state_step(&mut self, time: Duration) {
        let micros = micros(time);
        self.metrics.count(Counter::StateBusyMicroseconds, micros);
        self.metrics.sample(Histogram::StateStepMicroseconds, micros);
    }

    /// Records the memory size of the VM in bytes. The shell measures it.
    pub fn record_vm_memory(&mut self, bytes: u64) {
        self.vm_memory = bytes;
    }

    fn woken(&mut self) {
        self.outbox.woken();
        self.cluster.resume();
    }

    /// Returns the earliest time at which work is due that no call or request triggers.
    fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.cluster.due(),
            self.holds.deadline(),
            self.calls.check,
            self.intake.pauses.deadline(),
            self.intake.observations.deadline(),
            self.metrics.due(),
            self.admin.samplers.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    fn count(&mut self, counter: Counter, by: usize) {
        self.metrics.count(counter, by as u64);
    }
}
