//! Follows requests that pass through, and counts what the filter would have done with them.
//!
//! A copy of each request is read and routed like any other. Its shares go to holds like those of real requests, and
//! leave them in batches. Only the calls are missing: a batch counts as answered when its requests are. If they were
//! answered before it would have left, it counts as answered after as long as requests usually take.

use std::collections::BTreeMap;
use std::rc::Rc;

use hashbrown::HashMap;

use super::batching::{Batch, HeldShare, Holds};
use super::command::RequestId;
use super::head::CallerId;
use super::memory::Charge;
use super::metrics::{Counter, Metrics};
use super::pass_through::PassThrough;
use super::requests::{IdGenerator, Request};
use super::settlement::Settlement;
use crate::Time;
use crate::config::Config;
use crate::routing::{Node, Unrouted, UpstreamId};

/// The requests that are observed, and the holds in which their shares would be.
#[derive(Debug)]
pub struct Observations {
    open: HashMap<RequestId, Observed>,
    holds: Holds,
    /// The batches in flight, by the time at which each is answered and by number.
    answers: BTreeMap<(Time, u64), Batch>,
    next: u64,
    /// The number of shares on hold and in flight.
    shares: usize,
    /// The mean time from the end of a request to its answer.
    latency: Time,
    /// The zone of this Envoy, if it has one.
    pub zone: Option<String>,
}

/// A request that passes through.
#[derive(Debug)]
struct Observed {
    /// The request while its body arrives.
    request: Option<Box<Request>>,
    /// Its caller, which stays registered until it is answered; `None` if it is not registered here.
    caller: Option<CallerId>,
    /// The end of its body.
    end: Time,
    /// The bytes of its operations, until it is answered.
    bytes: Bytes,
    /// The bytes of the rest.
    charge: Charge,
}

/// The bytes of a request's operations.
#[derive(Debug, Default)]
struct Bytes {
    /// Those whose primary's node is known, by its upstream.
    located: BTreeMap<UpstreamId, u64>,
    /// The others.
    unlocated: u64,
}

/// The bytes of a request whose body has ended: its entry, and its shares on hold.
const MEMORY: u64 = 512;

/// The bytes of an upstream in the list of a request's operations.
const PER_UPSTREAM: u64 = 40;

/// The maximum number of shares on hold and in flight. If there are more, all of them count as sent.
const MAX_SHARES: usize = 10_000;

/// The longest time after which a batch counts as answered.
const LONGEST_LATENCY: Time = Time::from_secs(1);

/// The time that requests take, before the first one is answered.
const FIRST_LATENCY: Time = Time::from_millis(5);

/// The weight of a new latency is one in this number.
const MEAN_OF: u32 = 8;

impl Observations {
    /// Starts without requests.
    pub fn new(config: &Config) -> Self {
        Self {
            open: HashMap::new(),
            holds: holds(config),
            answers: BTreeMap::new(),
            next: 0,
            shares: 0,
            latency: FIRST_LATENCY,
            zone: None,
        }
    }

    /// Applies the rules of this configuration from now on.
    pub fn configure(&mut self, config: &Config, now: Time) {
        self.holds.configure(config.hold.clone(), config.dispatch.clone(), now);
    }

    /// Returns whether the body of a request is to be read.
    #[inline]
    pub fn reads(&self, id: RequestId) -> bool {
        // Usually nothing is observed.
        !self.open.is_empty() && self.open.get(&id).is_some_and(|observed| observed.request.is_some())
    }

    /// Begins to observe a request, whose body follows.
    pub fn begin(&mut self, settlement: &mut Settlement<'_>, id: RequestId, request: Request) {
        let (caller, charge) = (Some(request.caller), settlement.memory.charge(MEMORY));
        settlement.cluster.want_addresses(settlement.now);
        let (request, bytes) = (Some(Box::new(request)), Bytes::default());
        self.open.insert(id, Observed { request, caller, end: Time::ZERO, bytes, charge });
    }

