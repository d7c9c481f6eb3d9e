use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};

use super::upstream_check::UpstreamCheck;
use crate::Time;
use crate::config::Config;
use crate::invariant::Count;
use crate::node::Node;
use crate::routing::sharing::SharedStore;
use crate::routing::table::UpstreamId;

/// The upstreams to check: those of nodes that hold primaries. Others may have none, such as those of dedicated masters.
#[derive(Debug, Default)]
pub(crate) struct Meant {
    /// The upstreams, each with the ids of the nodes that it is for. Usually it is one. Only this worker knows an upstream
    /// by its number.
    pub upstreams: BTreeMap<UpstreamId, Vec<String>>,
    /// A number that changes with the names of the upstreams, their addresses, their nodes and the nodes' processes. It is
    /// the same for all workers.
    pub list: u64,
}

impl Meant {
    /// Creates the list from upstreams with their names and nodes.
    pub fn new<'a>(meant: impl Iterator<Item = (UpstreamId, String, &'a Node)>) -> Self {
        let (mut upstreams, mut list) = (BTreeMap::<_, Vec<String>>::new(), BTreeSet::new());
        for (upstream, name, node) in meant {
            upstreams.entry(upstream).or_default().push(node.id.clone());
            list.insert((name, &node.id, &node.ephemeral_id));
        }
        Self { upstreams, list: hash_of(&list) }
    }
}

/// The checks of where upstreams lead, in rounds. Each round asks every upstream once.
///
/// A round begins when the upstreams or their nodes have changed, and after a pause. The worker that begins it says so in
/// the shared data, and publishes the outcomes there. The other workers wait for them.
#[derive(Debug)]
pub(crate) struct UpstreamChecks {
    is_on: bool,
    /// `cluster_state.refresh`: the first pause while upstreams do not lead to their nodes.
    shortest_pause: Time,
    /// `cluster_state.timeout`.
    timeout: Time,
    worker: u64,
    /// The key of the report in the shared data. Workers whose nodes have other upstreams have another one.
    key: String,
    meant: Meant,
    /// The upstreams that do not lead to their nodes, by the last report.
    faulty: Vec<UpstreamId>,
    /// The list of the last round that was begun or read here.
    settled: u64,
    /// The last report, its version in the shared data, and when it was found there.
    report: Option<Report>,
    version: Option<u32>,
    since: Time,
    round: Option<Round>,
}

/// The published outcomes of a round.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Report {
    /// The worker that asks.
    worker: u64,
    /// The number of the list of upstreams that are asked.
    list: u64,
    /// Whether all were asked. Before, the outcomes are those of the round before.
    is_done: bool,
    /// The number of consecutive rounds that found faults.
    faulty_rounds: u32,
    /// The outcomes of the nodes' upstreams, by node id.
    checks: BTreeMap<String, UpstreamCheck>,
}

/// A round of this worker.
#[derive(Debug)]
struct Round {
    list: u64,
    waiting: BTreeMap<UpstreamId, Vec<String>>,
    asked: BTreeMap<UpstreamId, Vec<String>>,
    checks: BTreeMap<String, UpstreamCheck>,
    /// The upstreams with a fault that was not known before.
    faults: Vec<(UpstreamId, UpstreamCheck)>,
}

/// The maximum number of upstreams that are asked at the same time.
const MAX_IN_FLIGHT: usize = 8;

/// The longest pause between two rounds: Envoy's configuration may change although no node does.
const LONGEST_PAUSE: Time = Time::from_secs(300);

impl UpstreamChecks {
    /// Starts without any outcome.
    pub fn new(config: &Config, worker: u64) -> Self {
        let nodes = serde_json::to_string(&config.nodes).unwrap_or_default();
        Self {
            is_on: config.nodes.checks(),
            shortest_pause: config.cluster_state.refresh,
            timeout: config.cluster_state.timeout,
            worker,
            key: format!("upstreams.{:016x}", hash_of(&nodes)),
            meant: Meant::default(),
            faulty: Vec::new(),
            settled: 0,
            report: None,
            version: None,
            since: Time::ZERO,
            round: None,
        }
    }

    /// Sets the upstreams to check. Returns whether they have changed.
    pub fn set_meant(&mut self, meant: Meant) -> bool {
        let has_changed = std::mem::replace(&mut self.meant, meant).list != self.meant.list;
        self.find_faulty();
        has_changed
    }

    /// Returns the last outcome for the upstream of the node with this id.
    pub fn of_node(&self, id: &str) -> Option<&UpstreamCheck> {
        self.report.as_ref()?.checks.get(id)
    }

    /// Returns the last outcome for an upstream.
    pub fn of(&self, upstream: UpstreamId) -> Option<&UpstreamCheck> {
        self.of_node(self.meant.upstreams.get(&upstream)?.first()?)
    }

    /// Returns the upstreams that do not lead to their nodes.
    pub fn faulty(&self) -> &[UpstreamId] {
        &self.faulty
    }

