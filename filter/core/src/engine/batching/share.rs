use std::cmp::Reverse;
use std::ops::Range;
use std::rc::Rc;

use super::Key;
use super::shards::Shards;
use crate::Time;
use crate::engine::command::RequestId;
use crate::engine::response::{ItemNumbers, NodeAnswer, Outcome};
use crate::invariant::Count;
use crate::routing::UpstreamId;

/// The destination of a share. Shares with the same destination and caller are collected in one hold.
///
/// Two operations of a request that may mean the same document have the same destination, so that they keep their
/// order: an index has the same number under all of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    /// The upstream of the node.
    pub upstream: UpstreamId,
    /// Whether its indices ask the cluster to wait for copies of a shard before it writes.
    pub waits: bool,
    /// The shards with which it shares batches.
    pub scope: Scope,
}

/// The shards of an upstream whose operations share batches: all that are not apart, one, or several suspects.
///
/// It is one number, because a destination is compared for each operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope(u64);

impl Scope {
    /// All shards that are not apart.
    pub const NODE: Self = Self(0);

    /// The bit that tells one shard from a set, whose bits are lower.
    const ONE: u64 = 1 << Shards::BITS;

    /// The number in place of a shard that only the cluster knows. No index has so many shards.
    const UNKNOWN: u32 = u32::MAX >> 1;

    /// Returns the scope of one shard, or of the operations of one index for which only the cluster knows the shard: with
    /// `dispatch.level: shard`, or because it [may be slow](super::SlowShards).
    pub fn shard(index: u32, shard: Option<u32>) -> Self {
        let shard = shard.unwrap_or(Self::UNKNOWN) & Self::UNKNOWN;
        Self(Self::ONE | u64::from(index) << 31 | u64::from(shard))
    }

    /// Returns the scope of several shards, among which these were suspected of being slow when the request was read.
    pub fn apart(suspects: Shards) -> Self {
        Self(suspects.number())
    }
}

impl Destination {
    /// The destination of unrouted operations.
    pub const COORDINATOR: Self = Self::any_shard(UpstreamId::COORDINATOR);

    /// Returns the destination for all shards of an upstream.
    pub const fn any_shard(upstream: UpstreamId) -> Self {
        Self { upstream, waits: false, scope: Scope::NODE }
    }

    /// Returns the destination of what was for a node that has left the cluster.
    pub const fn at_coordinator(self) -> Self {
        Self { upstream: UpstreamId::COORDINATOR, scope: Scope::NODE, ..self }
    }

    /// Returns the destination of a share that is held, given the shards that may be slow.
    pub fn held_apart(self, shards: Shards, suspects: Shards) -> Self {
        match self.scope {
            Scope::NODE if shards.meets(suspects) => Self { scope: Scope::apart(shards.and(suspects)), ..self },
            _ => self,
        }
    }
}

/// The operations of a request for one destination.
///
/// A share is sent in one batch, unless the answer would be too large to read. Then it is sent in parts, one after the
/// other.
#[derive(Debug)]
pub struct Share {
    /// Its destination.
    pub destination: Destination,
    /// The positions of its operations in the request.
    pub operations: Vec<u32>,
    /// The shards to which they belong.
    pub shards: Shards,
    /// Bytes of their lines.
    pub bytes: u64,
    /// The recorded outcomes of its operations, part by part. The last outcome of an operation counts.
    pub outcomes: Vec<Recorded>,
    /// The place at which the next part begins.
    pub next: u32,
}

/// The outcome of some operations of a share.
#[derive(Debug)]
pub struct Recorded {
    /// Some operations of one part.
    pub selection: Selection,
    /// Their outcome.
    pub outcome: Outcome,
    /// The place at which that part begins.
    part: u32,
}

/// A selection of a share's operations, by their place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All operations.
    All,
    /// A range of operations: a part.
    Part(Range<u32>),
    /// These operations, in order, all of one part.
    Places(Rc<[u32]>),
}

/// A share of a request, on hold or in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldShare {
    /// The request to which it belongs.
    pub request: RequestId,
    /// The number of the share in the request.
    pub share: u16,
    /// The selected operations of the share.
    pub selection: Selection,
    /// The shards to which the share's operations belong.
    pub shards: Shards,
    /// Bytes of the selected operations.
    pub bytes: u64,
    /// The number of selected operations.
    pub operations: u64,
    /// Bytes of the longest possible answer to them.
    pub answer: u64,
    /// The time since which it is held.
    pub since: Time,
}

impl Share {
    /// The approximate number of bytes that a share uses while it is held and with its outcome, without its operations.
    pub const MEMORY: usize = size_of::<Self>()
        + 2 * size_of::<(Destination, u16)>()
        + 2 * size_of::<(Key, HeldShare)>()
        + size_of::<Reverse<(Time, Key)>>()
        + size_of::<Recorded>()
        + 4 * size_of::<u32>();

