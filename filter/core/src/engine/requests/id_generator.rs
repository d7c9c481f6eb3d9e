use super::shard_chooser::ShardChooser;
use crate::Time;
use crate::bulk::DocumentId;
use crate::hash::AsciiPrefix;
use crate::invariant::{Count, part};
use crate::routing::Formula;

/// The start time and the identity of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The wall-clock time since 1970 at which the engine's time was zero.
    pub since_epoch: Time,
    /// A random value, different for each VM, worker and restart.
    pub vm: [u8; 6],
}

impl Origin {
    /// Returns the VM's random value as a number.
    pub fn number(self) -> u64 {
        self.vm.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

/// Generates unique document ids.
///
/// ```text
/// milliseconds since 1970 (6 bytes) │ this VM (6 bytes) │ counter (3 bytes)
/// ```
/// The most significant bytes come first, so that ids sort by age. Unlike its own ids, the cluster has to look up an id
/// from the filter before it writes the document. With sorted ids, one comparison suffices for a segment whose last id
/// is older than the one in question.
///
/// The common prefix of neighbours in Lucene's term dictionary is stored only once. With 60,000 documents on real
/// nodes, an id in this order takes 117 bytes. It takes 186 bytes with the VM first, and 199 bytes in the order of a
/// cluster's own ids, which also costs a quarter more CPU.
#[derive(Debug, Clone)]
pub struct IdGenerator {
    origin: Origin,
    /// Milliseconds since 1970. Never decreases.
    millis: u64,
    counter: u32,
    /// How many ids may still be drawn in this callback to find those that lead to a shard.
    draws: u32,
    /// The chooser of the shards to which ids lead.
    pub shards: ShardChooser,
}

/// The number of values of the three-byte counter.
const COUNTER_VALUES: u32 = 1 << 24;

/// The number of values of the end of an id: its last two characters, the last 12 bits of the counter.
const END_VALUES: u32 = 1 << 12;

/// The maximum number of ids that are drawn in one callback to find those that lead to a shard. Natively, this many take
/// a millisecond.
const MAX_DRAWS: u32 = 1 << 18;

impl IdGenerator {
    /// Creates the generator for an engine with this origin.
    pub fn new(origin: Origin) -> Self {
        let shards = ShardChooser::new(origin.number());
        let mut ids = Self { origin, millis: 0, counter: 0, draws: 0, shards };
        ids.advance(Time::ZERO);
        ids
    }

    /// Returns the wall-clock time since 1970 at which the engine's time was zero.
    pub fn since_epoch(&self) -> Time {
        self.origin.since_epoch
    }

    /// Advances to this time of the engine.
    pub fn advance(&mut self, now: Time) {
        let millis = self.origin.since_epoch.saturating_add(now).as_millis();
        self.millis = self.millis.max(u64::try_from(millis).unwrap_or(u64::MAX));
        self.draws = MAX_DRAWS;
    }

    /// Returns a new, unique id that leads to this shard. One in as many ids as there are shards does, so the filter draws
    /// ids until it finds one. Returns `None` if it has drawn too many in this callback.
    pub fn next_for(&mut self, formula: Formula, shard: u32) -> Option<DocumentId> {
        let wanted = formula.remainders(shard);
        while self.draws > 0 {
            let id = self.next();
            // The next counts change only the end of the id, so that the rest is hashed once for all of them.
            let prefix = AsciiPrefix::of(id.beginning());
            let first = self.counter % END_VALUES;
            let most = END_VALUES.minus(first, "it is a remainder").min(self.draws);
            let leads_there = |more: &u32| {
                let end = DocumentId::end(first.saturating_add(*more) as u16);
                wanted.contains(&formula.remainder(prefix.hash(end, DocumentId::LENGTH)))
            };
            let found = (0..most).find(leads_there);
            let more = found.unwrap_or(most.saturating_sub(1));
            self.counter = self.counter.plus(more, "only its end changes");
            self.draws = self.draws.saturating_sub(more.saturating_add(1));
            if found.is_some() {
                return Some(id.with_end((self.counter % END_VALUES) as u16));
            }
        }
        None
    }

    /// Returns a new, unique id.
    pub fn next(&mut self) -> DocumentId {
        self.counter = self.counter.wrapping_add(1) % COUNTER_VALUES;
        if self.counter == 0 {
            // All counts of this millisecond may be used up, so the generator moves on to the next one early.
            self.millis = self.millis.saturating_add(1);
        }
        let mut bytes = [0; 15];
        let (time, rest) = bytes.split_at_mut(6);
        let (vm, counter) = rest.split_at_mut(6);
        let low = |value: u64, to: &mut [u8]| {
            let all = value.to_be_bytes();
            let from = all.len().minus(to.len(), "a number has eight bytes");
            to.copy_from_slice(part(&all, from.., "a number has eight bytes"));
        };
        low(self.millis, time);
        vm.copy_from_slice(&self.origin.vm);
        low(u64::from(self.counter), counter);
        DocumentId::new(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;
    use crate::routing::hash;

    const ORIGIN: Origin =
        Origin { since_epoch: Duration::from_millis(0x01a0_b0c0_d0e0), vm: *b"\x01\x02\x03\x04\x05\x06" };

    fn bytes(id: DocumentId) -> Vec<u8> {
        let mut bytes = vec![0; 15];
        assert_eq!(URL_SAFE_NO_PAD.decode_slice(id.as_str(), &mut bytes), Ok(15));
        bytes
    }

    #[test]
    fn ids_contain_time_vm_and_counter() {
        let mut ids = IdGenerator::new(ORIGIN);
        ids.advance(Duration::from_millis(1));
        assert_eq!(bytes(ids.next()), b"\x01\xa0\xb0\xc0\xd0\xe1\x01\x02\x03\x04\x05\x06\0\0\x01");
        ids.advance(Duration::from_millis(2));
        assert_eq!(bytes(ids.next()), b"\x01\xa0\xb0\xc0\xd0\xe2\x01\x02\x03\x04\x05\x06\0\0\x02");
    }

    #[test]
    fn ids_never_repeat_even_if_time_goes_back_or_stands_still() {
        let mut ids = IdGenerator::new(ORIGIN);
        let mut seen = HashSet::new();
        for millis in [5, 7, 6, 0, 7, 8, 5] {
            ids.advance(Duration::from_millis(millis));
            for _ in 0..1000 {
                assert!(seen.insert(ids.next()), "twice");
            }
        }
        // If time stands still until all counts are used up, the next millisecond begins early.
        let mut still = IdGenerator::new(ORIGIN);
        let first = still.next();
        still.counter = COUNTER_VALUES - 2;
        let made = [first, still.next(), still.next(), still.next()].map(bytes);
        assert!(made.is_sorted() && made[0] < made[1]);
        assert_eq!((&made[3][12..], made[3][5]), (&made[0][12..], made[0][5] + 1));
    }

    #[test]
    fn ids_differ_between_vms() {
        let other = Origin { vm: [9; 6], ..ORIGIN };
        assert_ne!(IdGenerator::new(ORIGIN).next(), IdGenerator::new(other).next());
    }

    #[test]
    fn ids_lead_to_the_shard_and_the_search_for_them_is_bounded() {
        let mut ids = IdGenerator::new(ORIGIN);
        let mut seen = HashSet::new();
        for (shards, routing_shards) in [(1, 1024), (6, 768), (600, 600)] {
            let formula = Formula::Factor { shards, routing_shards };
            for shard in (0..shards).step_by(1 + shards as usize / 10) {
                let id = ids.next_for(formula, shard).unwrap();
                assert_eq!(formula.shard(hash(id.as_str())), shard);
                assert!(seen.insert(id), "twice");
            }
        }
        let formula = Formula::Modulo { shards: 1000 };
        ids.advance(Duration::from_millis(1));
        let found = (0..10_000).map_while(|_| ids.next_for(formula, 3)).count();
        assert!((200..320).contains(&found), "{found}");
        assert_eq!(ids.next_for(formula, 3), None);
        ids.advance(Duration::from_millis(1));
        assert!(ids.next_for(formula, 3).is_some());
    }

    #[test]
    fn ids_sort_by_age() {
        let mut ids = IdGenerator::new(ORIGIN);
        let made: Vec<_> = (0..100)
            .map(|millis| {
                ids.advance(Duration::from_millis(millis / 3));
                bytes(ids.next())
            })
            .collect();
        assert!(made.is_sorted());
    }
}
