use std::collections::{BTreeMap, BTreeSet};

use crate::scenario::Settings;
use crate::violation::{Promise, Violation};

/// What is on its way for one engine, and since when something else could have left.
#[derive(Debug)]
pub struct Lanes {
    /// What the engine should keep to.
    pub settings: Settings,
    by_upstream: BTreeMap<String, Traffic>,
    by_caller: BTreeMap<(Destination, CallerNumber), Traffic>,
    /// When a batch left for where, sent for the first time, on whose behalf.
    left: Vec<(u64, Destination, CallerNumber)>,
}

/// An upstream and, with `dispatch.level: shard`, the index and the number of a shard.
pub type Destination = (String, Option<(&'static str, u32)>);

/// One for each different key of the clients.
pub type CallerNumber = usize;

#[derive(Debug, Default, Clone, Copy)]
struct Traffic {
    in_flight: u64,
    /// When one came back last.
    last_back: u64,
    /// When one came back last while as many were on their way as may be.
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

impl Lanes {
    /// Nothing is on its way.
    pub fn new(settings: Settings) -> Self {
        Self { settings, by_upstream: BTreeMap::new(), by_caller: BTreeMap::new(), left: Vec::new() }
    }

    /// Until when a share that is held since then may wait.
    pub fn latest(&self, to: &Destination, caller: CallerNumber, since: u64) -> u64 {
        // What is held also waits for a batch that is sent again later.
        if self.settings.retries > 0 {
            return u64::MAX;
        }
        let lane = self.by_upstream.get(&to.0).copied().unwrap_or_default();
        let own = self.by_caller.get(&(to.clone(), caller)).copied().unwrap_or_default();
        let blocked = lane.last_full.max(own.last_full);
        if self.settings.early_release && own.in_flight == 0 {
            since.max(blocked).max(self.gathered(own))
        } else {
            since.saturating_add(self.settings.interval).max(blocked)
        }
    }

    /// Callers take turns: while one waits that has nothing on its way, each other goes first once at most, and once
    /// for each shard.
    pub fn check_turn(&self, to: &Destination, caller: CallerNumber, since: u64) -> Result<(), Violation> {
        let own = self.by_caller.get(&(to.clone(), caller)).copied().unwrap_or_default();
        // What is held also waits for a batch that is sent again later.
        if self.settings.retries > 0 || !self.settings.early_release || own.in_flight > 0 {
            return Ok(());
        }
        let start = since.max(self.gathered(own));
        let mut before = BTreeSet::new();
        for (_, other_to, other) in self.left.iter().rev().take_while(|(at, ..)| *at > start) {
            let is_elsewhere = other_to.0 != to.0 || (other_to, *other) == (to, caller);
            let is_first = is_elsewhere || before.insert((other_to, *other));
            Violation::unless(is_first, Promise::Turns, || {
                format!("caller {other} went to {other_to:?} twice while caller {caller} was waiting since {start} ms")
            })?;
        }
        Ok(())
    }

    /// Until when what was held as a batch came back may wait for clients that come back too.
    fn gathered(&self, own: Traffic) -> u64 {
        own.last_back.saturating_add(self.settings.gather)
    }

    /// A batch leaves. One that is sent again counts for its upstream only, and so does one of which nobody here knows
    /// for which shard it is.
    pub fn sent(
        &mut self,
        upstream: &str,
        to: Option<&Destination>,
        caller: CallerNumber,
        now: u64,
    ) -> Result<(), Violation> {
        let lane = self.by_upstream.entry(upstream.to_owned()).or_default();
        lane.in_flight = lane.in_flight.saturating_add(1);
        let most = self.settings.max_in_flight_per_node;
        let found = lane.in_flight;
        let detail = |whom: &str| format!("{found} batches are on their way to {upstream} {whom}");
        Violation::unless(found <= most, Promise::Bounds, || detail("in all"))?;
        let Some(to) = to else { return Ok(()) };
        self.left.push((now, to.clone(), caller));
        let own = self.by_caller.entry((to.clone(), caller)).or_default();
        own.in_flight = own.in_flight.saturating_add(1);
        Violation::unless(own.in_flight <= self.settings.max_in_flight, Promise::Bounds, || {
            format!("{} batches of one caller are on their way to {to:?}", own.in_flight)
        })
    }

    /// A batch came back.
    pub fn back(&mut self, upstream: &str, to: Option<&Destination>, caller: CallerNumber, now: u64) {
        if let Some(lane) = self.by_upstream.get_mut(upstream) {
            lane.back(self.settings.max_in_flight_per_node, now);
        }
        if let Some(own) = to.and_then(|to| self.by_caller.get_mut(&(to.clone(), caller))) {
            own.back(self.settings.max_in_flight, now);
        }
    }
}
