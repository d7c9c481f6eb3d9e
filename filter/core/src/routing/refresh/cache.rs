use std::collections::VecDeque;
use std::rc::Rc;

use super::cycle::{Cycle, Plan, Search, Todo};
use super::schedule::Schedule;
use super::state_query::{RefreshError, StateQuery};
use super::tables::Tables;
use super::wanted::Wanted;
use crate::Time;
use crate::config::Config;
use crate::invariant::Count;
use crate::routing::checks::{CheckResult, Silence, UpstreamCheck, UpstreamChecks};
use crate::routing::sharing::{Content, Lease, Part, SharedData, SharedStore, Watch};
use crate::routing::table::{Entry, RoutingTable, UpstreamId, Upstreams, Version};

/// The cache that keeps the routing table fresh, together with the other workers. It decides when to send which query
/// to the cluster, and builds tables from the answers.
///
/// The worker whose cycle is due first takes the lease, polls the cluster, and publishes the changes. The other workers
/// apply them and wait again. If the worker that has the lease dies, another takes the lease after a while. If nothing
/// can be shared, each worker polls for itself.
#[derive(Debug)]
pub struct StateCache {
    store: SharedStore,
    schedule: Schedule,
    content: Content,
    watch: Watch,
    latest: Latest,
    step: Step,
    cycles: u32,
    wanted: Wanted,
    tables: Tables,
    checks: UpstreamChecks,
    /// The upstream of the queries, and what the last one has shown about it.
    polled: (UpstreamId, Option<UpstreamCheck>),
    /// The last failure of a poll, until one succeeds.
    problem: Option<RefreshError>,
    /// The number of consecutive cycles that failed because a node's state was older than others, and were repeated soon.
    lags: u32,
    /// The settings that [`new_settings`](Self::new_settings) returned last.
    last_settings: Vec<u8>,
    /// Whether the latest settings come from another worker.
    are_settings_taken_over: bool,
    events: VecDeque<PollEvent>,
}

/// The latest states.
#[derive(Debug, Default)]
struct Latest {
    /// The last state that was read completely; `None` while parts of a later one may be known.
    known: Option<Version>,
    /// The state that was the latest at the end of the last cycle, and the time of that.
    verified: Option<(Version, Time)>,
    /// Set if a whole state was read, and the others do not know yet: whether states of several clusters were seen.
    news: Option<bool>,
    /// When a state was that of another cluster than the one before.
    other_cluster: Option<Time>,
}

/// The time for which the coordinator counts as faulty after a state of another cluster. If its hosts belong to several
/// clusters, the next one follows sooner. If its cluster was replaced, the shipped alert does not fire: it waits longer.
const DOUBT: Time = Time::from_secs(240);

/// The time for which nothing is sent to an upstream to which a connection took too long. Then one batch may wait for a
/// connection again.
const AVOIDED: Time = Time::from_secs(10);

impl Latest {
    /// Records that the state which is known is the latest, and whether states of several clusters were seen on the way.
    /// Returns whether they were, or the state is that of another cluster than the one before.
    fn verify(&mut self, has_several: bool, now: Time) -> bool {
        let Some(known) = &self.known else { return false };
        let is_before = |last: &Version| last.cluster_uuid != known.cluster_uuid;
        let is_other = has_several || self.verified.as_ref().is_some_and(|(last, _)| is_before(last));
        self.verified = Some((known.clone(), now));
        if is_other {
            self.other_cluster = Some(now);
        }
        is_other
    }

    /// Returns what an answer of the coordinator shows about it.
    fn check(&self, now: Time) -> UpstreamCheck {
        let is_doubted = self.other_cluster.is_some_and(|at| now.saturating_sub(at) < DOUBT);
        if is_doubted { CheckResult::SeveralClusters.into() } else { CheckResult::Right.into() }
    }
}

/// An action that the cache needs in order to continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PollAction {
    /// Send this query to the cluster, then call [`answered`](StateCache::answered) or [`failed`](StateCache::failed).
    Ask(StateQuery),
    /// Pause, so that other work is not delayed, then call [`next`](StateCache::next) again.
    Pause,
}

