//! Applies verdicts: records outcomes, sends operations again, and answers requests whose shares all have an outcome.
//!
//! Nothing else records an outcome. It also holds the parts of shares, because a share's next part is held when the last
//! one is settled, and moves held shares to other holds.

use std::rc::Rc;

use super::batching::{Batch, HeldShare, Holds, Key, Scope};
use super::cluster_view::ClusterView;
use super::command::{RequestId, Response};
use super::head::SlotClass;
use super::memory::Memory;
use super::metrics::{Counter, Metrics};
use super::observe;
use super::outbox::{Outbox, Reply};
use super::requests::{ItemNumbers, NodeAnswer, Outcome, Part, Refusal, Requests, WholeAnswer};
use super::response::{Failure, Items, Misplaced, Verdict};
use crate::Time;
use crate::bulk::ErrorItem;
use crate::config::Config;
use crate::invariant::{Count, found};
use crate::routing::UpstreamId;

/// How often a batch that was certainly not sent is offered to the coordinator. That upstream may also
/// contain the dead node, and chooses another host each time.
const REDIRECTIONS: u8 = 5;

/// The parts of the engine that a share touches between its request and its outcome.
#[derive(Debug)]
pub struct Settlement<'a> {
    pub now: Time,
    pub config: &'a Rc<Config>,
    pub cluster: &'a mut ClusterView,
    pub requests: &'a mut Requests,
    pub holds: &'a mut Holds,
    pub memory: &'a Memory,
    pub outbox: &'a mut Outbox,
    pub metrics: &'a mut Metrics,
    /// A number that is another for each call, so that delays differ.
    pub calls_begun: u32,
}

