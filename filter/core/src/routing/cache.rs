use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use hashbrown::HashSet;

use super::board::Board;
use super::content::{Content, Part};
use super::lease::{Lease, Watch};
use super::question::{Question, RefreshError};
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
    board: Board,
    interval: Time,
    /// After which a lease that does not change is nobody's.
    patience: Time,
    template: UpstreamTemplate,
    content: Content,
    watch: Watch,
    known: Option<Version>,
    /// The state that was the newest when a turn ended last, and when that was.
    verified: Option<(Version, Time)>,
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

impl StateCache {
    /// A cache that nobody has asked for yet. `worker` tells the one that has it from all others.
    pub fn new(config: &Config, worker: u64, shared: Box<dyn SharedData>) -> Self {
        let timing = &config.cluster_state;
        Self {
            board: Board::new(config, worker, shared),
            interval: timing.refresh,
            patience: timing.timeout.saturating_mul(2),
            template: config.nodes.template.clone(),
            content: Content::default(),
            watch: Watch::default(),
            known: None,
            verified: None,
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

    /// Whether there has been a bulk request.
    pub fn is_awake(&self) -> bool {
        !matches!(self.step, Step::Asleep)
    }

    /// Which state was known last to be the newest, and when that was.
    pub fn verified(&self) -> Option<(&Version, Time)> {
        self.verified.as_ref().map(|(version, at)| (version, *at))
    }

    /// What is new since the last time.
    pub fn news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// What the cluster says of how the filter is switched, as it came; empty if it was not asked yet.
    pub fn settings(&self) -> &[u8] {
        &self.content.cluster.settings
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
        let nodes = self.content.cluster.nodes.list();
        let by_node = nodes.iter().map(upstream).collect();
        self.table = Some(Rc::new(RoutingTable::new(self.content.sections.clone(), nodes.into(), by_node)));
        self.table.clone()
    }

    /// Looks what others have published, and takes the lease if a turn is due.
    fn look(&mut self, now: Time) -> Option<Errand> {
        let found = self.board.lease();
        let lease = &found.lease;
        let parts = self.others(lease);
        if !parts.is_empty() {
            // Until the turn in which they were found has ended.
            self.known = None;
            self.step = Step::TakeOver(parts, Rc::clone(lease));
            return Some(Errand::Pause);
        }
        self.look_due = now.saturating_add(self.interval / LOOKS);
        let age = self.watch.look(lease, now);
        let is_others = !self.board.is_own(lease);
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
        if !self.board.take(&found) {
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
        let differs = |part: &Part| !self.board.has(*part, lease) || self.content.unpublished.contains(part);
        Content::parts().filter(differs).rev().collect()
    }

    fn begin_turn(&mut self, now: Time) -> Option<Errand> {
        if std::mem::take(&mut self.is_hinted) {
            self.next_hurry = now.saturating_add(self.gap());
        }
        self.turns = self.turns.wrapping_add(1).max(1);
        let mut wanted = std::mem::take(&mut self.wanted);
        if !self.content.cluster.is_partial {
            wanted.clear();
        }
        let turn = Turn::new((self.turns, self.board.tag()), self.known.clone(), self.template.needs_http(), wanted);
        self.go_on(Box::new(turn), now)
    }

    fn go_on(&mut self, mut turn: Box<Turn>, now: Time) -> Option<Errand> {
        match turn.next(&mut self.content) {
            Ok(Todo::Ask(question)) => {
                self.board.beat();
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
                    self.turn_due = self.turn_due.max(now.saturating_add(self.gap()));
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

    /// The shortest time between two turns that are hinted at.
    fn gap(&self) -> Time {
        (self.interval / HURRY).min(LONGEST_HURRY)
    }

    /// A turn has ended well, here or elsewhere.
    fn turn_ended(&mut self, now: Time) {
        if let Some(known) = &self.known {
            self.verified = Some((known.clone(), now));
        }
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
                self.board.withdraw(part);
                continue;
            };
            let numbering = self.content.cluster.numbering;
            if !self.content.decode(part, *tag, &self.board.read(part, *tag)) {
                // Whoever published it has been overtaken meanwhile, or its value is lost: a look of one's own helps.
                self.hurry(now);
            }
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
        let found = self.board.lease();
        if self.board.is_own(&found.lease) {
            for _ in 0..PARTS {
                let Some(part) = self.content.unpublished.pop_first() else { break };
                match self.content.is_empty(part) {
                    true => self.board.withdraw(part),
                    false => self.board.publish(part, |tag| self.content.encode(part, tag)),
                }
            }
            let is_all = self.content.unpublished.is_empty();
            self.board.tell(&found, turn.is_some() || !is_all, self.known.as_ref());
            if !is_all {
                self.step = Step::Publish(turn);
                return Some(Errand::Pause);
            }
        }
        self.step = turn.map_or(Step::Rest, Step::Turn);
        Some(Errand::Pause)
    }
}
