use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};

use super::upstream_check::UpstreamCheck;
use crate::Time;
use crate::config::Config;
use crate::invariant::Count;
use crate::routing::sharing::SharedStore;
use crate::routing::table::UpstreamId;

/// An upstream of nodes that hold primaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meant {
    /// Its number, which only this worker knows it by.
    pub upstream: UpstreamId,
    /// The upstream's name and address, as for people.
    pub name: String,
    /// The ids of the nodes that it is for. Usually it is one.
    pub nodes: Vec<String>,
    /// The ids of their processes, so that the upstream of a node that restarts is checked again.
    pub processes: Vec<String>,
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
    /// The upstreams to check, and a number that changes with them.
    meant: Vec<Meant>,
    list: u64,
    /// The list of the last round that was begun or read here.
    settled: u64,
    /// The last report, its version in the shared data, and when it was found there.
    report: Option<Report>,
    version: Option<u32>,
    since: Time,
    round: Option<Round>,
    /// Faults that were found since the last call of [`take_warnings`](Self::take_warnings).
    warnings: Vec<String>,
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
    /// The outcomes, by the upstream's name.
    checks: BTreeMap<String, UpstreamCheck>,
}

/// A round of this worker.
#[derive(Debug)]
struct Round {
    list: u64,
    waiting: VecDeque<Meant>,
    asked: Vec<Meant>,
    checks: BTreeMap<String, UpstreamCheck>,
}

/// The maximum number of upstreams that are asked at the same time.
const MAX_IN_FLIGHT: usize = 8;

/// The longest pause between two rounds: Envoy's configuration may change although no node does.
const LONGEST_PAUSE: Time = Time::from_secs(300);

