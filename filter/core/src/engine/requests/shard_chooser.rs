use std::cell::RefCell;
use std::rc::Rc;

use hashbrown::HashMap;

use crate::invariant::{Count, found};
use crate::routing::UpstreamId;

/// Chooses the shard of operations for which the filter generates ids.
///
/// A node writes the operations of a batch shard by shard, and syncs each shard's log. So operations that arrive together
/// go to one shard of one node: the node for which the fewest bytes are on their way.
///
/// The shards of an index get equal amounts, by deficit round robin. Each shard has credit for [`QUANTUM`] bytes. Only
/// shards with credit are chosen, and when none of those that are available has any, all get more. So any two shards
/// that are available all the time get the same number of bytes, except for at most a quantum and the operations that are
/// being read.
#[derive(Debug)]
pub struct ShardChooser(Rc<RefCell<State>>);

#[derive(Debug, Clone)]
struct State {
    /// The bytes that each shard may get before all get more, by the number of the index.
    credits: HashMap<u32, Box<[i64]>>,
    /// The bytes of operations that are not answered yet, by the number of the upstream.
    loads: Vec<u64>,
    /// The number of shards in `credits`.
    shards: usize,
    /// Where the search for a shard begins, modulo the number of shards, so that workers begin with different shards.
    first: u64,
}

/// The upstream of the primary of each shard of an index; `None` if the shard has no usable one.
pub trait Shards: ExactSizeIterator<Item = Option<UpstreamId>> + Clone {}

impl<T: ExactSizeIterator<Item = Option<UpstreamId>> + Clone> Shards for T {}

/// The shards that were chosen for the operations of one request.
#[derive(Debug, Default)]
pub struct ChosenShards {
    /// The last entry of an index is the one that applies.
    list: Vec<ChosenShard>,
    /// The entry of the operation whose lines are not complete, and the offset of its first line.
    open: Option<(usize, u32)>,
}

/// A shard that was chosen for some operations of a request. Until it is dropped, its bytes count as on their way.
#[derive(Debug)]
struct ChosenShard {
    chooser: Rc<RefCell<State>>,
    index: u32,
    shard: u32,
    upstream: UpstreamId,
    bytes: u64,
    /// Whether the request was sent. If it was not, the shard gets its credit back.
    is_sent: bool,
}

/// The credit of a shard, in bytes. A batch for one shard costs a node about as much as 40 further documents, so batches
/// of some hundred documents save nearly all of it.
const QUANTUM: i64 = 256 << 10;

/// The bytes of a request after which another shard is chosen for its next operations, so that several nodes work on a
/// large request.
const PIECE: u64 = 64 << 10;

/// The maximum number of shards of an index for which the filter chooses: no cluster allows more by default.
const MAX_SHARDS: usize = 1024;

/// The maximum number of shards, of all indices, whose credit is remembered, in 8 bytes each. If there are more, all get
/// full credit again.
const MAX_CREDITS: usize = 16 << 10;

/// The maximum number of shards that are chosen for one request.
const MAX_CHOSEN: usize = 1024;

/// The reason why sums stay within bounds.
const WHY: &str = "memory bounds what is on its way";

impl ShardChooser {
    /// Starts with full credit for all shards. Workers have different numbers, so that they begin with different shards.
    pub fn new(worker: u64) -> Self {
        Self(Rc::new(RefCell::new(State { credits: HashMap::new(), loads: Vec::new(), shards: 0, first: worker })))
    }

    /// Chooses a shard of an index.
    fn choose(&self, index: u32, shards: impl Shards, is_slow: impl Fn(u32) -> bool) -> Option<ChosenShard> {
        let (shard, upstream) = self.0.borrow_mut().choose(index, shards, is_slow)?;
        let chooser = Rc::clone(&self.0);
        Some(ChosenShard { chooser, index, shard, upstream, bytes: 0, is_sent: false })
    }
}

/// A copy begins with the same amounts. What is chosen for it does not count for the original.
impl Clone for ShardChooser {
    fn clone(&self) -> Self {
        Self(Rc::new(RefCell::new(self.0.borrow().clone())))
    }
}

