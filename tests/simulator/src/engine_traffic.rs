use std::collections::{BTreeMap, BTreeSet};

use crate::client::Key;
use crate::scenario::Settings;
use crate::violation::{Promise, Violation};

/// The traffic of one engine, with the times since when something else could have left.
#[derive(Debug)]
pub struct EngineTraffic {
    /// The settings that the engine should follow.
    pub settings: Settings,
    by_upstream: BTreeMap<SlotsKey, Traffic>,
    by_identity: BTreeMap<(SlotsKey, String), Traffic>,
    by_caller: BTreeMap<(Destination, CallerNumber), Traffic>,
    /// The batches that left, in order.
    left: Vec<Left>,
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
    /// The identity of the caller.
    pub identity: String,
    /// Whether the cluster is asked to wait.
    pub waits: bool,
}

/// A batch that leaves.
#[derive(Debug, Clone)]
pub struct Leaving<'a> {
    /// The upstream.
    pub upstream: &'a str,
    /// The upstream and the shard, if this is the first attempt and the shard is certain.
    pub to: Option<&'a Destination>,
    /// The caller.
    pub caller: CallerNumber,
    /// The class of slots that it takes.
    pub class: &'a Class,
    /// The time since when the oldest part of it may be held.
    pub since: u64,
}

/// A batch that left.
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

#[derive(Debug, Default, Clone, Copy)]
struct Traffic {
    in_flight: u64,
    /// The time when the last batch returned.
    last_back: u64,
    /// The time when the last batch returned while the maximum number was in flight.
    last_full: u64,
}

