//! Handles the end of calls: from an answer or a failure to the outcome of each share.

use std::rc::Rc;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::bulk::ErrorItem;
use crate::engine::Engine;
use crate::engine::batching::{Batch, HeldShare, Key};
use crate::engine::calls::Purpose;
use crate::engine::command::{CallId, RequestId, Response};
use crate::engine::metrics::{Counter, RetryCause};
use crate::engine::outbox::Reply;
use crate::engine::response::{Failure, Outcome, Refusal, WholeAnswer};
use crate::invariant::Count;
use crate::routing::UpstreamId;

/// How often a batch that was certainly not sent is offered to the coordinating upstream. That upstream may also
/// contain the dead node, and chooses another host each time.
const REDIRECTIONS: u8 = 5;

impl Engine {
    pub(crate) fn call_answered(&mut self, call: CallId, response: Response) {
        match self.calls.end(call) {
            Some(Purpose::StateQuery) => self.state_query_answered(response),
            Some(Purpose::Batch(mut batch)) => {
                self.incoming.set(response.body.capacity() as u64);
                let failure = Failure::of(&response);
                self.record_returned(&batch, failure);
                self.holds.finished(&mut batch, failure.is_none() && response.status == 200, self.now);
                match failure {
                    Some(failure) => self.batch_failed(batch, failure),
                    None => self.batch_answered(batch, response),
                }
                self.incoming.set(0);
            }
            None => {}
        }
    }

    pub(crate) fn call_failed(&mut self, call: CallId) {
        self.call_ended(call, Failure::Unreadable);
    }

    /// Handles a call for which Envoy has no upstream, or that Envoy could not make at all.
    pub(crate) fn call_not_sent(&mut self, call: CallId) {
        if let Some(batch) = self.calls.batch(call)
            && batch.upstream != UpstreamId::COORDINATOR
        {
            self.cluster.state.miss(batch.upstream);
            self.follow_state();
        }
        self.call_ended(call, Failure::NotSent);
    }

    fn call_ended(&mut self, call: CallId, failure: Failure) {
        match self.calls.end(call) {
            Some(Purpose::StateQuery) => self.state_query_failed(failure),
            Some(Purpose::Batch(mut batch)) => {
                self.record_returned(&batch, Some(failure));
                self.holds.finished(&mut batch, false, self.now);
                self.batch_failed(batch, failure);
            }
            None => {}
        }
    }

    fn batch_failed(&mut self, mut batch: Batch, failure: Failure) {
        // Whatever happened to the node, the table may be out of date.
        self.cluster.state.poll_soon(self.now);
        match failure {
            Failure::NotSent if batch.not_sent < REDIRECTIONS => {
                self.count(Counter::BatchesRedirected(batch.upstream), 1);
                self.release(batch.hold.take());
                let not_sent = batch.not_sent.saturating_add(1);
                self.holds.add_again(Batch { upstream: UpstreamId::COORDINATOR, not_sent, ..batch });
            }
            Failure::NotSent => self.settle_refused(&batch, unavailable()),
            Failure::Lost if self.is_idempotent(&batch) => {
                if let Err(batch) = self.retry(Batch { lost: true, ..batch }, RetryCause::Lost) {
                    self.settle_unknown(&batch, failure);
                }
            }
            _ => self.settle_unknown(&batch, failure),
        }
    }

    fn batch_answered(&mut self, batch: Batch, response: Response) {
        if reveals_a_change(&response.body) {
            self.cluster.state.poll_soon(self.now);
        }
        match response.status {
            200 => match self.own_answer(&batch, response) {
                Ok(answer) => {
                    let answer = Rc::new(WholeAnswer::new(answer, &self.memory));
                    self.settle_all(&batch, Outcome::Whole(answer));
                }
                Err(response) => self.batch_accepted(batch, response),
            },
            429 if is_carried_out_in_part(&batch, &response.body) && !self.is_idempotent(&batch) => {
                self.settle_refused(&batch, response);
            }
            429 => {
                if let Err(batch) = self.retry(batch, RetryCause::Busy) {
                    self.settle_refused(&batch, response);
                }
            }
            status if batch.shares.len() > 1 && is_about_one_request(status) => self.separate(batch),
            _ => self.settle_refused(&batch, response),
        }
    }

    /// Separates a batch of several requests that was refused. None of it was carried out, so each request's share is
    /// sent again alone, and only the offending request gets the error.
    pub(crate) fn separate(&mut self, mut batch: Batch) {
        self.count(Counter::BatchesSeparated(batch.upstream), 1);
        self.release(batch.hold.take());
        for held in std::mem::take(&mut batch.shares).into_iter().rev() {
            self.holds.add_again(Batch { shares: vec![held], ..batch.clone() });
        }
    }

    /// Schedules a batch to be sent again, after a delay that doubles each time. Returns the batch if it has used up
    /// its attempts, or would be sent after its timeout.
    ///
    /// The caller must have checked that there is room for another answer to operations that were already answered.
    pub(crate) fn retry(&mut self, batch: Batch, cause: RetryCause) -> Result<(), Box<Batch>> {
        let at = self.now.saturating_add(self.settings.current.retry.backoff(batch.retries, self.calls.begun()));
        let in_time = at < batch.first_sent.saturating_add(self.settings.current.dispatch.timeout);
        if batch.retries >= self.settings.current.retry.attempts || !in_time {
            return Err(Box::new(batch));
        }
        self.count(Counter::BatchesRetried(cause, batch.upstream), 1);
        let batch = self.redirected(batch);
        self.holds.add_later(Batch { retries: batch.retries.saturating_add(1), ..batch }, at);
        Ok(())
    }