impl State {
    fn choose(&mut self, index: u32, shards: impl Shards, is_slow: impl Fn(u32) -> bool) -> Option<(u32, UpstreamId)> {
        let count = shards.len();
        if count > MAX_SHARDS {
            return None;
        }
        self.prepare(index, count);
        let Self { credits, loads, first, .. } = self;
        let first = first.checked_rem(count as u64)?;
        let credits = credits.get_mut(&index)?;
        let available = || (0..).zip(shards.clone()).filter_map(|(shard, upstream)| Some((shard, upstream?)));
        let credit_of = |credits: &[i64], shard: u32| credits.get(shard as usize).copied().unwrap_or(0);
        let most = available().map(|(shard, _)| credit_of(credits, shard)).max()?;
        if most <= 0 {
            let quanta = most.saturating_neg().checked_div(QUANTUM)?.saturating_add(1);
            let more = quanta.saturating_mul(QUANTUM);
            credits.iter_mut().for_each(|credit| *credit = credit.saturating_add(more).min(QUANTUM));
        }
        let with_credit = available().filter(|(shard, _)| credit_of(credits, *shard) > 0);
        let (shard, upstream) = with_credit.min_by_key(|(shard, upstream)| {
            // The shard that was chosen last at its node has the least credit, until that is used up.
            let load = loads.get(upstream.index()).copied().unwrap_or(0);
            let is_before_first = u64::from(*shard) < first;
            (is_slow(*shard), load, credit_of(credits, *shard), is_before_first, *shard)
        })?;
        loads.resize(loads.len().max(upstream.index().saturating_add(1)), 0);
        Some((shard, upstream))
    }

    /// Gives the shards of an index credit, if they have none yet.
    fn prepare(&mut self, index: u32, count: usize) {
        if self.credits.get(&index).is_some_and(|credits| credits.len() == count) {
            return;
        }
        if self.shards.saturating_add(count) > MAX_CREDITS {
            self.credits.clear();
            self.shards = 0;
        }
        let before = self.credits.insert(index, vec![QUANTUM; count].into());
        let before = before.map_or(0, |credits| credits.len());
        self.shards = self.shards.minus(before, "they were counted").plus(count, "it is bounded");
    }

    /// Counts bytes that are on their way to a shard.
    fn add(&mut self, chosen: &ChosenShard, bytes: u64) {
        let load = found(self.loads.get_mut(chosen.upstream.index()), "it was chosen by its load");
        load.into_iter().for_each(|load| *load = load.plus(bytes, WHY));
        let credit = self.credit(chosen);
        credit.into_iter().for_each(|credit| *credit = credit.saturating_sub_unsigned(bytes));
    }

    /// Counts bytes as no longer on their way.
    fn remove(&mut self, chosen: &ChosenShard) {
        let load = found(self.loads.get_mut(chosen.upstream.index()), "it was chosen by its load");
        load.into_iter().for_each(|load| *load = load.minus(chosen.bytes, "its bytes were added"));
        if !chosen.is_sent {
            let credit = self.credit(chosen);
            credit.into_iter().for_each(|credit| *credit = credit.saturating_add_unsigned(chosen.bytes).min(QUANTUM));
        }
    }

    fn credit(&mut self, chosen: &ChosenShard) -> Option<&mut i64> {
        self.credits.get_mut(&chosen.index)?.get_mut(chosen.shard as usize)
    }
}

impl ChosenShards {
    /// Returns the shard for the request's next operation on an index without an id, with the number of the choice. Avoids
    /// shards that are slow. Returns `None` if the filter does not choose one.
    pub fn next(
        &mut self,
        chooser: &ShardChooser,
        index: u32,
        shards: impl Shards,
        is_slow: impl Fn(u32) -> bool,
    ) -> Option<(usize, u32)> {
        let known = self.list.iter().enumerate().rfind(|(_, chosen)| chosen.index == index);
        let is_full = self.list.len() >= MAX_CHOSEN;
        match known.filter(|(_, chosen)| (chosen.bytes < PIECE || is_full) && chosen.has_credit()) {
            Some((number, chosen)) => return Some((number, chosen.shard)),
            None if is_full => return None,
            None => {}
        }
        let chosen = chooser.choose(index, shards, is_slow)?;
        let shard = chosen.shard;
        self.list.push(chosen);
        Some((self.list.len().minus(1, "it has one more"), shard))
    }

    /// Notes that the lines of an operation for the shard of this choice begin at this offset.
    pub fn begin_at(&mut self, number: usize, start: u32) {
        self.open = Some((number, start));
    }

    /// Notes that the lines of the last operation end at this offset.
    #[inline]
    pub fn end_at(&mut self, end: u32) {
        if let Some((number, start)) = self.open.take() {
            let bytes = end.minus(start, "lines end after their start");
            self.list.get_mut(number).into_iter().for_each(|chosen| chosen.add(u64::from(bytes)));
        }
    }

    /// Notes that the request is sent, so that its bytes use up credit.
    pub fn sent(&mut self) {
        self.list.iter_mut().for_each(|chosen| chosen.is_sent = true);
    }

