use std::collections::{BTreeMap, BTreeSet};

use crate::client::Key;
use crate::ledger::CallKey;
use crate::scenario::Settings;
use crate::violation::{Promise, Violation};

/// The traffic of one engine, with the times since when something else could have left.
#[derive(Debug, Default)]
pub struct EngineTraffic {
    /// The settings that the engine should follow.
    pub settings: Settings,
    /// Whether the settings stay the same.
    is_fixed: bool,
    by_upstream: BTreeMap<SlotsKey, Traffic>,
    by_identity: BTreeMap<(SlotsKey, String), Traffic>,
    by_caller: BTreeMap<(Destination, CallerNumber), Traffic>,
    /// The batches that left, in order.
    left: Vec<Left>,
    durations: BTreeMap<SlotsKey, Durations>,
    /// The upstreams that may have been overloaded, so that the engine may have halved their slots.
    overloaded: BTreeSet<SlotsKey>,
    /// Whether a batch may have been late. The engine then may hold operations for some shards apart.
    may_be_apart: bool,
    /// Whether the slow shard is known to be slow, for requests that do not ask the cluster to wait and for those that
    /// do.
    is_slow_known: [bool; 2],
}

/// An upstream and, with `dispatch.level: shard`, the index and the number of a shard.
pub type Destination = (String, Option<(&'static str, u32)>);

/// A number for each different key of the clients.
pub type CallerNumber = usize;

/// An upstream, and whether its cluster is asked to wait.
type SlotsKey = (String, bool);

/// The class of slots that a caller's batches take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    pub identity: String,
    /// Whether the cluster is asked to wait.
    pub waits: bool,
}

/// A batch that leaves.
#[derive(Debug, Clone)]
pub struct Leaving<'a> {
    pub key: CallKey,
    pub upstream: &'a str,
    /// The upstream and the shard, if this is the first attempt and the shard is certain.
    pub to: Option<&'a Destination>,
    pub caller: CallerNumber,
    pub class: &'a Class,
    /// The time since when the oldest part of it may be held.
    pub since: u64,
    /// Whether an operation may be for the slow shard.
    pub is_slow: bool,
    /// Whether all operations are certainly for the slow shard.
    pub is_alone: bool,
}

#[derive(Debug)]
struct Left {
    at: u64,
    slots: SlotsKey,
    identity: String,
    /// The destination and the caller, if they are certain and this was the first attempt.
    sent: Option<(Destination, CallerNumber)>,
    /// Whether it may have been held for so long that the order did not apply to it.
    is_overdue: bool,
}

#[derive(Debug, Clone, Copy)]
struct Flight {
    sent: u64,
    is_slow: bool,
    is_alone: bool,
}

/// The number of slots that each upstream has at least until it is overloaded, if the settings allow as many.
const INITIAL_SLOTS: u64 = 4;

/// The batches in flight, and the times when some returned. Those with the slow shard do not count for `others`, once
/// they must be late.
#[derive(Debug, Default, Clone)]
struct Traffic {
    flights: BTreeMap<CallKey, Flight>,
    all: Returns,
    others: Returns,
    /// The last time when more batches in flight were late, possibly, than there are slots.
    crowded: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Returns {
    /// The time when the last batch returned.
    last: u64,
    /// The time when the last batch returned while the maximum number was in flight.
    last_full: u64,
    /// The time until which a hold may have waited for further requests after a batch that returned.
    gathered: u64,
}

/// The traffic as it concerns one share: what is in flight, and what has returned.
#[derive(Debug, Clone, Copy, Default)]
struct View {
    in_flight: u64,
    returns: Returns,
}

/// The time after which a batch is late: the shortest and the longest that it may be.
#[derive(Debug, Clone, Copy)]
struct Patience {
    least: u64,
    most: u64,
}

/// How long batches took.
#[derive(Debug, Default, Clone, Copy)]
struct Durations {
    /// The longest without the slow shard.
    longest: u64,
    /// The number of batches with the slow shard.
    slow: i32,
}

impl Traffic {
    /// Records that a batch returned, while as many batches may have been in flight at once as `slots`.
    fn back(&mut self, key: CallKey, slots: u64, now: u64, patience: Patience, settings: &Settings) {
        let is_full = self.flights.len() as u64 >= slots;
        self.crowded = if self.late(now, patience) > settings.max_in_flight_per_node { now } else { self.crowded };
        let Some(flight) = self.flights.remove(&key) else { return };
        let late = if flight.is_slow { flight.sent.saturating_add(patience.most) } else { now };
        for (returns, at) in [(&mut self.all, now), (&mut self.others, now.min(late))] {
            returns.note(at, is_full);
            let wait = settings.longest_wait(at.saturating_sub(flight.sent));
            returns.gathered = returns.gathered.max(at.saturating_add(wait));
        }
    }