    /// Returns whether carrying out a batch twice has the same effect as once.
    fn is_idempotent(&self, batch: &Batch) -> bool {
        self.batch_operations(batch).all(|(_, operation)| operation.is_idempotent())
    }

    /// Settles a refused batch. None of it was carried out, unless an earlier attempt was.
    fn settle_refused(&mut self, batch: &Batch, response: Response) {
        match batch.lost {
            true => self.settle_unknown(batch, Failure::Lost),
            false => {
                let refusal = Refusal::new(response, batch.shares.len(), &self.memory);
                self.settle_all(batch, Outcome::Refused(Rc::new(refusal)));
            }
        }
    }

    pub(crate) fn settle_unknown(&mut self, batch: &Batch, failure: Failure) {
        self.count(Counter::OperationsUnknown(batch.upstream), batch.operations() as usize);
        let outcome = self.unknown(batch.upstream, failure);
        self.settle_all(batch, outcome);
    }

    pub(crate) fn unknown(&self, upstream: UpstreamId, failure: Failure) -> Outcome {
        let upstream = self.cluster.upstreams.name(upstream);
        let reason =
            format!("outcome unknown, the operation may or may not have been carried out: {failure} [{upstream}]");
        let error = ErrorItem::error("bulk_outcome_unknown_exception", &reason).into();
        Outcome::Unknown { status: failure.status(), error }
    }

    pub(crate) fn settle_all(&mut self, batch: &Batch, outcome: Outcome) {
        // The last share owns the outcome alone, so that the answer is not copied.
        for (held, outcome) in batch.shares.iter().zip(std::iter::repeat_n(outcome, batch.shares.len())) {
            self.record(held, outcome);
            self.answered(held, 0);
            self.finish(held);
        }
        self.holds.completed(batch, self.now);
    }

    /// Settles a batch that left this hold.
    pub(crate) fn release(&mut self, hold: Option<Key>) {
        if let Some(key) = hold {
            self.holds.settled(key, self.now);
        }
    }

    /// Records the outcome of a share, or of a part of it.
    pub(crate) fn record(&mut self, held: &HeldShare, outcome: Outcome) {
        if let Some(request) = self.requests.get_mut(&held.request) {
            request.record(held.share, held.selection.clone(), outcome);
        }
    }

    /// Finishes a part of a share: holds the next part, or answers the request if this was the last part of its last
    /// share.
    pub(crate) fn finish(&mut self, held: &HeldShare) {
        let Some(mut request) = self.requests.get_mut(&held.request) else { return };
        if request.has_part(held.share) {
            if self.hold_part(held.request, held.share) {
                return;
            }
            let Some(found) = self.requests.get_mut(&held.request) else { return };
            request = found;
        }
        request.pending = request.pending.minus(1, "a share is over once");
        if request.pending == 0 {
            self.answer(held.request);
        }
    }

    fn answer(&mut self, id: RequestId) {
        let Some(request) = self.leave(id) else { return };
        if request.abandoned {
            self.count(Counter::RequestsAbandoned, 1);
            return;
        }
        self.count(Counter::RequestsMerged, 1);
        self.record_merged(id, &request);
        self.outbox.reply(id, Reply::Merged(request));
    }
}

static HAS_ERRORS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""errors":true"#));

/// Returns whether an answer shows that an index or a shard no longer matches the table.
fn reveals_a_change(body: &[u8]) -> bool {
    const ERRORS: &[&str] = &[
        "index_not_found_exception",
        "index_closed_exception",
        "cluster_block_exception",
        "unavailable_shards_exception",
        "no_shard_available_action_exception",
    ];
    // The answer begins with whether there are errors at all.
    let head = body.get(..100).unwrap_or(body);
    let has_errors = HAS_ERRORS.find(head).is_some();
    has_errors && ERRORS.iter().any(|error| memchr::memmem::find(body, error.as_bytes()).is_some())
}

/// Returns whether a refusal may be caused by one request, and not by the caller (401) or the node (5xx).
fn is_about_one_request(status: u16) -> bool {
    (400..500).contains(&status) && status != 401
}

/// Returns whether a batch that was refused with 429 may have been carried out in part. With `shard_indexing_pressure`,
/// OpenSearch counts the bytes of one shard after the other, and sends the operations of each shard before it counts the
/// next. All other refusals of a whole batch with 429 precede its first operation.
fn is_carried_out_in_part(batch: &Batch, body: &[u8]) -> bool {
    const AT_SHARD: &[u8] = b"rejected execution of coordinating operation [shard_detail=[";
    batch.operations() > 1 && memchr::memmem::find(body, AT_SHARD).is_some()
}

/// Returns the response to a request that could not be sent to any node, in Elasticsearch's format.
fn unavailable() -> Response {
    const BODY: &str = r#"{"error":{"root_cause":[{"type":"no_upstream_exception","reason":"no node could be reached; nothing was sent"}],"type":"no_upstream_exception","reason":"no node could be reached; nothing was sent"},"status":503}"#;
    let headers = [("content-type".to_owned(), "application/json; charset=UTF-8".to_owned())].into();
    Response { status: 503, headers, body: BODY.as_bytes().to_vec() }
}