    /// Reads a copy of a chunk of a body, and counts what the filter would have done at the end.
    pub fn data(
        &mut self,
        settlement: &mut Settlement<'_>,
        id: RequestId,
        (chunk, end): (Vec<u8>, bool),
        ids: &mut IdGenerator,
    ) {
        let Some(observed) = self.open.get_mut(&id) else { return };
        let Some(mut request) = observed.request.take() else { return };
        observed.end = settlement.now;
        let left = settlement.config.limits.max_request.saturating_sub(request.body().length());
        let room = settlement.memory.room(left);
        let read = if chunk.is_empty() { Ok(()) } else { request.take(chunk, room, ids) };
        match read {
            Ok(()) if !end => observed.request = Some(request),
            Ok(()) => match request.finish() {
                Ok(()) => {
                    settlement.requests.separate(&mut request, &settlement.config.dispatch.identity);
                    observed.caller = Some(request.caller);
                    observed.set_bytes(Bytes::of(&request));
                    self.hold(&mut request, id, settlement.metrics, settlement.now);
                }
                Err(why) => count_passed(settlement.metrics, why),
            },
            Err(why) => count_passed(settlement.metrics, why),
        }
    }

    /// Counts a request that the filter would have split, and holds its shares.
    fn hold(&mut self, request: &mut Request, id: RequestId, metrics: &mut Metrics, now: Time) {
        self.advance(metrics, now);
        metrics.count(Counter::ObservedMerged, 1);
        for (why, operations) in &request.routed.unrouted {
            metrics.count(Counter::ObservedUnrouted(*why), *operations as u64);
        }
        for share in 0..request.shares.len().min(usize::from(u16::MAX)) as u16 {
            // What a node could not answer at once leaves in further parts. Here it leaves as one.
            let Some(part) = request.next_part(share, u64::MAX) else { continue };
            let Some(found) = request.shares.get(usize::from(share)) else { continue };
            let held = HeldShare {
                request: id,
                share,
                selection: part.selection,
                shards: found.shards,
                bytes: part.bytes,
                operations: part.operations,
                answer: part.answer,
                since: now,
            };
            self.shares = self.shares.saturating_add(1);
            self.holds.add((found.destination, request.caller), request.class, held);
        }
        self.send(metrics, now);
        if self.shares > MAX_SHARES {
            self.send_all(metrics, now);
        }
    }

    /// Counts a request that was read, and passes through because it writes to an index that is only observed. Its shares
    /// are held on their own from now on.
    pub fn count(&mut self, settlement: &mut Settlement<'_>, id: RequestId) {
        let Some(request) = settlement.requests.get_mut(id) else { return };
        let (metrics, now) = (&mut *settlement.metrics, settlement.now);
        let charge = settlement.memory.charge(MEMORY);
        settlement.cluster.want_addresses(now);
        let mut observed = Observed { request: None, caller: None, end: now, bytes: Bytes::default(), charge };
        observed.set_bytes(Bytes::of(request));
        self.open.insert(id, observed);
        self.hold(request, id, metrics, now);
    }

    /// Returns whether the upstream host that gets a request matters.
    pub fn wants_host(&self, id: RequestId) -> bool {
        !self.open.is_empty() && self.open.get(&id).is_some_and(|observed| !observed.bytes.is_empty())
    }

    /// Counts how far the operations of a request went, which has gone to the upstream host with this address.
    pub fn passed_to(&mut self, settlement: &mut Settlement<'_>, id: RequestId, address: &str) {
        let Some(observed) = self.open.get_mut(&id) else { return };
        let bytes = observed.set_bytes(Bytes::default());
        let (config, zone) = (Rc::clone(settlement.config), self.zone.as_deref());
        let crossings = settlement
            .cluster
            .table()
            .and_then(|table| Crossings::of(&bytes, table.nodes(), |node| config.nodes.zone(node), (address, zone)));
        let all = bytes.located.values().fold(bytes.unlocated, |sum, bytes| sum.saturating_add(*bytes));
        let found = crossings.unwrap_or_default();
        let mut count = |counter, bytes| {
            if bytes > 0 {
                settlement.metrics.count(counter, bytes);
            }
        };
        count(Counter::ObservedLocatedBytes, found.located);
        count(Counter::ObservedUnlocatedBytes, all.saturating_sub(found.located));
        count(Counter::ObservedBytesBetweenNodes, found.between_nodes);
        count(Counter::ObservedBytesBetweenZones, found.between_zones);
        count(Counter::ObservedBytesToOtherZones, found.to_other_zones);
    }

