use crate::Time;
use crate::config::ClusterStateConfig;

/// When the cluster is polled, and when the cache checks what the other workers have published.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// `cluster_state.refresh`.
    interval: Time,
    stale_after: Time,
    /// The time after which the unchanged lease of another worker is free.
    patience: Time,
    /// The time when the state was last known to be the latest; before that, the time of the start.
    fresh_at: Time,
    /// Whether a whole state was ever read.
    has_succeeded: bool,
    /// Whether a bulk request has arrived.
    serves: bool,
    cycle_due: Time,
    check_due: Time,
    /// Whether a hint of a change has arrived since the last cycle began.
    is_hinted: bool,
    /// The earliest time at which a hint may start a cycle again.
    next_early_cycle: Time,
    /// The number of consecutive searches that found none of the wanted names.
    misses: u32,
    /// The time of the next search for the wanted names if the state does not change.
    next_search: Time,
    /// The signature of the aliases before the last cycle.
    alias_signature: u64,
    /// When the aliases are read once more, after they have changed.
    confirmation_due: Option<Time>,
}

/// The divisor of the interval that gives the shortest time between two cycles caused by hints, and its upper limit.
const HURRIES_PER_INTERVAL: u32 = 5;
const LONGEST_HURRY: Time = Time::from_secs(1);

/// The time in which queries that cannot be sent are repeated soon, before the first one is answered, and how often.
const START: Time = Time::from_secs(3);
const ATTEMPTS_AT_START: u32 = 15;

/// How many times in an interval a worker checks what the others have published.
const CHECKS_PER_INTERVAL: u32 = 10;

/// The longest time between checks until a state is known.
const LONGEST_FIRST_CHECK: Time = Time::from_millis(500);

/// The longest time between searches for wanted names while the state does not change and none is found. Each search
/// reads an overview of a very large number of indices.
const LONGEST_SEARCH: Time = Time::from_secs(300);

/// How long a node may take to follow a change of the state: the defaults of `cluster.publish.timeout` and
/// `cluster.follower_lag.timeout`. Then it is removed from the cluster.
const LONGEST_LAG: Time = Time::from_secs(120);

impl Schedule {
    /// Starts with everything due.
    pub fn new(config: &ClusterStateConfig) -> Self {
        Self {
            interval: config.refresh,
            stale_after: config.stale_after,
            patience: config.timeout.saturating_mul(2),
            fresh_at: Time::ZERO,
            has_succeeded: false,
            serves: false,
            cycle_due: Time::ZERO,
            check_due: Time::ZERO,
            is_hinted: false,
            next_early_cycle: Time::ZERO,
            misses: 0,
            next_search: Time::ZERO,
            alias_signature: 0,
            confirmation_due: None,
        }
    }

    /// Starts polling.
    pub fn wake(&mut self, now: Time) {
        (self.cycle_due, self.check_due, self.fresh_at) = (now, now, now);
    }

    /// Notes that a bulk request has arrived.
    pub fn serve(&mut self) {
        self.serves = true;
    }

    /// Returns whether a bulk request has arrived.
    pub fn serves(&self) -> bool {
        self.serves
    }

    /// Returns whether polls have started only just now: Envoy's clusters may not have their hosts yet.
    pub fn is_starting(&self, now: Time) -> bool {
        !self.has_succeeded && now < self.fresh_at.saturating_add(START)
    }

    /// Plans the next attempt of a cycle that failed for a passing reason.
    pub fn plan_soon(&mut self, now: Time) {
        self.cycle_due = now.saturating_add(START / ATTEMPTS_AT_START);
    }

    /// Returns when a cycle or a check is due.
    pub fn due(&self) -> Time {
        self.cycle_due.min(self.check_due)
    }

    /// Returns whether a cycle is due.
    pub fn is_cycle_due(&self, now: Time) -> bool {
        self.cycle_due <= now
    }

    /// Returns whether the state was not known to be the latest for longer than `cluster_state.stale_after` allows.
    pub fn is_stale(&self, now: Time) -> bool {
        now >= self.fresh_at.saturating_add(self.interval).saturating_add(self.stale_after)
    }

    /// Starts the next cycle soon, because of a hint of a change. The rate of such cycles is limited.
    pub fn hint(&mut self, now: Time) {
        if !self.is_hinted {
            self.is_hinted = true;
            self.cycle_due = self.cycle_due.min(now.max(self.next_early_cycle));
        }
    }