    /// Creates a share without operations.
    pub fn new(destination: Destination) -> Self {
        Self { destination, operations: Vec::new(), shards: Shards::NONE, bytes: 0, outcomes: Vec::new(), next: 0 }
    }

    /// Adds the operation at this position of the request, with this many bytes.
    pub fn push(&mut self, position: u32, bytes: u64) {
        self.operations.push(position);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Returns the positions of the selected operations in the request.
    pub fn positions<'a>(&'a self, selection: &'a Selection) -> impl Iterator<Item = u32> + 'a {
        selection.places(self.operations.len()).filter_map(|place| self.operations.get(place as usize).copied())
    }

    /// Records the outcome of some operations of the part that was held last.
    pub fn record(&mut self, selection: Selection, outcome: Outcome) {
        let part = match &selection {
            Selection::All => 0,
            Selection::Part(places) => places.start,
            Selection::Places(_) => self.outcomes.last().map_or(0, |last| last.part),
        };
        // Most shares have a single outcome.
        if self.outcomes.is_empty() {
            self.outcomes.reserve_exact(1);
        }
        self.outcomes.push(Recorded { selection, outcome, part });
    }

    /// Returns the answer with the items of all operations, and the number of the first item, if the items are
    /// consecutive.
    pub fn row(&self) -> Option<(&NodeAnswer, usize)> {
        match self.outcomes.as_slice() {
            [
                Recorded {
                    selection: Selection::All,
                    outcome: Outcome::Items { answer, items: ItemNumbers::From(first) },
                    ..
                },
            ] => Some((answer, *first)),
            _ => None,
        }
    }

    /// Returns the last outcome of the operation at a place, and the operation's number in the selection of that
    /// outcome.
    pub fn outcome(&self, place: u32) -> Option<(usize, &Outcome)> {
        // Most shares have a single outcome, for all operations.
        if let [Recorded { selection: Selection::All, outcome, .. }] = self.outcomes.as_slice() {
            return Some((place as usize, outcome));
        }
        let end = self.outcomes.partition_point(|recorded| recorded.part <= place);
        let recorded = self.outcomes.get(..end)?.iter().rev();
        let mut found = recorded.filter_map(|recorded| Some((recorded.selection.number(place)?, &recorded.outcome)));
        found.next()
    }

    /// Takes the last outcome of the first part.
    pub fn take_first(&mut self) -> Option<Outcome> {
        let first = self.outcomes.first()?.part;
        let end = self.outcomes.partition_point(|recorded| recorded.part == first);
        Some(self.outcomes.swap_remove(end.checked_sub(1)?).outcome)
    }

    /// Returns the last outcome of each part; `None` for a part whose last outcome does not apply to the whole part.
    pub fn part_outcomes(&self) -> impl Iterator<Item = Option<&Outcome>> {
        let parts = self.outcomes.chunk_by(|one, next| one.part == next.part);
        parts.map(|part| match part.last()? {
            Recorded { selection: Selection::Places(_), .. } => None,
            Recorded { outcome, .. } => Some(outcome),
        })
    }
}

impl Selection {
    /// Returns how many operations are selected, out of `count`.
    pub fn len(&self, count: usize) -> usize {
        match self {
            Self::All => count,
            Self::Part(places) => places.len(),
            Self::Places(places) => places.len(),
        }
    }

    /// Returns the places of the selected operations, out of `count`.
    pub fn places(&self, count: usize) -> impl Iterator<Item = u32> {
        (0..self.len(count)).filter_map(|number| match self {
            Self::All => u32::try_from(number).ok(),
            Self::Part(places) => places.start.checked_add(number as u32),
            Self::Places(places) => places.get(number).copied(),
        })
    }

    /// Returns the number of a place within the selection.
    fn number(&self, place: u32) -> Option<usize> {
        match self {
            Self::All => Some(place as usize),
            Self::Part(places) => places.contains(&place).then(|| place.saturating_sub(places.start) as usize),
            Self::Places(places) => places.binary_search(&place).ok(),
        }
    }
}

impl FromIterator<u32> for Selection {
    fn from_iter<I: IntoIterator<Item = u32>>(places: I) -> Self {
        Self::Places(places.into_iter().collect())
    }
}

/// The amounts that wait to be sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The number of shares.
    pub requests: u64,
    /// The number of operations in them.
    pub operations: u64,
    /// The bytes of these operations.
    pub bytes: u64,
}

impl Waiting {
    /// Adds further amounts.
    pub fn add(&mut self, more: &Self) {
        const WHY: &str = "memory bounds what waits";
        self.requests = self.requests.plus(more.requests, WHY);
        self.operations = self.operations.plus(more.operations, WHY);
        self.bytes = self.bytes.plus(more.bytes, WHY);
    }
}