    /// Returns the approximate memory use, in bytes.
    pub fn memory(&self) -> usize {
        self.list.capacity().saturating_mul(size_of::<ChosenShard>())
    }
}

impl ChosenShard {
    fn has_credit(&self) -> bool {
        self.chooser.borrow_mut().credit(self).is_some_and(|credit| *credit > 0)
    }

    fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.plus(bytes, WHY);
        self.chooser.borrow_mut().add(self, bytes);
    }
}

impl Drop for ChosenShard {
    fn drop(&mut self) {
        self.chooser.borrow_mut().remove(self);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::routing::Upstreams;

    const INDEX: u32 = 7;

    fn chooser() -> ShardChooser {
        ShardChooser::new(0)
    }

    /// Returns the upstreams of shards that are distributed over this many nodes in turn.
    fn shards(count: usize, nodes: usize) -> Vec<Option<UpstreamId>> {
        let mut upstreams = Upstreams::new("es");
        (0..count).map(|shard| Some(upstreams.intern(&format!("es-{}", shard % nodes)).unwrap())).collect()
    }

    /// Chooses for operations of these lengths, one after the other. Returns the request and its shards.
    fn request(chooser: &ShardChooser, shards: &[Option<UpstreamId>], lengths: &[u32]) -> (ChosenShards, Vec<u32>) {
        request_avoiding(chooser, shards, lengths, &[])
    }

    fn request_avoiding(
        chooser: &ShardChooser,
        shards: &[Option<UpstreamId>],
        lengths: &[u32],
        slow: &[u32],
    ) -> (ChosenShards, Vec<u32>) {
        let (mut chosen, mut start) = (ChosenShards::default(), 0);
        let next = |length: &u32| {
            chosen.end_at(start);
            let is_slow = |shard| slow.contains(&shard);
            let (number, shard) = chosen.next(chooser, INDEX, shards.iter().copied(), is_slow).unwrap();
            chosen.begin_at(number, start);
            start += length;
            shard
        };
        let to = lengths.iter().map(next).collect();
        chosen.end_at(start);
        chosen.sent();
        (chosen, to)
    }

    #[test]
    fn small_requests_go_to_one_shard_until_its_credit_is_used_up() {
        let (chooser, shards) = (chooser(), shards(6, 3));
        let quarter = QUANTUM as u32 / 4;
        let to: Vec<_> = (0..26).flat_map(|_| request(&chooser, &shards, &[quarter]).1).collect();
        let runs: Vec<_> = to.chunk_by(|one, next| one == next).map(|run| (run[0], run.len())).collect();
        assert_eq!(runs, [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4), (5, 4), (0, 2)]);
    }

    #[test]
    fn a_large_request_is_divided_among_shards_of_different_nodes() {
        let (chooser, shards) = (chooser(), shards(6, 3));
        let (_request, to) = request(&chooser, &shards, &[QUANTUM as u32 / 64; 200]);
        let runs: Vec<_> = to.chunk_by(|one, next| one == next).map(|run| (run[0], run.len())).collect();
        let piece = PIECE as usize / (QUANTUM as usize / 64);
        assert_eq!(runs[..12], [(0, piece), (1, piece), (2, piece)].repeat(4));
        assert_eq!(runs[12..], [(3, 200 - 12 * piece)]);
    }

    #[test]
    fn workers_begin_with_different_shards() {
        let begins = [0, 1, 5, 6, (1 << 47) + 4].map(|worker| {
            let (chooser, shards) = (ShardChooser::new(worker), shards(6, 3));
            [0; 6].map(|_| request(&chooser, &shards, &[QUANTUM as u32]).1[0])
        });
        let expected = [0, 1, 5, 0, 0].map(|first| [0, 1, 2, 3, 4, 5].map(|shard| (first + shard) % 6));
        assert_eq!(begins, expected);
    }

    #[test]
    fn requests_at_the_same_time_go_to_the_node_with_the_fewest_bytes_on_their_way() {
        let (chooser, shards) = (chooser(), shards(6, 3));
        let to = |length| request(&chooser, &shards, &[length]);
        let (first, second, third) = (to(100), to(300), to(200));
        assert_eq!((first.1[0], second.1[0], third.1[0]), (0, 1, 2));
        let (fourth, fifth) = (to(150), to(10));
        assert_eq!((fourth.1[0], fifth.1[0]), (0, 2));
        // An answer makes its node the next one.
        drop(second);
        assert_eq!(to(1).1[0], 1);
    }