/// The maximum number of faults of one round that are logged one by one.
const MAX_WARNINGS: usize = 5;

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
            meant: Vec::new(),
            list: 0,
            settled: 0,
            report: None,
            version: None,
            since: Time::ZERO,
            round: None,
            warnings: Vec::new(),
        }
    }

    /// Sets the upstreams to check: those of nodes that hold primaries. Others may have none, such as those of dedicated
    /// masters. Returns whether they have changed.
    pub fn set_meant(&mut self, mut meant: Vec<Meant>) -> bool {
        meant.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let list: Vec<_> = meant.iter().map(|Meant { name, nodes, processes, .. }| (name, nodes, processes)).collect();
        let last = std::mem::replace(&mut self.list, hash_of(&list));
        self.meant = meant;
        last != self.list
    }

    /// Returns the last outcome for an upstream of this name.
    pub fn of(&self, name: &str) -> Option<&UpstreamCheck> {
        self.report.as_ref()?.checks.get(name)
    }

    /// Returns the upstreams that do not lead to their nodes.
    pub fn faulty(&self) -> impl Iterator<Item = UpstreamId> {
        let is_fault = |meant: &&Meant| self.of(&meant.name).is_some_and(UpstreamCheck::is_fault);
        self.meant.iter().filter(is_fault).map(|meant| meant.upstream)
    }

    /// Returns the texts for the log since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Looks for the outcomes of other workers, and begins a round if one is due. Returns whether outcomes have changed.
    pub fn look(&mut self, store: &SharedStore, now: Time) -> bool {
        if !self.is_on || self.round.is_some() || self.meant.is_empty() {
            return false;
        }
        let (found, version) = store.value::<Report>(&self.key);
        let mut has_changed = false;
        if version != self.version {
            (self.version, self.since) = (version, now);
            has_changed = found.as_ref().is_some_and(|found| Some(&found.checks) != self.checks());
            self.report = found;
        }
        if let Some(report) = self.report.as_ref().filter(|report| report.is_done && report.list == self.list) {
            self.settled = report.list;
        }
        if self.is_round_due(now) {
            let begun = Report {
                worker: self.worker,
                list: self.list,
                is_done: false,
                ..self.report.clone().unwrap_or_default()
            };
            if store.set_value(&self.key, &begun, Some(version)) {
                self.settled = self.list;
                self.round = Some(Round {
                    list: self.list,
                    waiting: self.meant.clone().into(),
                    asked: Vec::new(),
                    checks: BTreeMap::new(),
                });
            }
        }
        has_changed
    }

    /// Returns whether an upstream can be asked now.
    pub fn has_next(&self) -> bool {
        self.round.as_ref().is_some_and(|round| !round.waiting.is_empty() && round.asked.len() < MAX_IN_FLIGHT)
    }

    /// Returns the next upstream to ask.
    pub fn next(&mut self) -> Option<UpstreamId> {
        if !self.has_next() {
            return None;
        }
        let round = self.round.as_mut()?;
        let meant = round.waiting.pop_front()?;
        let upstream = meant.upstream;
        round.asked.push(meant);
        Some(upstream)
    }

    /// Records the outcome for an upstream, which `read` determines from the ids of its nodes. Returns whether this ends
    /// the round.
    pub fn asked(
        &mut self,
        upstream: UpstreamId,
        read: impl FnOnce(&[String]) -> UpstreamCheck,
        store: &SharedStore,
        now: Time,
    ) -> bool {
        let Some(round) = &mut self.round else { return false };
        let Some(position) = round.asked.iter().position(|asked| asked.upstream == upstream) else { return false };
        let Meant { name, nodes, .. } = round.asked.swap_remove(position);
        round.checks.insert(name, read(&nodes));
        let is_end = round.waiting.is_empty() && round.asked.is_empty();
        if let Some(round) = self.round.take_if(|_| is_end) {
            self.end(round, store, now);
        }
        is_end
    }

    fn end(&mut self, Round { list, checks, .. }: Round, store: &SharedStore, now: Time) {
        self.warn(&checks);
        let has_faults = checks.values().any(UpstreamCheck::is_fault);
        let last = self.report.as_ref().filter(|_| has_faults).map_or(0, |report| report.faulty_rounds);
        let faulty_rounds = last.saturating_add(u32::from(has_faults));
        let report = Report { worker: self.worker, list, is_done: true, faulty_rounds, checks };
        // If another worker has begun a round meanwhile, its report follows soon, and is newer.
        store.set_value(&self.key, &report, None);
        (self.version, self.since) = (store.value::<Report>(&self.key).1, now);
        self.report = Some(report);
    }

    /// Adds texts for the faults that were not known before.
    fn warn(&mut self, checks: &BTreeMap<String, UpstreamCheck>) {
        let is_new = |(name, check): &(&String, &UpstreamCheck)| check.is_fault() && self.of(name) != Some(*check);
        let new: Vec<_> = checks.iter().filter(is_new).collect();
        let mut texts: Vec<_> = new.iter().take(MAX_WARNINGS).map(|(name, check)| text(name, check)).collect();
        if let Some(more) = new.len().checked_sub(MAX_WARNINGS).filter(|more| *more > 0) {
            texts.push(format!("{more} further upstreams do not lead to their nodes: see `check` in the status"));
        }
        self.warnings.append(&mut texts);
    }

    fn checks(&self) -> Option<&BTreeMap<String, UpstreamCheck>> {
        self.report.as_ref().map(|report| &report.checks)
    }

    fn is_round_due(&self, now: Time) -> bool {
        let Some(report) = &self.report else { return true };
        let age = now.saturating_sub(self.since);
        match report.is_done {
            true => self.list != self.settled || age >= self.pause(report),
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
        let turns = u32::try_from(self.meant.len().div_ceil(MAX_IN_FLIGHT)).unwrap_or(u32::MAX);
        self.timeout.saturating_mul(turns.plus(1, "there are at most 65,536 upstreams"))
    }
}

/// Returns a text for the log.
fn text(name: &str, UpstreamCheck { result, found }: &UpstreamCheck) -> String {
    let found =
        found.as_ref().map(|found| format!(" {found:?} answers. Operations for its node go to the coordinator."));
    format!("upstream {name:?}: {}{}", result.text(), found.unwrap_or_default())
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