    fn find_faulty(&mut self) {
        let is_fault = |upstream: &UpstreamId| self.of(*upstream).is_some_and(UpstreamCheck::is_fault);
        self.faulty = self.meant.upstreams.keys().copied().filter(is_fault).collect();
    }

    /// Looks for the outcomes of other workers, and begins a round if one is due. Returns whether outcomes have changed.
    pub fn look(&mut self, store: &SharedStore, now: Time) -> bool {
        if !self.is_on || self.round.is_some() || self.meant.upstreams.is_empty() {
            return false;
        }
        let (found, version) = store.value::<Report>(&self.key);
        let mut has_changed = false;
        if version != self.version {
            (self.version, self.since) = (version, now);
            has_changed = found.as_ref().is_some_and(|found| Some(&found.checks) != self.checks());
            self.report = found;
            self.find_faulty();
        }
        if let Some(report) = self.report.as_ref().filter(|report| report.is_done && report.list == self.meant.list) {
            self.settled = report.list;
        }
        if self.is_round_due(now) {
            let begun = Report {
                worker: self.worker,
                list: self.meant.list,
                is_done: false,
                ..self.report.clone().unwrap_or_default()
            };
            if store.set_value(&self.key, &begun, Some(version)) {
                self.settled = self.meant.list;
                self.round = Some(Round {
                    list: self.meant.list,
                    waiting: self.meant.upstreams.clone(),
                    asked: BTreeMap::new(),
                    checks: BTreeMap::new(),
                    faults: Vec::new(),
                });
            }
        }
        has_changed
    }

    /// Returns whether an upstream can be asked now.
    #[inline]
    pub fn has_next(&self) -> bool {
        self.round.as_ref().is_some_and(|round| !round.waiting.is_empty() && round.asked.len() < MAX_IN_FLIGHT)
    }

    /// Returns the next upstream to ask.
    pub fn next(&mut self) -> Option<UpstreamId> {
        if !self.has_next() {
            return None;
        }
        let round = self.round.as_mut()?;
        let (upstream, nodes) = round.waiting.pop_first()?;
        round.asked.insert(upstream, nodes);
        Some(upstream)
    }

    /// Records the outcome for an upstream, which `read` determines from the ids of its nodes. At the end of the round,
    /// returns the upstreams with a fault that was not known before.
    pub fn asked(
        &mut self,
        upstream: UpstreamId,
        read: impl FnOnce(&[String]) -> UpstreamCheck,
        store: &SharedStore,
        now: Time,
    ) -> Option<Vec<(UpstreamId, UpstreamCheck)>> {
        let nodes = self.round.as_mut()?.asked.remove(&upstream)?;
        let check = read(&nodes);
        let is_new = check.is_fault() && self.of(upstream) != Some(&check);
        let round = self.round.as_mut()?;
        round.faults.extend(is_new.then(|| (upstream, check.clone())));
        round.checks.extend(nodes.into_iter().map(|node| (node, check.clone())));
        let round = self.round.take_if(|round| round.waiting.is_empty() && round.asked.is_empty())?;
        Some(self.end(round, store, now))
    }

    fn end(&mut self, round: Round, store: &SharedStore, now: Time) -> Vec<(UpstreamId, UpstreamCheck)> {
        let Round { list, checks, faults, .. } = round;
        let has_faults = checks.values().any(UpstreamCheck::is_fault);
        let last = self.report.as_ref().filter(|_| has_faults).map_or(0, |report| report.faulty_rounds);
        let faulty_rounds = last.saturating_add(u32::from(has_faults));
        let report = Report { worker: self.worker, list, is_done: true, faulty_rounds, checks };
        // If another worker has begun a round meanwhile, its report follows soon, and is newer.
        store.set_value(&self.key, &report, None);
        (self.version, self.since) = (store.value::<Report>(&self.key).1, now);
        self.report = Some(report);
        self.find_faulty();
        faults
    }

    fn checks(&self) -> Option<&BTreeMap<String, UpstreamCheck>> {
        self.report.as_ref().map(|report| &report.checks)
    }

    fn is_round_due(&self, now: Time) -> bool {
        let Some(report) = &self.report else { return true };
        let age = now.saturating_sub(self.since);
        match report.is_done {
            true => self.meant.list != self.settled || age >= self.pause(report),
            // The worker that began it may be gone.
            false => age >= self.patience(),
        }
    }

    /// Returns the time after which all upstreams are asked again. It doubles as long as there are faults.
    fn pause(&self, report: &Report) -> Time {
        match report.faulty_rounds.checked_sub(1) {
            None => LONGEST_PAUSE,
            Some(rounds) => self.shortest_pause.saturating_mul(2_u32.saturating_pow(rounds)).min(LONGEST_PAUSE),
        }
    }

    /// Returns the longest time that a round takes.
    fn patience(&self) -> Time {
        let turns = u32::try_from(self.meant.upstreams.len().div_ceil(MAX_IN_FLIGHT)).unwrap_or(u32::MAX);
        self.timeout.saturating_mul(turns.plus(1, "there are at most 65,536 upstreams"))
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