    #[test]
    fn available_shards_get_equal_amounts_whichever_nodes_are_slow() {
        for (count, nodes) in [(1, 1), (6, 3), (5, 2), (60, 3), (600, 7)] {
            let (chooser, shards) = (chooser(), shards(count, nodes));
            let (mut sums, mut longest, mut random) = (vec![0_u64; count], 0, fast_random(count as u64));
            let (mut open, mut slow) = (VecDeque::new(), VecDeque::new());
            for _ in 0..3000 {
                let lengths: Vec<u32> = (0..=random() % 40).map(|_| (random() % 30_000) as u32).collect();
                let (request, to) = request(&chooser, &shards, &lengths);
                for (shard, length) in to.iter().zip(&lengths) {
                    sums[*shard as usize] += u64::from(*length);
                    longest = longest.max(u64::from(*length));
                }
                // Node 0 is much slower than others.
                let queue =
                    if to.iter().any(|shard| shards[*shard as usize] == shards[0]) { &mut slow } else { &mut open };
                queue.push_back(request);
                let most = [(1 + random() % 8) as usize, 200];
                [&mut open, &mut slow].into_iter().zip(most).for_each(|(queue, most)| queue.truncate(most));
            }
            let difference = sums.iter().max().unwrap() - sums.iter().min().unwrap();
            assert!(difference <= QUANTUM as u64 + longest, "{count} shards: {difference}");
        }
    }

    /// Returns random numbers.
    fn fast_random(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed + 1;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        }
    }

    #[test]
    fn slow_shards_are_chosen_once_the_others_have_no_credit() {
        let (chooser, shards) = (chooser(), shards(4, 2));
        let quantum = QUANTUM as u32;
        let to = |_| request_avoiding(&chooser, &shards, &[quantum], &[0, 2]).1;
        assert_eq!((0..8).flat_map(to).collect::<Vec<_>>(), [1, 3, 0, 2, 1, 3, 0, 2]);
    }

    #[test]
    fn a_shard_without_a_primary_is_never_chosen_and_gets_no_more_later() {
        let (chooser, mut shards) = (chooser(), shards(3, 3));
        let back = shards[1].take();
        let quantum = QUANTUM as u32;
        let to = |shards: &[_]| (0..6).flat_map(|_| request(&chooser, shards, &[quantum]).1).collect::<Vec<_>>();
        assert_eq!(to(&shards), [0, 2, 0, 2, 0, 2]);
        shards[1] = back;
        assert_eq!(to(&shards), [1, 0, 1, 2, 0, 1]);
        assert!(ChosenShards::default().next(&chooser, INDEX, [None; 3].into_iter(), |_| false).is_none());
    }

    #[test]
    fn a_request_that_is_not_sent_gives_its_credit_back() {
        let (chooser, shards) = (chooser(), shards(2, 1));
        for _ in 0..3 {
            let (mut request, to) = request(&chooser, &shards, &[QUANTUM as u32]);
            assert_eq!(to, [0]);
            request.list.iter_mut().for_each(|chosen| chosen.is_sent = false);
        }
    }

    #[test]
    fn what_is_chosen_for_a_copy_does_not_count() {
        let (chooser, shards) = (chooser(), shards(2, 1));
        let copy = chooser.clone();
        assert_eq!([0; 3].map(|_| request(&copy, &shards, &[QUANTUM as u32]).1[0]), [0, 1, 0]);
        assert_eq!(request(&chooser, &shards, &[1]).1, [0]);
    }

    #[test]
    fn memory_is_bounded() {
        let chooser = chooser();
        let one = shards(1, 1);
        for index in 0..2 * MAX_CREDITS as u32 {
            ChosenShards::default().next(&chooser, index, one.iter().copied(), |_| false).unwrap();
        }
        let state = chooser.0.borrow();
        assert_eq!(state.shards, state.credits.values().map(|credits| credits.len()).sum::<usize>());
        assert!((1..=MAX_CREDITS).contains(&state.shards));
        drop(state);
        let mut request = ChosenShards::default();
        let mut next = |index, shards: &[_]| request.next(&chooser, index, shards.iter().copied(), |_| false);
        assert!((0..MAX_CHOSEN as u32).all(|index| next(index, &one).is_some()));
        assert_eq!(next(MAX_CHOSEN as u32, &one), None);
        assert!(next(0, &one).is_some());
        let many = shards(MAX_SHARDS + 1, 1);
        assert!(ChosenShards::default().next(&chooser, 0, many.iter().copied(), |_| false).is_none());
        assert!(ChosenShards::default().next(&chooser, 0, many[1..].iter().copied(), |_| false).is_some());
    }
}