/// An event of the polls, for metrics and the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PollEvent {
    /// A poll found a new state.
    Loaded,
    /// The cache applied the state that another worker found.
    TakenOver,
    /// A poll failed.
    Failed(RefreshError),
    /// An upstream does not lead to its node.
    Misled(UpstreamId, UpstreamCheck),
    /// A poll found settings in the mapping of an index that are ignored: a message.
    Ignored(String),
}

#[derive(Debug)]
enum Step {
    /// The cache does not poll yet.
    Asleep,
    Rest,
    /// The cache is applying these parts of a lease, in reverse order.
    TakeOver(Vec<Part>, Rc<Lease>),
    Cycle(Box<Cycle>),
    /// The cache is publishing what it found. The cycle may then continue.
    Publish(Option<Box<Cycle>>),
}

/// How often a cycle is repeated soon if it met a node whose state is older than others: for a second.
const MAX_LAGS: u32 = 5;

/// The number of parts that are applied or published in one step: about a millisecond with 10,000 indices.
const PARTS_PER_STEP: usize = 32;

impl StateCache {
    /// Creates a cache that sleeps until it is woken. Each worker needs a different number in `worker`.
    pub fn new(config: &Config, worker: u64, shared: Box<dyn SharedData>) -> Self {
        Self {
            store: SharedStore::new(config, worker, shared),
            schedule: Schedule::new(&config.cluster_state),
            content: Content::default(),
            watch: Watch::default(),
            latest: Latest::default(),
            step: Step::Asleep,
            cycles: 0,
            wanted: Wanted::default(),
            tables: Tables::new(config.nodes.clone()),
            checks: UpstreamChecks::new(config, worker),
            polled: (UpstreamId::polled(config), None),
            problem: None,
            lags: 0,
            last_settings: Vec::new(),
            are_settings_taken_over: false,
            events: VecDeque::new(),
        }
    }

    /// Starts polling, unless it has started.
    pub fn wake(&mut self, now: Time) {
        if let Step::Asleep = self.step {
            self.step = Step::Rest;
            self.schedule.wake(now);
        }
    }

    /// Starts polling, and notes that a bulk request has arrived. Workers with requests poll before others do.
    pub fn serve(&mut self, now: Time) {
        self.wake(now);
        self.schedule.serve();
    }

    /// Returns whether a bulk request has arrived.
    pub fn serves(&self) -> bool {
        self.schedule.serves()
    }

    /// Starts the next cycle soon, because of a hint of a change. The rate of such cycles is limited.
    pub fn poll_soon(&mut self, now: Time) {
        self.schedule.hint(now);
    }

    /// Records that an operation used this name, which the table does not know.
    pub fn want(&mut self, name: &str) {
        self.wanted.insert(name);
    }

    /// Records that an operation named a pipeline. From the next cycle on, the cache also queries the pipelines.
    pub fn want_pipelines(&mut self, now: Time) {
        if self.content.pipelines.is_none() && !std::mem::replace(&mut self.wanted.pipelines, true) {
            self.poll_soon(now);
        }
    }

    /// Records that a request is observed. From the next cycle on, the cache also queries the addresses of the nodes.
    pub fn want_addresses(&mut self, now: Time) {
        if !std::mem::replace(&mut self.wanted.addresses, true) && self.content.cluster.nodes.lack_addresses() {
            self.wanted.are_addresses_new = true;
            self.poll_soon(now);
        }
    }

    /// Records that Envoy does not have this upstream. It is tried again after the next cycle.
    pub fn miss(&mut self, upstream: UpstreamId) {
        self.tables.miss(upstream);
    }

    /// Records that a connection to this upstream took too long. It is tried again after a cycle that ends later than
    /// [`AVOIDED`].
    pub fn avoid(&mut self, upstream: UpstreamId, now: Time) {
        self.tables.avoid(upstream, now.saturating_add(AVOIDED));
    }

