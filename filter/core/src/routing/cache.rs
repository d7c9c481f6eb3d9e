use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use hashbrown::HashSet;

use super::content::{Content, Part};
use super::lease::{Lease, Watch};
use super::question::{Question, RefreshError};
use super::seal::{sealed, unsealed};
use super::turn::{Todo, Turn};
use super::{Node, RoutingTable, SharedData, Unrouted, UpstreamId, UpstreamTemplate, Upstreams, Version};
use crate::Time;
use crate::config::Config;

/// Keeps the routing table fresh, together with the other workers: says when to ask the cluster what, and makes
/// tables of the answers.
///
/// Whoever's turn is due first takes the lease, looks at the cluster, and publishes what has changed; the others see
/// that, take it over and wait anew. A worker that dies with the lease is overtaken after a while. Where nothing can
/// be shared each worker looks for itself.
#[derive(Debug)]
pub struct StateCache {
    shared: Box<dyn SharedData>,
    /// In front of all keys.
    prefix: String,
    /// Tells this worker from all others.
    worker: u64,
    interval: Time,
    /// After which a lease that does not change is nobody's.
    patience: Time,
    template: UpstreamTemplate,
    content: Content,
    /// The lease when it was last read or written here, with the tags of the parts that are in `content`.
    lease: Lease,
    /// The bytes of the lease that was read last, and what they say.
    read: (Vec<u8>, Option<Rc<Lease>>),
    watch: Watch,
    next_tag: u64,
    known: Option<Version>,
    step: Step,
    turn_due: Time,
    look_due: Time,
    /// When a hint may bring a turn forward again.
    next_hurry: Time,
    /// Whether something hinted at a change since the last turn began.
    is_hinted: bool,
    turns: u32,
    wanted: HashSet<String>,
    /// Upstreams that Envoy turned out not to have.
    missing: BTreeSet<UpstreamId>,
    /// What was told of the settings last.
    told_settings: Vec<u8>,
    table: Option<Rc<RoutingTable>>,
    is_table_old: bool,
    news: VecDeque<News>,
}

/// What the cache wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Errand {
    /// Ask the cluster; then [`answered`](StateCache::answered) or [`failed`](StateCache::failed).
    Ask(Question),
    /// Whatever else there is to do; then [`next`](StateCache::next) again.
    Pause,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A look at the cluster has found a new state.
    Loaded,
    /// Another worker's findings were taken over.
    TakenOver,
    /// Something went wrong.
    Failed(RefreshError),
}

#[derive(Debug)]
enum Step {
    /// Until the first bulk request nothing is asked.
    Asleep,
    Rest,
    /// Taking over these parts of a lease, the last first.
    TakeOver(Vec<Part>, Rc<Lease>),
    Turn(Box<Turn>),
    /// Telling the others what was found; then there may be more of the turn.
    Publish(Option<Box<Turn>>),
}

/// The shortest time between two turns that are hinted at, as a share of the interval and at most.
const HURRY: u32 = 5;
const LONGEST_HURRY: Time = Time::from_secs(1);

/// How often a worker looks whether another has published anything, as a share of the interval.
const LOOKS: u32 = 10;

/// How many parts are taken over or published in one step: about a millisecond with 10,000 indices.
const PARTS: usize = 32;

/// The most names that are remembered because operations asked for them in vain.
const WANTED: usize = 1000;

/// The form in which parts are published. Workers with another form are among themselves.
const FORM: &str = "bulk_reshuffle.state.2";

/// The version of a value that is not there yet: whoever writes under it writes first, or not at all.
const FIRST: u32 = u32::MAX;

impl StateCache {
    /// A cache that nobody has asked for yet. `worker` tells the one that has it from all others.
    pub fn new(config: &Config, worker: u64, shared: Box<dyn SharedData>) -> Self {
        let timing = &config.cluster_state;
        Self {
            shared,
            prefix: prefix(config),
            worker,
            interval: timing.refresh,
            patience: timing.timeout.saturating_mul(2),
            template: config.nodes.template.clone(),
            content: Content::default(),
            lease: Lease::default(),
            read: (Vec::new(), None),
            watch: Watch::default(),
            // Tags of two workers differ in the upper half.
            next_tag: worker << 32,
            known: None,
            step: Step::Asleep,
            turn_due: Time::ZERO,
            look_due: Time::ZERO,
            next_hurry: Time::ZERO,
            is_hinted: false,
            turns: 0,
            wanted: HashSet::new(),
            missing: BTreeSet::new(),
            told_settings: Vec::new(),
            table: None,
            is_table_old: false,
            news: VecDeque::new(),
        }
    }