impl Settlement<'_> {
    /// Holds the next part of a share.
    pub fn hold_part(&mut self, id: RequestId, share: u16) {
        let Some(request) = found(self.requests.get_mut(id), "its shares are held") else { return };
        let Some(part) = found(request.next_part(share, self.config.limits.max_answer), "there is one") else { return };
        let (caller, class) = (request.caller, request.class);
        let Some(found) = found(request.shares.get_mut(usize::from(share)), "it has a part") else { return };
        let upstream = found.destination.upstream;
        let is_gone = self.cluster.is_gone(upstream);
        if is_gone {
            found.destination = found.destination.at_coordinator();
        }
        let class = SlotClass { waits: class.waits || found.destination.waits, ..class };
        // A shard may have become slow since the request began.
        found.destination = found.destination.held_apart(found.shards, self.holds.apart().of(class.waits));
        let (destination, shards) = (found.destination, found.shards);
        let Part { selection, operations, bytes, answer } = part;
        let held = HeldShare { request: id, share, selection, shards, bytes, operations, answer, since: self.now };
        self.holds.add((destination, caller), class, held);
        if is_gone {
            self.count_redirected(upstream, 1);
        }
    }

    /// Applies the verdict on a batch whose call has ended.
    pub fn apply(&mut self, batch: Batch, verdict: Verdict) {
        match verdict {
            Verdict::Whole(response) => {
                let answer = Rc::new(WholeAnswer::new(response, self.memory));
                self.settle_all(&batch, Outcome::Whole(answer));
            }
            Verdict::Items(items) => self.settle_items(&batch, items),
            Verdict::Misplaced(misplaced) => self.settle_misplaced(&batch, misplaced),
            Verdict::Busy(response) => {
                if let Err(batch) = self.send_later(batch, Counter::BatchesRetriedBusy) {
                    self.settle_refused(&batch, response);
                }
            }
            Verdict::Refused(response) => self.settle_refused(&batch, response),
            Verdict::Separate => self.separate(batch),
            Verdict::NotSent => self.offer_again(batch),
            Verdict::Lost { again, unknown } => self.settle_lost(batch, again, &unknown),
            Verdict::Unknown(failure) => self.settle_unknown(&batch, failure),
        }
    }

    /// Redirects everything that waits for these upstreams to the coordinator: held shares, batches to be
    /// sent again, and, until the next call, new shares. Batches in flight are not affected.
    ///
    /// Call it for each new routing table, with all known upstreams that have no node in the table.
    pub fn redirect_from(&mut self, gone: &[UpstreamId]) {
        let nodes = gone.iter().copied().filter(|upstream| *upstream != UpstreamId::COORDINATOR);
        self.cluster.set_gone(nodes.clone());
        for upstream in nodes {
            let requests = &*self.requests;
            let redirected = self.holds.redirect(upstream, self.now, |id| requests.contains(id));
            redirected.shares.into_iter().for_each(|moved| self.requests.moved(moved));
            self.count_redirected(upstream, redirected.batches);
        }
    }

    /// Lets this hold send its next batch.
    pub fn release(&mut self, hold: Option<Key>) {
        if let Some(key) = hold {
            self.holds.settled(key, self.now);
        }
    }

    /// Counts an event.
    pub fn count(&mut self, counter: Counter, by: usize) {
        self.metrics.count(counter, by as u64);
    }

    fn settle_items(&mut self, batch: &Batch, items: Items) {
        let Items { headers, answer, again, are_separate, uncertain } = items;
        let answer = Rc::new(NodeAnswer::new(&headers, answer, self.memory));
        let mut first = 0_usize;
        for held in &batch.shares {
            let outcome = Outcome::Items { answer: Rc::clone(&answer), items: ItemNumbers::From(first) };
            self.record(held, outcome, answer.answer.bytes(first, held.operations as usize));
            first = first.plus(held.operations as usize, "an answer has an item for each operation");
        }
        for held in &uncertain {
            let outcome = self.unknown(batch.upstream, Failure::Lost);
            self.correct(held, outcome);
        }
        let is_sent_again = self.send_again(batch, &again, are_separate);
        for (held, again) in batch.shares.iter().zip(again) {
            if again.is_none() || !is_sent_again {
                self.finish(held);
            }
        }
        if !is_sent_again {
            self.holds.completed(batch, self.now);
        }
    }

    /// Assigns the items that were found. The outcome of the other operations is unknown. Requests for the indices of
    /// misplaced items pass through until the next poll of the cluster state, which comes soon.
    fn settle_misplaced(&mut self, batch: &Batch, misplaced: Misplaced) {
        let Misplaced { headers, answer, found, names } = misplaced;
        self.count(Counter::AnswersMismatched(batch.upstream), 1);
        names.iter().for_each(|name| self.cluster.distrust(name));
        self.cluster.poll_soon(self.now);
        let answer = Rc::new(NodeAnswer::new(&headers, answer, self.memory));
        let unknown = self.unknown(batch.upstream, Failure::Mismatch);
        let mut found = found.into_iter();
        let mut lost = 0_usize;
        for held in &batch.shares {
            let positions = self.requests.of(held).map(|request| request.positions(held).collect::<Vec<u32>>());
            let positions = positions.unwrap_or_default();
            let count = positions.len();
            let found =
                positions.into_iter().zip(found.by_ref()).filter_map(|(position, item)| Some((position, item?)));
            let (positions, items): (Vec<u32>, Vec<u32>) = found.unzip();
            lost = lost.plus(count, "memory bounds the operations").minus(items.len(), "each position has one item");
            let texts = items.iter().filter_map(|item| answer.answer.items.get(*item as usize));
            let bytes = texts.map(|item| answer.answer.text(item).len() as u64).sum();
            self.record(held, unknown.clone(), bytes);
            if !items.is_empty() {
                let outcome = Outcome::Items { answer: Rc::clone(&answer), items: ItemNumbers::These(items.into()) };
                self.correct(&HeldShare { selection: positions.into_iter().collect(), ..held.clone() }, outcome);
            }
            self.finish(held);
        }
        self.count(Counter::OperationsUnknown(batch.upstream), lost);
        self.holds.completed(batch, self.now);
    }

    /// Settles a refused batch. None of it was carried out, unless an earlier attempt was.
    fn settle_refused(&mut self, batch: &Batch, response: Response) {
        match batch.lost {
            true => self.settle_unknown(batch, Failure::Lost),
            false => {
                let refusal = Refusal::new(response, batch.shares.len(), self.memory);
                self.settle_all(batch, Outcome::Refused(Rc::new(refusal)));
            }
        }
    }

    /// Sends those shares of a lost batch again that may be carried out twice. The outcome of the others is unknown.
    fn settle_lost(&mut self, batch: Batch, again: Vec<HeldShare>, unknown: &[HeldShare]) {
        if again.is_empty() {
            return self.settle_unknown(&batch, Failure::Lost);
        }
        let operations = unknown.iter().map(|held| held.operations as usize).sum();
        self.count(Counter::OperationsUnknown(batch.upstream), operations);
        let outcome = self.unknown(batch.upstream, Failure::Lost);
        for held in unknown {
            self.record(held, outcome.clone(), 0);
            self.finish(held);
        }
        let rest = Batch { shares: again, lost: true, ..batch };
        if let Err(rest) = self.send_later(rest, Counter::BatchesRetriedLost) {
            self.settle_unknown(&rest, Failure::Lost);
        }
    }

    fn settle_unknown(&mut self, batch: &Batch, failure: Failure) {
        self.count(Counter::OperationsUnknown(batch.upstream), batch.operations() as usize);
        let outcome = self.unknown(batch.upstream, failure);
        self.settle_all(batch, outcome);
    }

    fn unknown(&self, upstream: UpstreamId, failure: Failure) -> Outcome {
        let upstream = self.cluster.upstreams.name(upstream);
        let reason =
            format!("outcome unknown, the operation may or may not have been carried out: {failure} [{upstream}]");
        let error = ErrorItem::error("bulk_outcome_unknown_exception", &reason).into();
        Outcome::Unknown { status: failure.status(), error }
    }

    fn settle_all(&mut self, batch: &Batch, outcome: Outcome) {
        // The last share owns the outcome alone, so that the answer is not copied.
        for (held, outcome) in batch.shares.iter().zip(std::iter::repeat_n(outcome, batch.shares.len())) {
            self.record(held, outcome, 0);
            self.finish(held);
        }
        self.holds.completed(batch, self.now);
    }

    /// Records the outcome of a part of a share, whose items have this many bytes.
    fn record(&mut self, held: &HeldShare, outcome: Outcome, bytes: u64) {
        if let Some(request) = self.requests.of_mut(held) {
            request.record(held.share, held.selection.clone(), outcome);
            request.answered(held.operations, bytes);
        }
    }

    /// Records another outcome for some operations of a part whose outcome was recorded.
    fn correct(&mut self, held: &HeldShare, outcome: Outcome) {
        if let Some(request) = self.requests.of_mut(held) {
            request.record(held.share, held.selection.clone(), outcome);
        }
    }

    /// Finishes a part of a share: holds the next part, or answers the request if this was the last part of its last
    /// share.
    fn finish(&mut self, held: &HeldShare) {
        let Some(request) = self.requests.of_mut(held) else { return };
        if request.has_part(held.share) {
            self.hold_part(held.request, held.share);
            return;
        }
        if request.sends_original() {
            self.send_original(held);
        } else if request.share_is_over() {
            self.answer(held.request);
        }
    }

    /// Sends the request for a single document itself, so that its client gets the cluster's own refusal. The cluster may
    /// also carry it out now, because its document was changed in the meantime. Without room for another answer, the
    /// client gets the refusal that is there.
    fn send_original(&mut self, held: &HeldShare) {
        let has_room = self.memory.has_room(self.requests.expected(std::slice::from_ref(held)), 0);
        let Some(request) = self.requests.of_mut(held) else { return };
        if !has_room {
            request.share_is_over();
            return self.answer(held.request);
        }
        request.expect_again(held.operations);
        let bytes = u64::from(request.body().document());
        let (upstream, now) = (UpstreamId::COORDINATOR, self.now);
        let ticket = self.holds.add_again(Batch {
            upstream,
            caller: request.caller,
            class: request.class,
            scope: Scope::NODE,
            shares: vec![HeldShare { bytes, ..held.clone() }],
            hold: None,
            first_sent: now,
            sent: now,
            not_sent: 0,
            retries: 0,
            lost: false,
            address: None,
            is_original: true,
            is_late: false,
        });
        request.progress.original = Some(ticket);
    }

    fn answer(&mut self, id: RequestId) {
        let request = found(self.requests.remove(id), "a request that is answered exists");
        let Some(request) = request else { return };
        if request.progress.is_abandoned {
            self.count(Counter::RequestsAbandoned, 1);
            return;
        }
        self.count(Counter::RequestsMerged, 1);
        if let Some(document) = request.document() {
            let is_refused = request.progress.is_original_sent;
            self.requests.refusals.record(document.writer, is_refused);
            if !is_refused {
                self.count(Counter::DocumentsMerged, 1);
            }
        }
        observe::log_merged(self.outbox, self.config, id, &request);
        self.outbox.reply(id, Reply::Merged(request));
    }

    /// Offers a batch that was certainly not sent to the coordinator.
    fn offer_again(&mut self, mut batch: Batch) {
        if batch.not_sent >= REDIRECTIONS {
            return self.settle_refused(&batch, unavailable());
        }
        self.count_redirected(batch.upstream, 1);
        self.release(batch.hold.take());
        let not_sent = batch.not_sent.saturating_add(1);
        self.holds.add_again(Batch { upstream: UpstreamId::COORDINATOR, not_sent, ..batch });
    }

    /// Sends operations of a batch again, for each share the given ones: each share alone and at once, or all together
    /// after a delay. Returns whether they are sent.
    fn send_again(&mut self, batch: &Batch, again: &[Option<HeldShare>], are_separate: bool) -> bool {
        let again: Vec<HeldShare> = again.iter().flatten().cloned().collect();
        // Each of them gets another answer.
        if again.is_empty() || !self.memory.has_room(self.requests.expected(&again), 0) {
            return false;
        }
        let rest = Batch { shares: again.clone(), ..batch.clone() };
        if are_separate {
            self.separate(rest);
        } else if self.send_later(rest, Counter::BatchesRetriedBusy).is_err() {
            return false;
        }
        for held in &again {
            self.requests.of_mut(held).into_iter().for_each(|request| request.expect_again(held.operations));
        }
        true
    }

    /// Separates a batch of several requests that was refused. None of it was carried out, so each request's share is
    /// sent again alone, and only the offending request gets the error.
    fn separate(&mut self, mut batch: Batch) {
        self.count(Counter::BatchesSeparated(batch.upstream), 1);
        self.release(batch.hold.take());
        for held in std::mem::take(&mut batch.shares).into_iter().rev() {
            self.holds.add_again(Batch { shares: vec![held], ..batch.clone() });
        }
    }

    /// Schedules a batch to be sent again, after a delay that doubles each time, and counts it. Returns the batch if it
    /// has used up its attempts, or would be sent after its timeout.
    ///
    /// The caller must have checked that there is room for another answer to operations that were already answered.
    fn send_later(&mut self, batch: Batch, counter: fn(UpstreamId) -> Counter) -> Result<(), Box<Batch>> {
        let at = self.now.saturating_add(self.config.retry.backoff(batch.retries, self.calls_begun));
        let in_time = at < batch.first_sent.saturating_add(self.config.dispatch.timeout);
        if batch.retries >= self.config.retry.attempts || !in_time {
            return Err(Box::new(batch));
        }
        self.count(counter(batch.upstream), 1);
        let batch = self.redirected(batch);
        self.holds.add_later(Batch { retries: batch.retries.saturating_add(1), ..batch }, at);
        Ok(())
    }

    /// Returns a batch that is to be sent again, redirected if its upstream has no node.
    fn redirected(&mut self, mut batch: Batch) -> Batch {
        if self.cluster.is_gone(batch.upstream) {
            self.count_redirected(batch.upstream, 1);
            self.release(batch.hold.take());
            batch.upstream = UpstreamId::COORDINATOR;
        }
        batch
    }

    fn count_redirected(&mut self, upstream: UpstreamId, batches: usize) {
        if batches > 0 {
            self.count(Counter::BatchesRedirected(upstream), batches);
        }
    }
}

/// Returns the response to a request that could not be sent to any node, in Elasticsearch's format.
fn unavailable() -> Response {
    const BODY: &str = r#"{"error":{"root_cause":[{"type":"no_upstream_exception","reason":"no node could be reached; nothing was sent"}],"type":"no_upstream_exception","reason":"no node could be reached; nothing was sent"},"status":503}"#;
    let headers = [("content-type".to_owned(), "application/json; charset=UTF-8".to_owned())].into();
    Response { status: 503, headers, body: BODY.as_bytes().to_vec() }
}