    /// Returns when [`next`](Self::next) will have an action.
    pub fn due(&self) -> Option<Time> {
        match &self.step {
            Step::Asleep => None,
            Step::Rest => Some(self.schedule.due()),
            Step::Cycle(cycle) if cycle.query().is_some() => None,
            _ => Some(Time::ZERO),
        }
    }

    /// Returns the next action, if any is due.
    pub fn next(&mut self, now: Time) -> Option<PollAction> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        match std::mem::replace(&mut self.step, Step::Rest) {
            Step::Asleep => None,
            Step::Rest => self.look(now),
            Step::TakeOver(parts, lease) => self.take_over(parts, lease, now),
            Step::Cycle(cycle) => self.go_on(cycle, now),
            Step::Publish(cycle) => self.publish(cycle),
        }
    }

    /// Processes the cluster's answer to the last query.
    pub fn answered(&mut self, status: u16, body: Vec<u8>, now: Time) {
        self.polled.1 = Some(match status {
            200 => self.latest.check(now),
            401 | 403 => CheckResult::Forbidden.into(),
            _ => CheckResult::Unreadable.into(),
        });
        if let Step::Cycle(cycle) = &mut self.step
            && let Err(error) = cycle.answered(status, body, &mut self.content)
        {
            self.cycle_failed(error, now);
        }
    }

    /// Records that the last query got no readable answer.
    pub fn failed(&mut self, silence: Silence, now: Time) {
        self.polled.1 = Some(silence.into());
        let was_sent = silence == Silence::NoAnswer;
        let Step::Cycle(cycle) = &mut self.step else { return };
        let Some(query) = cycle.query().cloned() else { return };
        if cycle.asks_again(was_sent) {
            return;
        }
        if !was_sent && query == StateQuery::Version && self.schedule.is_starting(now) {
            // Envoy may still be looking for the hosts.
            self.schedule.plan_soon(now);
            self.step = Step::Publish(None);
            return;
        }
        let problem = match silence {
            Silence::NoUpstream => "Envoy has no cluster of this name",
            Silence::Unreachable => "Envoy cannot connect to a healthy host",
            Silence::NoAnswer => "no answer",
        };
        self.cycle_failed(RefreshError { query, problem: problem.to_owned() }, now);
    }

    /// Returns whether an upstream can be asked now.
    #[inline]
    pub fn has_check(&self) -> bool {
        self.checks.has_next()
    }

    /// Returns the next upstream to ask for the node to which it leads.
    pub fn next_check(&mut self) -> Option<UpstreamId> {
        self.checks.next()
    }

    /// Processes an upstream's answer to the question which node it leads to.
    pub fn checked(&mut self, upstream: UpstreamId, status: u16, body: &[u8], now: Time) {
        let table = self.tables.last().cloned();
        let is_known = |id: &str| table.iter().any(|table| table.nodes().any(|(node, _)| node.id == id));
        self.check_ended(upstream, |nodes| UpstreamCheck::read(status, body, nodes, is_known), now);
    }

    /// Records that an upstream did not answer this question.
    pub fn check_failed(&mut self, upstream: UpstreamId, silence: Silence, now: Time) {
        self.check_ended(upstream, |_| silence.into(), now);
    }

    fn check_ended(&mut self, upstream: UpstreamId, read: impl FnOnce(&[String]) -> UpstreamCheck, now: Time) {
        if let Some(faults) = self.checks.asked(upstream, read, &self.store, now) {
            self.events.extend(faults.into_iter().map(|(upstream, check)| PollEvent::Misled(upstream, check)));
            self.tables.outdate();
        }
    }

    /// Returns the last outcome for the upstream of a node, or of the queries.
    pub fn check(&self, upstream: UpstreamId) -> Option<&UpstreamCheck> {
        match &self.polled {
            (polled, check) if *polled == upstream => check.as_ref(),
            _ => self.checks.of(upstream),
        }
    }

    /// Returns whether an upstream does not lead where it should.
    #[inline]
    pub fn has_faults(&self) -> bool {
        !self.checks.faulty().is_empty() || self.polled.1.as_ref().is_some_and(UpstreamCheck::is_fault)
    }

    /// Returns the upstreams that do not lead where they should.
    pub fn faulty_upstreams(&self) -> impl Iterator<Item = UpstreamId> {
        let (polled, check) = &self.polled;
        let is_faulty = check.as_ref().is_some_and(UpstreamCheck::is_fault);
        self.checks.faulty().iter().copied().chain(is_faulty.then_some(*polled))
    }

    /// Returns the last failure of a poll, if none has succeeded since.
    pub fn problem(&self) -> Option<&RefreshError> {
        self.problem.as_ref()
    }

    /// Returns the state that was last known to be the latest, and the time of that.
    pub fn verified(&self) -> Option<(&Version, Time)> {
        self.latest.verified.as_ref().map(|(version, at)| (version, *at))
    }

    /// Returns whether polls have failed for `cluster_state.stale_after`. What costs only speed when it is wrong would
    /// still do, but not what decides order, ids and statuses: aliases, pipelines and settings.
    pub fn is_stale(&self, now: Time) -> bool {
        self.schedule.is_stale(now)
    }

    /// Returns the next event.
    pub fn next_event(&mut self) -> Option<PollEvent> {
        self.events.pop_front()
    }

    /// Returns the cluster's answer about the run-time settings, unchanged. It is empty before the first query.
    pub fn settings(&self) -> &[u8] {
        &self.content.cluster.settings
    }

    /// Returns the cluster's answer about the run-time settings if it has changed since the last call, and whether it
    /// comes from another worker, which then has reported their problems.
    pub fn new_settings(&mut self) -> Option<(&[u8], bool)> {
        let settings = &self.content.cluster.settings;
        if *settings == self.last_settings {
            return None;
        }
        self.last_settings.clone_from(settings);
        Some((&self.last_settings, self.are_settings_taken_over))
    }

    /// Returns the last table.
    pub fn table(&self) -> Option<&Rc<RoutingTable>> {
        self.tables.last()
    }

    /// Returns the table if it has changed since the last call.
    pub fn new_table(&mut self, upstreams: &mut Upstreams) -> Option<Rc<RoutingTable>> {
        // A table needs parts that match each other.
        let is_torn = matches!(self.step, Step::TakeOver(..)) || !self.content.lacking.is_empty();
        if is_torn {
            return None;
        }
        let (table, meant) = self.tables.build(&self.content, upstreams, &self.checks)?;
        if self.checks.set_meant(meant) {
            self.schedule.check_now(Time::ZERO);
        }
        Some(table)
    }

    /// Checks what other workers have published, and takes the lease if a cycle is due.
    fn look(&mut self, now: Time) -> Option<PollAction> {
        let found = self.store.lease();
        let lease = &found.lease;
        let parts = self.others(lease);
        if !parts.is_empty() {
            // The version is unknown until the cycle that found these parts has ended.
            self.latest.known = None;
            self.step = Step::TakeOver(parts, Rc::clone(lease));
            return Some(PollAction::Pause);
        }
        self.schedule.checked(now);
        if self.checks.look(&self.store, now) {
            self.tables.outdate();
        }
        let age = self.watch.look(lease, now);
        let is_others = !self.store.is_own(lease);
        let is_published = lease.known.is_some() && lease.parts.contains_key(&Part::Cluster);
        let is_whole = is_published && self.content.lacking.is_empty();
        let (was_returned, has_succeeded) = (self.watch.was_returned(lease), self.watch.has_succeeded(lease));
        // This also applies if the next cycle has begun: a worker that polls all the time has the lease at almost every
        // check.
        if was_returned && is_others && is_whole {
            // The next cycle may not have published all that it has read.
            if !lease.is_held {
                self.latest.known.clone_from(&lease.known);
            }
            if has_succeeded {
                self.succeeded(lease.has_several_clusters, now);
            }
            self.schedule.plan(now);
        }
        if is_others && lease.is_held && self.schedule.is_patient(age) {
            self.schedule.wait_for_other();
        }
        if !self.schedule.is_cycle_due(now) {
            return None;
        }
        if !self.store.take(&found) {
            // Another worker has just taken it.
            self.schedule.wait_for_other();
            return None;
        }
        self.begin_cycle(now)
    }

    /// Returns the parts that differ from the lease, in reverse order.
    fn others(&self, lease: &Lease) -> Vec<Part> {
        // Without this part nothing has been published yet. At most checks nothing differs.
        let is_same = self.store.has_all(lease) && self.content.unpublished.is_empty();
        if is_same || !lease.parts.contains_key(&Part::Cluster) {
            return Vec::new();
        }
        let differs = |part: &Part| !self.store.has(*part, lease) || self.content.unpublished.contains(part);
        Content::parts().filter(differs).rev().collect()
    }

    fn begin_cycle(&mut self, now: Time) -> Option<PollAction> {
        self.schedule.begin(now, self.content.cluster.is_partial);
        self.cycles = self.cycles.wrapping_add(1).max(1);
        let mut wanted = self.wanted.take();
        wanted.retain(|name| self.content.cluster.is_partial && !self.is_known(name));
        let cycle = Cycle::new(Plan {
            number: self.cycles,
            numbering: self.store.tag(),
            // Otherwise a cycle ends at once if the state has not changed.
            known: self.latest.known.clone().filter(|_| !std::mem::take(&mut self.wanted.are_addresses_new)),
            needs_http: self.tables.need_http(),
            wants_http: self.wanted.addresses,
            needs_pipelines: self.wanted.pipelines,
            wanted,
            looks_for_wanted: self.schedule.is_search_due(now),
            confirms_aliases: self.schedule.is_confirmation_due(self.content.cluster.alias_signature, now),
        });
        self.go_on(Box::new(cycle), now)
    }

    /// Returns whether the table has everything about a name.
    fn is_known(&self, name: &str) -> bool {
        let buckets = &self.content.buckets;
        match buckets.get(name) {
            None => false,
            Some(Entry::Index(_)) => true,
            Some(Entry::Target(target)) => target.index.as_ref().map_or(true, |index| buckets.index(index).is_some()),
        }
    }

    /// Records the outcome of a cycle's search for the wanted names.
    fn record_search(&mut self, cycle: &mut Cycle, now: Time) {
        match cycle.search() {
            Search::None => cycle.take_wanted().iter().for_each(|name| self.wanted.insert(name)),
            Search::Found => self.schedule.searched(true, now),
            Search::Missed => self.schedule.searched(false, now),
        }
    }

    fn go_on(&mut self, mut cycle: Box<Cycle>, now: Time) -> Option<PollAction> {
        let todo = cycle.next(&mut self.content);
        self.are_settings_taken_over = false;
        self.events.extend(cycle.take_warnings().into_iter().map(PollEvent::Ignored));
        match todo {
            Ok(Todo::Ask(query)) => {
                self.store.beat();
                self.step = Step::Cycle(cycle);
                Some(PollAction::Ask(query))
            }
            Ok(Todo::Pause) => {
                self.step = Step::Cycle(cycle);
                Some(PollAction::Pause)
            }
            Ok(Todo::Publish) => {
                self.tables.outdate();
                self.step = Step::Publish(Some(cycle));
                Some(PollAction::Pause)
            }
            Ok(Todo::Finish) => {
                self.latest.known = cycle.known().cloned();
                self.record_search(&mut cycle, now);
                if cycle.confirms_aliases() {
                    self.schedule.confirmed();
                }
                if cycle.has_changed() {
                    // Other workers may lack these parts too.
                    self.content.unpublished.append(&mut self.content.lacking);
                    self.tables.outdate();
                    self.events.push_back(PollEvent::Loaded);
                }
                let has_several = self.succeeded(cycle.has_several_clusters(), now);
                self.latest.news = Some(has_several);
                if has_several {
                    self.events.push_back(PollEvent::Misled(self.polled.0, self.latest.check(now)));
                }
                self.schedule.plan_after_own(now, self.content.cluster.is_partial);
                self.publish(None)
            }
            Err(error) => {
                self.step = Step::Cycle(cycle);
                self.cycle_failed(error, now);
                Some(PollAction::Pause)
            }
        }
    }

    fn cycle_failed(&mut self, error: RefreshError, now: Time) {
        if error.query == StateQuery::Pipelines {
            // What is known may be out of date.
            self.content.set_pipelines(None);
        }
        let goes_on = match &mut self.step {
            Step::Cycle(cycle) => cycle.skips(&error.query),
            _ => false,
        };
        let lags = matches!(&self.step, Step::Cycle(cycle) if cycle.lags());
        if lags && self.lags < MAX_LAGS {
            self.lags = self.lags.plus(1, "it is small");
            // Parts of the state may be later than it.
            self.latest.known = None;
            self.schedule.plan_soon(now);
            self.step = Step::Publish(None);
            return;
        }
        if !goes_on {
            self.problem = Some(error.clone());
            if self.tables.last().is_some() {
                self.tables.outdate();
            }
            self.schedule.plan_after_failure(now);
            self.step = Step::Publish(None);
        }
        self.events.push_back(PollEvent::Failed(error));
    }

    /// Records that this or another worker has read the whole state, and whether it has seen states of several clusters.
    /// Returns whether the coordinator has answered for another cluster than before.
    fn succeeded(&mut self, has_several: bool, now: Time) -> bool {
        self.schedule.succeeded(now);
        self.problem = None;
        self.lags = 0;
        let is_other = self.latest.verify(has_several, now);
        self.polled.1 = Some(self.latest.check(now));
        self.tables.verify(now);
        is_other
    }

    fn take_over(&mut self, mut parts: Vec<Part>, lease: Rc<Lease>, now: Time) -> Option<PollAction> {
        self.are_settings_taken_over = true;
        for _ in 0..PARTS_PER_STEP {
            let Some(part) = parts.pop() else { break };
            let Some(tag) = lease.parts.get(&part) else {
                self.content.clear(part);
                self.store.withdraw(part);
                continue;
            };
            let numbering = self.content.cluster.numbering;
            let value = self.store.read(part, *tag);
            if !self.content.decode(part, *tag, &self.store.checksum, &value) {
                // The publisher has been overtaken in the meantime, or the value is lost. A cycle of this worker's own
                // helps.
                self.poll_soon(now);
            }
            if self.content.cluster.numbering != numbering {
                // All other parts refer to nodes by other numbers.
                parts = Content::parts().filter(|part| *part != Part::Cluster).rev().collect();
            }
        }
        match parts.is_empty() {
            true => {
                self.tables.outdate();
                self.events.push_back(PollEvent::TakenOver);
                self.schedule.check_now(now);
            }
            false => self.step = Step::TakeOver(parts, lease),
        }
        Some(PollAction::Pause)
    }

    /// Publishes what was found, if this worker still has the lease.
    fn publish(&mut self, cycle: Option<Box<Cycle>>) -> Option<PollAction> {
        let found = self.store.lease();
        if self.store.is_own(&found.lease) {
            let is_all = self.publish_parts();
            let is_held = cycle.is_some() || !is_all;
            let news = if is_held { None } else { self.latest.news.take() };
            self.store.publish_list(&found, is_held, self.latest.known.as_ref(), news);
            if !is_all {
                self.step = Step::Publish(cycle);
                return Some(PollAction::Pause);
            }
        }
        self.step = cycle.map_or(Step::Rest, Step::Cycle);
        Some(PollAction::Pause)
    }

    /// Publishes the next parts. Returns whether these were the last ones.
    fn publish_parts(&mut self) -> bool {
        // The first cycle has failed: it may have read the nodes, but not where names lead.
        if !self.tables.has_any() {
            return true;
        }
        for _ in 0..PARTS_PER_STEP {
            let Some(part) = self.content.unpublished.pop_first() else { break };
            match self.content.is_empty(part) {
                true => self.store.withdraw(part),
                false => self.store.publish(part, |checksum, tag| self.content.encode(part, checksum, tag)),
            }
        }
        self.content.unpublished.is_empty()
    }
}