    /// Notes that a request is over: it was answered, or its client has disconnected.
    pub fn gone(&mut self, settlement: &mut Settlement<'_>, id: RequestId) {
        // Usually nothing is observed, and a search would hash the number first.
        if self.open.is_empty() {
            return;
        }
        let Some(Observed { request, caller, end, .. }) = self.open.remove(&id) else { return };
        caller.into_iter().for_each(|caller| settlement.requests.leave(caller));
        if request.is_none() {
            let latency = settlement.now.saturating_sub(end).min(LONGEST_LATENCY);
            let rest = self.latency.saturating_mul(MEAN_OF.saturating_sub(1));
            self.latency = rest.saturating_add(latency) / MEAN_OF;
            self.advance(settlement.metrics, settlement.now);
            self.answer_of(id, settlement.metrics, settlement.now);
        }
    }

    /// Returns whether no observed request waits for its answer.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Answers the batches in flight that have waited for this request, and wait for no other.
    fn answer_of(&mut self, id: RequestId, metrics: &mut Metrics, now: Time) {
        let is_of = |batch: &Batch| batch.shares.iter().any(|held| held.request == id) && !self.is_open(batch);
        let answered: Vec<_> = self.answers.iter().filter(|(_, batch)| is_of(batch)).map(|(key, _)| *key).collect();
        for key in answered {
            self.answer(key, now);
        }
        self.send(metrics, now);
    }

    /// Returns whether a request in a batch is not answered yet.
    fn is_open(&self, batch: &Batch) -> bool {
        batch.shares.iter().any(|held| self.open.contains_key(&held.request))
    }

    /// Answers a batch in flight.
    fn answer(&mut self, key: (Time, u64), now: Time) {
        let Some(mut batch) = self.answers.remove(&key) else { return };
        self.shares = self.shares.saturating_sub(batch.shares.len());
        self.holds.finished(&mut batch, true, now);
        self.holds.completed(&batch, now);
    }