    /// The first bulk request is here.
    pub fn wake(&mut self, now: Time) {
        if let Step::Asleep = self.step {
            self.step = Step::Rest;
            (self.turn_due, self.look_due) = (now, now);
        }
    }

    /// Something hints at a change: the next turn comes at once, but not again and again.
    pub fn hurry(&mut self, now: Time) {
        if !self.is_hinted {
            self.is_hinted = true;
            self.turn_due = self.turn_due.min(now.max(self.next_hurry));
        }
    }

    /// An operation asked for this name in vain.
    pub fn want(&mut self, name: &str) {
        if self.wanted.len() < WANTED {
            self.wanted.insert(name.to_owned());
        }
    }

    /// Envoy has no such upstream. It is tried again after the next turn.
    pub fn miss(&mut self, upstream: UpstreamId) {
        self.is_table_old |= self.missing.insert(upstream);
    }

    /// When [`next`](Self::next) will have an errand.
    pub fn due(&self) -> Option<Time> {
        match &self.step {
            Step::Asleep => None,
            Step::Rest => Some(self.turn_due.min(self.look_due)),
            Step::Turn(turn) if turn.question().is_some() => None,
            _ => Some(Time::ZERO),
        }
    }

    /// What to do now, if anything.
    pub fn next(&mut self, now: Time) -> Option<Errand> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        match std::mem::replace(&mut self.step, Step::Rest) {
            Step::Asleep => None,
            Step::Rest => self.look(now),
            Step::TakeOver(parts, lease) => self.take_over(parts, lease, now),
            Step::Turn(turn) => self.go_on(turn, now),
            Step::Publish(turn) => self.publish(turn),
        }
    }

    /// The cluster has answered.
    pub fn answered(&mut self, status: u16, body: Vec<u8>, now: Time) {
        if let Step::Turn(turn) = &mut self.step
            && let Err(error) = turn.answered(status, body, &mut self.content)
        {
            self.turn_failed(error, now);
        }
    }

    /// No answer came that could be read; the question may not have been sent at all.
    pub fn failed(&mut self, was_sent: bool, now: Time) {
        let Step::Turn(turn) = &mut self.step else { return };
        let Some(question) = turn.question().cloned() else { return };
        if !turn.asks_again(was_sent) {
            self.turn_failed(RefreshError::Unanswered { question }, now);
        }
    }

    /// What is new since the last time.
    pub fn news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// What the cluster says of how the filter is switched, as it came, if that is another than last time.
    pub fn new_settings(&mut self) -> Option<&[u8]> {
        let settings = &self.content.cluster.settings;
        if *settings == self.told_settings {
            return None;
        }
        self.told_settings.clone_from(settings);
        Some(&self.told_settings)
    }

    /// The table, if there is a newer one than last time.
    pub fn new_table(&mut self, upstreams: &mut Upstreams) -> Option<Rc<RoutingTable>> {
        // A table is made of parts that fit one another.
        let is_torn = matches!(self.step, Step::TakeOver(..)) || !self.content.lacking.is_empty();
        if is_torn || !std::mem::take(&mut self.is_table_old) {
            return None;
        }
        let upstream = |node: &Node| {
            let name = if node.present { self.template.upstream(node) } else { return Err(Unrouted::Primary) };
            let upstream = name.and_then(|name| upstreams.intern(&name)).ok_or(Unrouted::Upstream)?;
            if self.missing.contains(&upstream) { Err(Unrouted::Upstream) } else { Ok(upstream) }
        };
        let by_node = self.content.cluster.nodes.list().iter().map(upstream).collect();
        self.table = Some(Rc::new(RoutingTable::new(self.content.sections.clone(), by_node)));
        self.table.clone()
    }

    /// Looks what others have published, and takes the lease if a turn is due.
    fn look(&mut self, now: Time) -> Option<Errand> {
        let (lease, version) = self.read_lease();
        let parts = self.others(&lease);
        if !parts.is_empty() {
            // Until the turn in which they were found has ended.
            self.known = None;
            self.step = Step::TakeOver(parts, lease);
            return Some(Errand::Pause);
        }
        self.look_due = now.saturating_add(self.interval / LOOKS);
        let age = self.watch.look(&lease, now);
        let is_others = lease.holder != self.worker;
        let is_published = lease.known.is_some() && lease.parts.contains_key(&Part::Cluster);
        let is_whole = is_published && self.content.lacking.is_empty();
        if is_others && !lease.is_held && age.is_none() && is_whole {
            // Somebody else's turn has ended.
            self.known.clone_from(&lease.known);
            self.turn_ended(now);
        }
        let is_taken = is_others && lease.is_held && age.is_none_or(|age| age < self.patience);
        if is_taken {
            // Not before the next look.
            self.turn_due = self.turn_due.max(self.look_due);
        }
        if self.turn_due > now {
            return None;
        }
        self.lease =
            Lease { holder: self.worker, is_held: true, beat: lease.beat.wrapping_add(1), ..Lease::clone(&lease) };
        if !self.write_lease(version) {
            // Somebody else has just taken it.
            self.turn_due = self.look_due;
            return None;
        }
        self.begin_turn(now)
    }

    /// The parts that are not here as the lease says, the last first.
    fn others(&self, lease: &Lease) -> Vec<Part> {
        // Without this one nothing was published yet.
        if !lease.parts.contains_key(&Part::Cluster) {
            return Vec::new();
        }
        let is_here = |part: &Part| self.lease.parts.get(part) == lease.parts.get(part);
        let differs = |part: &Part| !is_here(part) || self.content.unpublished.contains(part);
        Content::parts().filter(differs).rev().collect()
    }

    fn begin_turn(&mut self, now: Time) -> Option<Errand> {
        if std::mem::take(&mut self.is_hinted) {
            self.next_hurry = now.saturating_add((self.interval / HURRY).min(LONGEST_HURRY));
        }
        self.turns = self.turns.wrapping_add(1).max(1);
        let mut wanted = std::mem::take(&mut self.wanted);
        if !self.content.cluster.is_partial {
            wanted.clear();
        }
        let turn = Turn::new((self.turns, self.tag()), self.known.clone(), self.template.needs_http(), wanted);
        self.go_on(Box::new(turn), now)
    }

    fn go_on(&mut self, mut turn: Box<Turn>, now: Time) -> Option<Errand> {
        match turn.next(&mut self.content) {
            Ok(Todo::Ask(question)) => {
                self.beat();
                self.step = Step::Turn(turn);
                Some(Errand::Ask(question))
            }
            Ok(Todo::Pause) => {
                self.step = Step::Turn(turn);
                Some(Errand::Pause)
            }
            Ok(Todo::Publish) => {
                self.is_table_old = true;
                self.step = Step::Publish(Some(turn));
                Some(Errand::Pause)
            }
            Ok(Todo::Finish) => {
                self.known = turn.known().cloned();
                if turn.has_changed() {
                    // For the others who may lack it too.
                    self.content.unpublished.append(&mut self.content.lacking);
                    self.is_table_old = true;
                    self.news.push_back(News::Loaded);
                }
                self.turn_ended(now);
                if self.is_hinted {
                    // Others may wait for the lease.
                    self.turn_due = self.turn_due.max(now.saturating_add((self.interval / HURRY).min(LONGEST_HURRY)));
                }
                self.publish(None)
            }
            Err(error) => {
                self.step = Step::Turn(turn);
                self.turn_failed(error, now);
                Some(Errand::Pause)
            }
        }
    }

    fn turn_failed(&mut self, error: RefreshError, now: Time) {
        let goes_on = match &mut self.step {
            Step::Turn(turn) => turn.skips(error.question()),
            _ => false,
        };
        self.news.push_back(News::Failed(error));
        if !goes_on {
            self.is_table_old |= self.table.is_some();
            self.turn_due = if self.is_hinted { self.next_hurry.max(now) } else { now.saturating_add(self.interval) };
            self.step = Step::Publish(None);
        }
    }

    /// A turn has ended well, here or elsewhere.
    fn turn_ended(&mut self, now: Time) {
        if !self.is_hinted {
            // So that a change is noticed within the interval by those too who have to look for it here.
            self.turn_due = now.saturating_add(self.interval.saturating_sub(self.interval / LOOKS));
        } else {
            self.turn_due = now.max(self.next_hurry);
        }
        self.is_table_old |= !std::mem::take(&mut self.missing).is_empty();
        if let Some(table) = &self.table {
            table.trust();
        }
    }

    fn take_over(&mut self, mut parts: Vec<Part>, lease: Rc<Lease>, now: Time) -> Option<Errand> {
        for _ in 0..PARTS {
            let Some(part) = parts.pop() else { break };
            let Some(tag) = lease.parts.get(&part) else {
                self.content.clear(part);
                self.lease.parts.remove(&part);
                continue;
            };
            let (value, _) = self.shared.read(&self.key(part));
            let numbering = self.content.cluster.numbering;
            if !self.content.decode(part, *tag, &value.unwrap_or_default()) {
                // Whoever published it has been overtaken meanwhile, or its value is lost: a look of one's own helps.
                self.hurry(now);
            }
            self.lease.parts.insert(part, *tag);
            if self.content.cluster.numbering != numbering {
                // All the others tell of nodes by other numbers.
                parts = Content::parts().filter(|part| *part != Part::Cluster).rev().collect();
            }
        }
        match parts.is_empty() {
            true => {
                self.is_table_old = true;
                self.news.push_back(News::TakenOver);
                self.look_due = now;
            }
            false => self.step = Step::TakeOver(parts, lease),
        }
        Some(Errand::Pause)
    }

    /// Tells the others what was found, if the lease is here still.
    fn publish(&mut self, turn: Option<Box<Turn>>) -> Option<Errand> {
        let (lease, version) = self.read_lease();
        if lease.holder == self.worker {
            for _ in 0..PARTS {
                let Some(part) = self.content.unpublished.pop_first() else { break };
                if self.content.is_empty(part) {
                    self.lease.parts.remove(&part);
                    continue;
                }
                let tag = self.tag();
                self.shared.write(&self.key(part), &self.content.encode(part, tag), None);
                self.lease.parts.insert(part, tag);
            }
            let is_all = self.content.unpublished.is_empty();
            self.lease.beat = lease.beat.wrapping_add(1);
            self.lease.is_held = turn.is_some() || !is_all;
            self.lease.known.clone_from(&self.known);
            // If somebody else took it meanwhile, the next look sets that right.
            self.write_lease(version);
            if !is_all {
                self.step = Step::Publish(turn);
                return Some(Errand::Pause);
            }
        }
        self.step = turn.map_or(Step::Rest, Step::Turn);
        Some(Errand::Pause)
    }

    /// Shows the others that the lease is not forgotten.
    fn beat(&mut self) {
        let (lease, version) = self.read_lease();
        if lease.holder == self.worker {
            self.lease.beat = lease.beat.wrapping_add(1);
            self.write_lease(version);
        }
    }

    /// A number that nobody has used.
    fn tag(&mut self) -> u64 {
        self.next_tag = self.next_tag.wrapping_add(1);
        self.next_tag
    }

    fn read_lease(&mut self) -> (Rc<Lease>, Option<u32>) {
        let (value, version) = self.shared.read(&self.lease_key());
        // Most looks find what the last one found.
        if let Some(value) = value
            && value != self.read.0
        {
            let lease = unsealed(&value).map(Rc::new);
            self.read = (value, lease);
        }
        // Nothing there, or nothing shared: what was written last.
        let lease = self.read.1.clone().filter(|_| version.is_some());
        (lease.unwrap_or_else(|| Rc::new(self.lease.clone())), version)
    }

    fn write_lease(&self, version: Option<u32>) -> bool {
        self.shared.write(&self.lease_key(), &sealed(&self.lease), version.or(Some(FIRST)))
    }

    fn lease_key(&self) -> String {
        format!("{}.lease", self.prefix)
    }

    fn key(&self, part: Part) -> String {
        match part {
            Part::Cluster => format!("{}.cluster", self.prefix),
            Part::Section(number) => format!("{}.{number}", self.prefix),
        }
    }
}

/// Roots that ask the same cluster the same questions on behalf of the same caller share what they find, whatever else
/// they are configured to do.
fn prefix(config: &Config) -> String {
    let mut hasher = DefaultHasher::new();
    config.coordinator.hash(&mut hasher);
    config.nodes.template.needs_http().hash(&mut hasher);
    config.credentials.headers().for_each(|header| header.hash(&mut hasher));
    format!("{FORM}.{:016x}", hasher.finish())
}