    /// Returns the traffic as it concerns shares of any shard. A batch that may be late may have given its slot back.
    fn view(&self, now: u64, patience: Patience) -> View {
        self.view_with(self.all, now, patience)
    }

    fn view_with(&self, returns: Returns, now: u64, patience: Patience) -> View {
        let mut view = View { in_flight: self.flights.len() as u64, returns };
        let late = self.flights.values().filter(|flight| flight.sent.saturating_add(patience.least) <= now);
        late.for_each(|flight| view.returns.note(now.min(flight.sent.saturating_add(patience.most)), true));
        view
    }

    /// Returns the traffic as it concerns shares that do not touch the slow shard.
    fn view_of_others(&self, now: u64, patience: Patience) -> View {
        let is_late = |flight: &&Flight| flight.is_slow && flight.sent.saturating_add(patience.most) <= now;
        let view = self.view_with(self.others, now, patience);
        let late = self.flights.values().filter(is_late).count() as u64;
        View { in_flight: view.in_flight.saturating_sub(late), ..view }
    }

    /// Returns the number of batches in flight that are late, possibly, and of those with the slow shard.
    fn late(&self, now: u64, patience: Patience) -> u64 {
        let is_late = |flight: &&Flight| flight.is_slow || flight.sent.saturating_add(patience.least) <= now;
        self.flights.values().filter(is_late).count() as u64
    }

    /// Returns the number of batches in flight that were sent after this time.
    fn sent_after(&self, time: u64) -> u64 {
        self.flights.values().filter(|flight| flight.sent > time).count() as u64
    }
}

impl Returns {
    fn note(&mut self, at: u64, is_full: bool) {
        self.last = self.last.max(at);
        if is_full {
            self.last_full = self.last_full.max(at);
        }
    }
}

impl EngineTraffic {
    /// Creates the traffic of an engine that has sent nothing, and whose settings may change or not.
    pub fn new(settings: Settings, is_fixed: bool) -> Self {
        Self { settings, is_fixed, ..Self::default() }
    }

    pub fn class(&self, key: &Key) -> Class {
        let has = |name: &&&str| key.iter().any(|(other, _)| other == **name);
        let name = self.settings.identity.iter().find(has);
        let values = key.iter().filter(|(other, _)| name.is_some_and(|name| other == name));
        let identity = values.map(|(name, value)| format!("{name}={value} ")).collect();
        let path = key.iter().find(|(name, _)| name == ":path").map_or("", |(_, path)| path.as_str());
        Class { identity, waits: path.contains("refresh=wait_for") || path.contains("wait_for_active_shards=") }
    }

    pub fn may_be_apart(&self) -> bool {
        self.may_be_apart
    }

    /// Returns the time after which a batch to an upstream is late: sixteen times what the quickest batches take.
    /// Batches with the slow shard raise the engine's estimate by an eighth each, and the ninth and later ones by a
    /// sixty-fourth. An engine checks for late batches a few times in the shortest patience.
    fn patience(&self, slots: &SlotsKey) -> Patience {
        let Durations { longest, slow } = self.durations.get(slots).copied().unwrap_or_default();
        let least = self.settings.late_after();
        let rise = (9.0_f64 / 8.0).powi(slow.min(8)) * (65.0_f64 / 64.0).powi(slow.saturating_sub(8).max(0));
        let usual = (longest as f64).max(least as f64 / 16.0) * rise + f64::from(slow) / 1000.0;
        let patience = (usual * 16.0).ceil() as u64;
        Patience { least, most: patience.max(least).saturating_add(least / 16).saturating_add(2) }
    }

    /// Checks that a share held since `since` leaves in time. If only its own caller has batches in flight to the node,
    /// it must leave when its hold is ready. Other batches in flight delay it for an interval, and only those of its
    /// own identity for longer. If the share does not touch the slow shard, batches with it delay the share only until
    /// they are late.
    pub fn check_time(
        &self,
        batch: &Leaving,
        touches_slow: bool,
        since: u64,
        now: u64,
        late: u64,
    ) -> Result<(), Violation> {
        let Some(to) = batch.to.filter(|_| self.settings.retries == 0) else { return Ok(()) };
        let slots = (to.0.clone(), batch.class.waits);
        let patience = self.patience(&slots);
        let identity = self.by_identity.get(&(slots.clone(), batch.class.identity.clone()));
        let traffics = [self.by_caller.get(&(to.clone(), batch.caller)), self.by_upstream.get(&slots), identity];
        // As many late batches as there are slots give theirs back, and a further one once one of these returns.
        let (least, most) = (self.least_slots(&slots), self.settings.max_in_flight_per_node);
        let is_crowded = |all: &Traffic| all.late(now, patience) > most || all.crowded >= since;
        let is_crowded = self.by_upstream.get(&slots).is_some_and(is_crowded);
        let [own, all, mut of_identity] =
            traffics.map(|all| all.map(|all| all.view(now, patience)).unwrap_or_default());
        if is_crowded && of_identity.in_flight >= least {
            of_identity.returns.last_full = of_identity.returns.last_full.max(all.returns.last_full);
        }
        let (latest, was_full) = self.latest(since, least, [own, all, of_identity]);
        let promise = if was_full { Promise::Fairness } else { Promise::Interval };
        let violation = |latest: u64| {
            format!("a share held since {since} ms should have left for {} by {latest} ms", batch.upstream)
        };
        let latest = latest.saturating_add(late);
        Violation::unless(now <= latest, promise, || violation(latest))?;
        if touches_slow || is_crowded {
            return Ok(());
        }
        let of_others =
            |traffic: Option<&Traffic>| traffic.map(|all| all.view_of_others(now, patience)).unwrap_or_default();
        let latest = self.latest(since, least, traffics.map(of_others)).0.saturating_add(late);
        Violation::unless(now <= latest, Promise::SlowShards, || violation(latest))
    }