impl Traffic {
    fn back(&mut self, most: u64, now: u64) {
        self.last_back = now;
        if self.in_flight >= most {
            self.last_full = now;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
    }
}

impl EngineTraffic {
    /// Creates the traffic of an engine that has sent nothing.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            by_upstream: BTreeMap::new(),
            by_identity: BTreeMap::new(),
            by_caller: BTreeMap::new(),
            left: Vec::new(),
        }
    }

    /// Returns the class of slots of a caller with these headers.
    pub fn class(&self, key: &Key) -> Class {
        let has = |name: &&&str| key.iter().any(|(other, _)| other == **name);
        let name = self.settings.identity.iter().find(has);
        let values = key.iter().filter(|(other, _)| name.is_some_and(|name| other == name));
        let identity = values.map(|(name, value)| format!("{name}={value} ")).collect();
        let path = key.iter().find(|(name, _)| name == ":path").map_or("", |(_, path)| path.as_str());
        Class { identity, waits: path.contains("refresh=wait_for") || path.contains("wait_for_active_shards=") }
    }

    /// Checks that a share held since `since` leaves in time. If only its own caller has batches in flight to the node,
    /// it must leave when its hold is ready. Other batches in flight delay it for an interval, and only those of its
    /// own identity for longer.
    pub fn check_time(&self, batch: &Leaving, since: u64, now: u64, late: u64) -> Result<(), Violation> {
        let Some(to) = batch.to.filter(|_| self.settings.retries == 0) else { return Ok(()) };
        let slots = (to.0.clone(), batch.class.waits);
        let own = self.own(to, batch.caller);
        let ready = match self.settings.early_release && own.in_flight == 0 {
            true => since.max(own.last_full).max(self.gathered(own)),
            false => since.saturating_add(self.settings.interval).max(own.last_full),
        };
        let all = self.by_upstream.get(&slots).copied().unwrap_or_default();
        let was_full = all.in_flight >= self.settings.max_in_flight_per_node || all.last_full >= ready;
        let mut latest = ready;
        if was_full {
            let identity = self.by_identity.get(&(slots, batch.class.identity.clone())).copied().unwrap_or_default();
            latest = latest.max(since.saturating_add(self.settings.interval)).max(identity.last_full);
        }
        let promise = if was_full { Promise::Fairness } else { Promise::Interval };
        let latest = latest.saturating_add(late);
        Violation::unless(now <= latest, promise, || {
            format!("a share held since {since} ms should have left for {} by {latest} ms", batch.upstream)
        })
    }

    /// Checks the round-robin order of identities, and of the callers of each. While a caller with nothing in flight
    /// waits, each other caller of its identity goes first at most once, and once for each shard. Each other identity
    /// goes first once between any two batches of the caller's own. The order does not apply to what is held for an
    /// interval.
    pub fn check_round_robin(&self, batch: &Leaving, since: u64, now: u64) -> Result<(), Violation> {
        let Some(to) = batch.to else { return Ok(()) };
        let own = self.own(to, batch.caller);
        // Held shares also wait for a batch that will be retried.
        if self.settings.retries > 0 || !self.settings.early_release || own.in_flight > 0 {
            return Ok(());
        }
        let start = since.max(self.gathered(own));
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

    fn own(&self, to: &Destination, caller: CallerNumber) -> Traffic {
        self.by_caller.get(&(to.clone(), caller)).copied().unwrap_or_default()
    }

    /// Returns until when shares that were held when a batch returned may wait for the returning clients.
    fn gathered(&self, own: Traffic) -> u64 {
        own.last_back.saturating_add(self.settings.gather)
    }

    /// Records that a batch leaves. A retry counts only for its upstream and its identity, and so does a batch whose
    /// shard is unknown here. No identity may exceed the slots. All together may exceed them only with batches held for
    /// an interval. If settings may change, the length of the interval is unknown.
    pub fn sent(&mut self, batch: &Leaving, now: u64, is_fixed: bool) -> Result<(), Violation> {
        let Leaving { upstream, class, .. } = batch;
        let slots = ((*upstream).to_owned(), class.waits);
        let most = self.settings.max_in_flight_per_node;
        let is_overdue = batch.since.saturating_add(self.settings.interval) <= now;
        let all = self.by_upstream.entry(slots.clone()).or_default();
        all.in_flight = all.in_flight.saturating_add(1);
        let identity = self.by_identity.entry((slots.clone(), class.identity.clone())).or_default();
        identity.in_flight = identity.in_flight.saturating_add(1);
        let detail = |found: u64, whom: &str| format!("{found} batches are in flight to {upstream} {whom}");
        let (found, of_all) = (identity.in_flight, all.in_flight);
        Violation::unless(found <= most, Promise::Bounds, || detail(found, "for one identity"))?;
        let is_kept = of_all <= most || is_overdue || !is_fixed;
        Violation::unless(is_kept, Promise::Bounds, || detail(of_all, "in total"))?;
        let sent = batch.to.map(|to| (to.clone(), batch.caller));
        self.left.push(Left { at: now, slots, identity: class.identity.clone(), sent: sent.clone(), is_overdue });
        let Some((to, caller)) = sent else { return Ok(()) };
        let own = self.by_caller.entry((to.clone(), caller)).or_default();
        own.in_flight = own.in_flight.saturating_add(1);
        Violation::unless(own.in_flight <= self.settings.max_in_flight, Promise::Bounds, || {
            format!("{} batches of one caller are in flight to {to:?}", own.in_flight)
        })
    }

    /// Returns whether more batches are in flight to an upstream than it has slots.
    pub fn is_beyond_slots(&self, upstream: &str, class: &Class) -> bool {
        let all = self.by_upstream.get(&(upstream.to_owned(), class.waits));
        all.is_some_and(|all| all.in_flight > self.settings.max_in_flight_per_node)
    }

    /// Records that a batch returned.
    pub fn back(&mut self, upstream: &str, to: Option<&Destination>, caller: CallerNumber, class: &Class, now: u64) {
        let most = self.settings.max_in_flight_per_node;
        let slots = (upstream.to_owned(), class.waits);
        if let Some(all) = self.by_upstream.get_mut(&slots) {
            all.back(most, now);
        }
        if let Some(identity) = self.by_identity.get_mut(&(slots, class.identity.clone())) {
            identity.back(most, now);
        }
        if let Some(own) = to.and_then(|to| self.by_caller.get_mut(&(to.clone(), caller))) {
            own.back(self.settings.max_in_flight, now);
        }
    }
}
