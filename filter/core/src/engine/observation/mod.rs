//! Follows requests that pass through, and counts what the filter would have done with them.
//!
//! A copy of each request is read and routed like any other. Its shares go to holds like those of real requests, and
//! leave them in batches. Only the calls are missing: a batch counts as answered after the time in which the quickest
//! requests are answered today. Others wait for one another at the nodes, which batches do much less.

mod answer;
mod crossings;
mod writers;

use std::collections::BTreeMap;
use std::rc::Rc;

use hashbrown::HashMap;

use crate::Time;
use crate::config::Config;
use crate::engine::batching::{Batch, Ending, HeldShare, Holds};
use crate::engine::command::RequestId;
use crate::engine::head::CallerId;
use crate::engine::memory::Charge;
use crate::engine::metrics::{Counter, Metrics};
use crate::engine::pass_through::PassThrough;
use crate::engine::requests::{ChosenShards, IdGenerator, Request};
use crate::engine::settlement::Settlement;
use answer::PassingAnswer;
use crossings::{Bytes, Crossings};
use writers::Written;

pub use writers::{Figures, Reported, Writer, Writers};

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
    /// The time from the end of a request to its answer, of the quickest ones.
    latency: Time,
    /// Who writes how.
    pub writers: Writers,
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
    /// The bytes of its operations, until it is known where they went.
    bytes: Bytes,
    /// The shards of its operations without an id, which count as on their way until it is answered.
    chosen: ChosenShards,
    /// Who has sent it.
    writer: Writer,
    /// What it writes, once its body has ended.
    written: Option<Written>,
    /// Its answer.
    answer: PassingAnswer,
    /// The status of its answer; 0 as long as there is none.
    status: u16,
    /// The bytes of the rest.
    charge: Charge,
}

/// The bytes of a request whose body has ended: its entry, its writer, and its shares on hold.
const MEMORY: u64 = 1536;

/// The bytes of an upstream in the list of a request's operations.
const PER_UPSTREAM: u64 = 40;

/// The maximum number of shares on hold and in flight. If there are more, all of them count as sent.
const MAX_SHARES: usize = 10_000;

/// The longest time after which a batch counts as answered.
const LONGEST_LATENCY: Time = Time::from_secs(1);

/// The time that requests take, before the first one is answered.
const FIRST_LATENCY: Time = Time::from_millis(5);