    /// Lets everything happen that would have happened since the last call, in order.
    pub fn advance(&mut self, metrics: &mut Metrics, now: Time) {
        loop {
            let answer = self.answers.keys().next().copied().filter(|(at, _)| *at <= now);
            let deadline = self.holds.deadline().filter(|at| *at <= now);
            match (answer, deadline) {
                (Some(key), deadline) if deadline.is_none_or(|deadline| key.0 <= deadline) => {
                    self.answer(key, key.0);
                    self.send(metrics, key.0);
                }
                (_, Some(deadline)) => {
                    self.holds.tick(deadline);
                    self.send(metrics, deadline);
                    if self.holds.deadline() == Some(deadline) {
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    /// Returns the next time at which something would happen.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        if self.shares == 0 {
            return None;
        }
        let answer = self.answers.keys().next().map(|(at, _)| *at);
        answer.into_iter().chain(self.holds.deadline()).min()
    }

    /// Sends the batches that may leave.
    fn send(&mut self, metrics: &mut Metrics, now: Time) {
        while let Some(batch) = self.holds.next_batch(now, |_| true) {
            count_batch(metrics, &batch);
            // Usually its requests are answered sooner.
            let latency = if self.is_open(&batch) { LONGEST_LATENCY } else { self.latency };
            self.answers.insert((now.saturating_add(latency), self.next), batch);
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Counts everything as answered, and what is held as sent.
    fn send_all(&mut self, metrics: &mut Metrics, now: Time) {
        while !self.answers.is_empty() {
            let all: Vec<_> = self.answers.keys().copied().collect();
            all.into_iter().for_each(|key| self.answer(key, now));
            self.send(metrics, now);
        }
    }
}

impl Observed {
    /// Replaces the bytes of its operations, and returns the former ones.
    fn set_bytes(&mut self, bytes: Bytes) -> Bytes {
        self.charge.set(MEMORY.saturating_add(PER_UPSTREAM.saturating_mul(bytes.located.len() as u64)));
        std::mem::replace(&mut self.bytes, bytes)
    }
}

impl Bytes {
    /// Returns the bytes of the operations of a request.
    fn of(request: &Request) -> Self {
        let mut bytes = Self::default();
        for operation in &request.operations {
            let share = request.shares.get(usize::from(operation.placement.share));
            let sum = match share.filter(|_| operation.placement.is_located) {
                Some(share) => bytes.located.entry(share.destination.upstream).or_default(),
                None => &mut bytes.unlocated,
            };
            *sum = sum.saturating_add(u64::from(operation.len));
        }
        bytes
    }

    fn is_empty(&self) -> bool {
        self.located.is_empty() && self.unlocated == 0
    }
}

/// How far the operations of a request went, in bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Crossings {
    /// Those whose primary's node is in the table.
    located: u64,
    /// Of these, those that went on to another node.
    between_nodes: u64,
    /// Of these, those that went to another zone: to that of the node which answered, or on to that of the primary.
    between_zones: u64,
    /// Of these, those that would have gone to another zone at once.
    to_other_zones: u64,
}

impl Crossings {
    /// Returns the crossings of a request that was answered at an address, and came from an Envoy in a zone. A zone that
    /// is not known is not crossed. Returns `None` if no node has the address.
    fn of<'a>(
        bytes: &Bytes,
        nodes: impl Iterator<Item = (&'a Node, Result<UpstreamId, Unrouted>)> + Clone,
        zone_of: impl Fn(&'a Node) -> Option<&'a str>,
        (address, zone): (&str, Option<&str>),
    ) -> Option<Self> {
        let is_there = |node: &Node| node.http.as_ref().is_some_and(|http| http.is(address));
        let (receiver, _) = nodes.clone().find(|(node, _)| is_there(node))?;
        let differ = |one: Option<&str>, other: Option<&str>| one.zip(other).is_some_and(|(one, other)| one != other);
        let first = zone_of(receiver);
        let (mut found, mut left) = (Self::default(), bytes.located.clone());
        for (node, upstream) in nodes {
            let Some(bytes) = upstream.ok().and_then(|upstream| left.remove(&upstream)) else { continue };
            let add = |sum: &mut u64, is_crossed: bool| {
                *sum = sum.saturating_add(if is_crossed { bytes } else { 0 });
            };
            add(&mut found.located, true);
            add(&mut found.between_nodes, node.id != receiver.id);
            add(&mut found.between_zones, differ(zone, first));
            add(&mut found.between_zones, differ(first, zone_of(node)));
            add(&mut found.to_other_zones, differ(zone, zone_of(node)));
        }
        Some(found)
    }
}

fn holds(config: &Config) -> Holds {
    Holds::new(config.hold.clone(), config.dispatch.clone(), config.limits.max_answer)
}

/// Counts a request that the filter would have let pass through.
pub fn count_passed(metrics: &mut Metrics, why: PassThrough) {
    metrics.count(Counter::ObservedPassedThrough(why), 1);
}

fn count_batch(metrics: &mut Metrics, batch: &Batch) {
    metrics.count(Counter::ObservedBatches(batch.upstream), 1);
    metrics.count(Counter::ObservedBatchRequests(batch.upstream), batch.shares.len() as u64);
    metrics.count(Counter::ObservedBatchOperations(batch.upstream), batch.operations());
    metrics.count(Counter::ObservedBatchBytes(batch.upstream), batch.bytes());
}
