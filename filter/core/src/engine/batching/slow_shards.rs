use super::queue::SlotsKey;
use super::shards::Shards;
use crate::Time;
use crate::invariant::Count;

/// The shards that may be slow. Operations for them wait in holds of their own, so that no other operation waits for
/// them.
///
/// A batch is late when it is out for much longer than its node's batches usually are. All shards in it are suspects
/// then. A suspect is cleared when a batch of it alone is quick, and as much time has passed since its last late batch as
/// that one took.
#[derive(Debug)]
pub struct SlowShards {
    /// `hold.late_after`.
    least: Time,
    /// The time that batches usually take, by the number of the slots' group. `None` if none was answered.
    usual: Vec<Option<Usual>>,
    /// Of requests that get an answer as soon as possible, and of those that ask the cluster to wait.
    suspects: [Suspects; 2],
}

/// The suspects among the shards of all nodes.
#[derive(Debug)]
struct Suspects {
    shards: Shards,
    /// The number of late batches in flight of each bit alone.
    late: [u32; Shards::BITS],
    /// The time from which each bit may be cleared.
    until: [Time; Shards::BITS],
}

/// The time that batches usually take: about the quickest eighth of them.
#[derive(Debug, Clone, Copy)]
struct Usual {
    time: Time,
    /// The number of first batches that are still to come.
    first: u32,
}

/// The suspects at one moment, for requests that do not ask the cluster to wait and for those that do. A request keeps
/// those of its beginning, so that its operations on one document stay together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Apart([Shards; 2]);

/// The number of groups of slots for which there is room from the start.
const INITIAL_GROUPS: usize = 64;

/// A batch is late after this many times what the quickest eighth of its node's batches take. Batches of different sizes
/// differ by less.
const LATE_FACTOR: u32 = 16;

/// The estimate falls by an eighth of itself with each quicker batch, and rises by a sixty-fourth with each slower one.
/// So it only rises while fewer than one batch in eight is quicker: one slow shard does not make its node a slow one. The
/// first batches raise it by an eighth each, so that the filter soon knows a node whose batches all take long.
const FALL_DIVISOR: u32 = 8;
const RISE_DIVISOR: u32 = 64;
const FIRST_RISE_DIVISOR: u32 = 8;

impl SlowShards {
    /// Starts without suspects.
    pub fn new(least: Time) -> Self {
        let none = || Suspects { shards: Shards::NONE, late: [0; Shards::BITS], until: [Time::ZERO; Shards::BITS] };
        Self { least, usual: Vec::with_capacity(INITIAL_GROUPS), suspects: [none(), none()] }
    }

    /// Applies a new `hold.late_after`.
    pub fn configure(&mut self, least: Time) {
        self.least = least;
    }

    /// Returns the time after which a batch that takes these slots is late.
    pub fn patience(&self, slots: SlotsKey) -> Time {
        let usual = self.usual.get(slots.number()).copied().flatten();
        usual.map_or(self.least, |usual| self.least.max(usual.time.saturating_mul(LATE_FACTOR)))
    }

    /// Returns the suspects now.
    pub fn apart(&self) -> Apart {
        Apart(self.suspects.each_ref().map(|suspects| suspects.shards))
    }

    /// Notes how long an answered batch took.
    pub fn answered(&mut self, slots: SlotsKey, time: Time) {
        let number = slots.number();
        if number >= self.usual.len() {
            self.usual.resize(number.saturating_add(1), None);
        }
        let Some(usual) = self.usual.get_mut(number) else { return };
        // The first batch may be a slow one, so the filter does not take its time as the estimate.
        let usual = usual.get_or_insert(Usual { time: self.least / LATE_FACTOR, first: FIRST_RISE_DIVISOR });
        let before = usual.time;
        let part = if usual.first > 0 { FALL_DIVISOR } else { RISE_DIVISOR };
        usual.time = match time < before {
            true => time.max(before.saturating_sub(before / FALL_DIVISOR)),
            false => time.min(before.saturating_add(before / part).saturating_add(Time::from_micros(1))),
        };
        usual.first = usual.first.saturating_sub(1);
    }

    /// Suspects the shards of a late batch.
    pub fn suspect(&mut self, waits: bool, shards: Shards) {
        self.of(waits).shards.add(shards);
    }

    /// Notes that a batch of suspects alone is late.
    pub fn late(&mut self, waits: bool, shards: Shards) {
        let suspects = self.of(waits);
        suspects.shards.add(shards);
        for (bit, _) in shards.bits() {
            suspects.late.get_mut(bit).into_iter().for_each(|late| *late = late.plus(1, "memory bounds the batches"));
        }
    }

    /// Notes that a late batch of suspects alone, which took this long, is over.
    pub fn late_is_over(&mut self, waits: bool, shards: Shards, time: Time, now: Time) {
        let suspects = self.of(waits);
        for (bit, _) in shards.bits() {
            suspects.late.get_mut(bit).into_iter().for_each(|late| *late = late.minus(1, "it was late"));
            suspects.until.get_mut(bit).into_iter().for_each(|until| *until = (*until).max(now.saturating_add(time)));
        }
    }

    /// Clears the suspects of which a batch of them alone was quick.
    pub fn quick(&mut self, waits: bool, shards: Shards, now: Time) {
        let suspects = self.of(waits);
        if !suspects.shards.meets(shards) {
            return;
        }
        let may_be_cleared = |bit: &usize| {
            suspects.late.get(*bit).is_some_and(|late| *late == 0)
                && suspects.until.get(*bit).is_some_and(|at| *at <= now)
        };
        let cleared: Shards = shards.bits().filter(|(bit, _)| may_be_cleared(bit)).map(|(_, one)| one).collect();
        suspects.shards.remove(cleared);
    }

    fn of(&mut self, waits: bool) -> &mut Suspects {
        let [prompt, waiting] = &mut self.suspects;
        if waits { waiting } else { prompt }
    }
}

impl Apart {
    /// Returns the suspects among the shards of operations for which the cluster is asked to wait, or is not.
    pub fn of(self, waits: bool) -> Shards {
        let Self([prompt, waiting]) = self;
        if waits { waiting } else { prompt }
    }
}