/// A slower answer raises the time of the quickest ones by one in this number.
const RISE: u32 = 64;

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
            writers: Writers::default(),
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
    pub fn begin(&mut self, settlement: &mut Settlement<'_>, id: RequestId, request: Request, writer: Writer) {
        let caller = Some(request.caller);
        let observed = Observed { caller, request: Some(Box::new(request)), ..Observed::new(settlement, writer) };
        self.open.insert(id, observed);
    }

    /// Begins to observe a request whose body is not read, because its headers are a reason to let it pass through.
    pub fn begin_unread(
        &mut self,
        settlement: &mut Settlement<'_>,
        id: RequestId,
        (writer, index): (Writer, Option<String>),
        why: PassThrough,
    ) {
        count_passed(settlement.metrics, why);
        let mut observed = Observed::new(settlement, writer);
        observed.write(Written::unread(index, why));
        self.open.insert(id, observed);
    }

    /// Reads a copy of a chunk of a body, and counts what the filter would have done at the end. Returns the request if it
    /// would have been split.
    pub fn data(
        &mut self,
        settlement: &mut Settlement<'_>,
        id: RequestId,
        (chunk, end): (Vec<u8>, bool),
        ids: &mut IdGenerator,
    ) -> Option<Box<Request>> {
        let observed = self.open.get_mut(&id)?;
        let mut request = observed.request.take()?;
        observed.end = settlement.now;
        let left = settlement.config.limits.max_request.saturating_sub(request.body().length());
        let room = settlement.memory.room(left);
        let read = if chunk.is_empty() { Ok(()) } else { request.take(chunk, room, ids) };
        if read.is_ok() && !end {
            observed.request = Some(request);
            return None;
        }
        if let Err(why) = read.and_then(|()| request.finish(room, ids)) {
            observed.passed(&request, settlement.metrics, why);
            return None;
        }
        settlement.requests.separate(&mut request, &settlement.config.dispatch.identity);
        observed.caller = Some(request.caller);
        observed.read(&mut request);
        self.hold(&mut request, id, settlement.metrics, settlement.now);
        Some(request)
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
        let mut observed = Observed::new(settlement, Writer::default());
        let Some(request) = settlement.requests.get_mut(id) else { return };
        observed.writer = Writer::of(
            request.head().caller.iter().map(|(name, value)| (name.as_str(), value.as_bytes())),
            &settlement.config.dispatch.identity,
        );
        observed.read(request);
        self.open.insert(id, observed);
        self.hold(request, id, settlement.metrics, settlement.now);
    }

    /// Returns whether a request is observed.
    pub fn contains(&self, id: RequestId) -> bool {
        !self.open.is_empty() && self.open.contains_key(&id)
    }

    /// Returns whether chunks of the answer to a request are to be read.
    #[inline]
    pub fn reads_answer(&self, id: RequestId) -> bool {
        // Usually nothing is observed.
        !self.open.is_empty() && self.open.get(&id).is_some_and(|observed| observed.answer.reads_on())
    }

    /// Reads a copy of a chunk of the answer to a request.
    pub fn answer_data(&mut self, settlement: &mut Settlement<'_>, id: RequestId, chunk: &[u8]) {
        if let Some(observed) = self.open.get_mut(&id) {
            observed.answer.take(chunk, settlement.memory.left());
            observed.charge();
        }
    }

    /// Counts how far the operations of a request went, which has gone to the upstream host with this address, if to any,
    /// and was answered with this status.
    pub fn passed(&mut self, settlement: &mut Settlement<'_>, id: RequestId, address: &str, status: u16) {
        let Some(observed) = self.open.get_mut(&id) else { return };
        observed.status = status;
        let bytes = std::mem::take(&mut observed.bytes);
        if bytes.is_empty() {
            return;
        }
        let (config, zone) = (Rc::clone(settlement.config), settlement.cluster.zone());
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
        let Some(Observed { caller, end, writer, written, answer, status, .. }) = self.open.remove(&id) else { return };
        caller.into_iter().for_each(|caller| settlement.requests.leave(caller));
        let would_be_split = written.as_ref().is_some_and(Written::would_be_split);
        if let Some(mut written) = written {
            written.answered(answer, status);
            self.writers.add(&writer, written, status);
        }
        if would_be_split {
            let latency = settlement.now.saturating_sub(end).min(LONGEST_LATENCY);
            self.latency = latency.min(self.latency.saturating_add(self.latency / RISE));
        }
    }

    /// Returns whether no observed request waits for its answer.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Answers a batch in flight.
    fn answer(&mut self, key: (Time, u64), now: Time) {
        let Some(mut batch) = self.answers.remove(&key) else { return };
        self.shares = self.shares.saturating_sub(batch.shares.len());
        self.holds.finished(&mut batch, Ending::Answered, now);
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
            self.answers.insert((now.saturating_add(self.latency), self.next), batch);
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
    /// Begins to observe a request of which nothing was read.
    fn new(settlement: &mut Settlement<'_>, writer: Writer) -> Self {
        settlement.cluster.want_addresses(settlement.now);
        Self {
            request: None,
            caller: None,
            end: settlement.now,
            bytes: Bytes::default(),
            chosen: ChosenShards::default(),
            writer,
            written: None,
            answer: PassingAnswer::default(),
            status: 0,
            charge: settlement.memory.charge(MEMORY),
        }
    }

    /// Notes what a request writes that the filter would split.
    fn read(&mut self, request: &mut Request) {
        self.bytes = Bytes::of(request);
        self.chosen = std::mem::take(&mut request.routed.chosen);
        self.chosen.sent();
        self.write(Written::read(request));
    }

    /// Counts a request that the filter would have let pass through.
    fn passed(&mut self, request: &Request, metrics: &mut Metrics, why: PassThrough) {
        count_passed(metrics, why);
        let name = request.routed.unknown.as_ref().or(request.head().default_index.as_ref());
        self.write(Written::unread(name.cloned(), why));
    }

    fn write(&mut self, written: Written) {
        self.written = Some(written);
        self.charge();
    }

    /// Charges the memory that it uses now.
    fn charge(&mut self) {
        let upstreams = PER_UPSTREAM.saturating_mul(self.bytes.located.len() as u64);
        let written = self.written.as_ref().map_or(0, Written::memory);
        let parts = [upstreams, written, self.chosen.memory() as u64, self.answer.memory()];
        self.charge.set(parts.into_iter().fold(MEMORY, u64::saturating_add));
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