    /// Returns the number of slots that an upstream has at least.
    fn least_slots(&self, slots: &SlotsKey) -> u64 {
        let initial = INITIAL_SLOTS.min(self.settings.max_in_flight_per_node);
        if self.overloaded.contains(slots) { 1 } else { initial }
    }

    /// Notes that an upstream may have been overloaded.
    pub fn note_overload(&mut self, upstream: &str, class: &Class) {
        self.overloaded.insert((upstream.to_owned(), class.waits));
    }

    /// Returns by when a share held since `since` must leave, and whether all slots were in use, of which there are at
    /// least `least`.
    fn latest(&self, since: u64, least: u64, [own, all, identity]: [View; 3]) -> (u64, bool) {
        if self.may_be_apart && own.in_flight >= self.settings.max_in_flight {
            // It waited for these, until it was held apart.
            return (u64::MAX, false);
        }
        let ready = match self.settings.early_release && own.in_flight == 0 {
            true => since.max(own.returns.last).max(own.returns.gathered),
            false => since.saturating_add(self.settings.interval).max(own.returns.last_full),
        };
        let was_full = all.in_flight >= least || all.returns.last_full >= ready;
        let mut latest = ready;
        if was_full && identity.in_flight >= least {
            // Its identity may have had as many batches in flight as there were slots, until their number rose.
            return (u64::MAX, true);
        }
        if was_full {
            latest = latest.max(since.saturating_add(self.settings.interval)).max(identity.returns.last_full);
        }
        (latest, was_full)
    }

    /// Checks the round-robin order of identities, and of the callers of each. While a caller with nothing in flight
    /// waits, each other caller of its identity goes first at most once, and once for each shard. Each other identity
    /// goes first once between any two batches of the caller's own. The order does not apply to what is held for an
    /// interval, nor to what is held apart.
    pub fn check_round_robin(&self, batch: &Leaving, since: u64, now: u64) -> Result<(), Violation> {
        let Some(to) = batch.to.filter(|_| !self.may_be_apart) else { return Ok(()) };
        let own = self.by_caller.get(&(to.clone(), batch.caller));
        let patience = self.patience(&(to.0.clone(), batch.class.waits));
        let own = own.map(|own| own.view(now, patience)).unwrap_or_default();
        // Held shares also wait for a batch that will be retried.
        if self.settings.retries > 0 || !self.settings.early_release || own.in_flight > 0 {
            return Ok(());
        }
        let start = since.max(own.returns.last).max(own.returns.gathered);
        let slots = (to.0.clone(), batch.class.waits);
        let (mut callers, mut identities) = (BTreeSet::new(), BTreeSet::new());
        let latest = self.left.iter().rev().take_while(|left| left.at > start);
        for left in latest.filter(|left| left.slots == slots && left.at < now) {
            if left.identity == batch.class.identity {
                identities.clear();
            }
            let is_first = left.is_overdue
                || match &left.sent {
                    _ if left.identity != batch.class.identity => identities.insert(&left.identity),
                    Some((other_to, other)) => {
                        (other_to, *other) == (to, batch.caller) || callers.insert((other_to, *other))
                    }
                    None => true,
                };
            Violation::unless(is_first, Promise::RoundRobin, || {
                format!("{left:?} went twice while caller {} was waiting since {start} ms", batch.caller)
            })?;
        }
        Ok(())
    }

    /// Checks that a batch with the slow shard has no share of another request that does not touch that shard, once the
    /// shard is known to be slow.
    pub fn check_mixture(&self, batch: &Leaving, is_mixed: bool) -> Result<(), Violation> {
        let is_known = self.is_slow_known.get(usize::from(batch.class.waits)).is_some_and(|is_known| *is_known);
        let is_caught = is_known && is_mixed && batch.to.is_some();
        Violation::unless(!is_caught, Promise::SlowShards, || {
            format!("a batch for {} has the slow shard and others, long after it became slow", batch.upstream)
        })
    }