    /// Plans the next check, after one. As long as no state is known, checks are not rare even if the interval is long.
    pub fn checked(&mut self, now: Time) {
        let pause = self.interval / CHECKS_PER_INTERVAL;
        self.check_due = now.saturating_add(if self.has_succeeded { pause } else { pause.min(LONGEST_FIRST_CHECK) });
    }

    /// Checks again at once, after the parts that others had published were taken over.
    pub fn check_now(&mut self, now: Time) {
        self.check_due = now;
    }

    /// Returns whether another worker that has the lease is still polling, given how long the lease has been unchanged.
    pub fn is_patient(&self, age: Option<Time>) -> bool {
        age.is_none_or(|age| age < self.patience)
    }

    /// Lets the cycle wait at least until the next check, because another worker polls.
    pub fn wait_for_other(&mut self) {
        self.cycle_due = self.cycle_due.max(self.check_due);
    }

    /// Notes that a cycle begins. `is_partial` is whether only the wanted indices are loaded.
    pub fn begin(&mut self, now: Time, is_partial: bool) {
        if std::mem::take(&mut self.is_hinted) {
            self.next_early_cycle = now.saturating_add(self.gap(is_partial));
        }
    }

    /// Returns whether a cycle has to read the aliases, which have this signature, once more. Nodes answer for aliases
    /// from their own copies, without a version, so the first answer after a change may be older than the change.
    pub fn is_confirmation_due(&mut self, alias_signature: u64, now: Time) -> bool {
        if self.alias_signature != alias_signature {
            self.alias_signature = alias_signature;
            self.confirmation_due = Some(now.saturating_add(LONGEST_LAG));
        }
        self.confirmation_due.is_some_and(|due| due <= now)
    }

    /// Notes that the aliases were read once more.
    pub fn confirmed(&mut self) {
        self.confirmation_due = None;
    }

    /// Notes that this or another worker has read the whole state.
    pub fn succeeded(&mut self, now: Time) {
        (self.fresh_at, self.has_succeeded) = (now, true);
    }

    /// Plans the next cycle after one of this or another worker. Workers that must find a change in the shared data thus
    /// also see it within the interval. A worker without requests leaves the cycle to others: Envoy's main thread is one.
    pub fn plan(&mut self, now: Time) {
        let earlier = if self.serves { self.interval / CHECKS_PER_INTERVAL } else { Time::ZERO };
        self.plan_after(self.interval.saturating_sub(earlier), now);
    }

    fn plan_after(&mut self, pause: Time, now: Time) {
        self.cycle_due = if self.is_hinted { now.max(self.next_early_cycle) } else { now.saturating_add(pause) };
    }

    /// Plans the next cycle after one of this worker. Other workers may be waiting for the lease.
    pub fn plan_after_own(&mut self, now: Time, is_partial: bool) {
        self.plan(now);
        if self.is_hinted {
            self.cycle_due = self.cycle_due.max(now.saturating_add(self.gap(is_partial)));
        }
    }

    /// Plans the next cycle after one that failed.
    pub fn plan_after_failure(&mut self, now: Time) {
        self.plan_after(self.interval, now);
    }

    /// Returns whether the wanted names are searched even if the state has not changed.
    pub fn is_search_due(&self, now: Time) -> bool {
        self.next_search <= now
    }

    /// Notes whether a search has found a wanted name. Clients choose these names, so searches that find none become
    /// rarer. A new index is still found at once, because its creation changes the state.
    pub fn searched(&mut self, is_found: bool, now: Time) {
        if is_found {
            (self.misses, self.next_search) = (0, now);
        } else {
            self.misses = self.misses.saturating_add(1);
            self.next_search = now.saturating_add(self.backed_off(LONGEST_SEARCH));
        }
    }

    /// Returns the shortest time between two cycles caused by hints. With very many indices each cycle may read an
    /// overview of all of them. Hints from nonexistent names therefore cause cycles ever more rarely, and finally none.
    fn gap(&self, is_partial: bool) -> Time {
        match is_partial {
            true => self.backed_off(self.interval),
            false => self.shortest(),
        }
    }

    /// Returns the pause between searches. It doubles with each search that found none of the wanted names.
    fn backed_off(&self, most: Time) -> Time {
        self.shortest().saturating_mul(2_u32.saturating_pow(self.misses)).min(most)
    }

    fn shortest(&self) -> Time {
        (self.interval / HURRIES_PER_INTERVAL).min(LONGEST_HURRY)
    }
}