    /// Records that a batch leaves. A retry counts only for its upstream and its identity, and so does a batch whose
    /// shard is unknown here. No identity may exceed the slots. All together may exceed them only with batches held for
    /// an interval. Late batches count no longer, as many as there are slots.
    pub fn sent(&mut self, batch: &Leaving, now: u64) -> Result<(), Violation> {
        let Leaving { key, upstream, class, .. } = batch;
        let slots = ((*upstream).to_owned(), class.waits);
        let most = self.settings.max_in_flight_per_node;
        let is_overdue = batch.since.saturating_add(self.settings.interval) <= now;
        let flight = Flight { sent: now, is_slow: batch.is_slow, is_alone: batch.is_alone };
        let young = now.saturating_sub(self.settings.late_after());
        // At the beginning, all batches are young.
        let count = |traffic: &Traffic| match now < self.settings.late_after() {
            true => traffic.flights.len() as u64,
            false => traffic.sent_after(young),
        };
        let all = self.by_upstream.entry(slots.clone()).or_default();
        all.flights.insert(*key, flight);
        let of_all = count(all);
        let identity = self.by_identity.entry((slots.clone(), class.identity.clone())).or_default();
        identity.flights.insert(*key, flight);
        let (found, total) = (count(identity), identity.flights.len() as u64);
        let detail = |found: u64, whom: &str| format!("{found} batches are in flight to {upstream} {whom}");
        Violation::unless(found <= most, Promise::Bounds, || detail(found, "for one identity"))?;
        let is_kept = total <= most.saturating_mul(2);
        Violation::unless(is_kept, Promise::Bounds, || detail(total, "for one identity, late ones included"))?;
        let is_kept = of_all <= most || is_overdue || !self.is_fixed;
        Violation::unless(is_kept, Promise::Bounds, || detail(of_all, "in total"))?;
        let sent = batch.to.map(|to| (to.clone(), batch.caller));
        self.left.push(Left { at: now, slots, identity: class.identity.clone(), sent: sent.clone(), is_overdue });
        let Some((to, caller)) = sent else { return Ok(()) };
        let own = self.by_caller.entry((to.clone(), caller)).or_default();
        own.flights.insert(*key, flight);
        let own = own.flights.len() as u64;
        Violation::unless(own <= self.settings.max_in_flight || self.may_be_apart, Promise::Bounds, || {
            format!("{own} batches of one caller are in flight to {to:?}")
        })
    }

    /// Returns whether more batches are in flight to an upstream than it has slots.
    pub fn is_beyond_slots(&self, upstream: &str, class: &Class) -> bool {
        let all = self.by_upstream.get(&(upstream.to_owned(), class.waits));
        all.is_some_and(|all| all.flights.len() as u64 > self.settings.max_in_flight_per_node)
    }

    /// Records that a batch returned.
    pub fn back(
        &mut self,
        key: CallKey,
        upstream: &str,
        to: Option<&Destination>,
        caller: CallerNumber,
        class: &Class,
        now: u64,
    ) {
        self.note_late(now);
        let slots = (upstream.to_owned(), class.waits);
        let (least, patience) = (self.least_slots(&slots), self.patience(&slots));
        if let Some(all) = self.by_upstream.get_mut(&slots) {
            if let Some(flight) = all.flights.get(&key) {
                let durations = self.durations.entry(slots.clone()).or_default();
                match flight.is_slow {
                    true => durations.slow = durations.slow.saturating_add(1),
                    false => durations.longest = durations.longest.max(now.saturating_sub(flight.sent)),
                }
            }
            all.back(key, least, now, patience, &self.settings);
        }
        if let Some(identity) = self.by_identity.get_mut(&(slots, class.identity.clone())) {
            identity.back(key, least, now, patience, &self.settings);
        }
        if let Some(own) = to.and_then(|to| self.by_caller.get_mut(&(to.clone(), caller))) {
            own.back(key, self.settings.max_in_flight, now, patience, &self.settings);
        }
    }

    /// Notes which batches in flight may be late, and whether the slow shard is certainly known: once a batch with it
    /// alone is late. Before, a quick batch of another shard with the same bit may clear it.
    pub fn note_late(&mut self, now: u64) {
        let least = self.settings.late_after();
        for (slots, traffic) in &self.by_upstream {
            let patience = self.patience(slots);
            for flight in traffic.flights.values() {
                self.may_be_apart |= flight.sent.saturating_add(least) <= now;
                let is_known = flight.is_alone && flight.sent.saturating_add(patience.most) < now;
                self.is_slow_known.get_mut(usize::from(slots.1)).into_iter().for_each(|known| *known |= is_known);
            }
        }
    }
}
