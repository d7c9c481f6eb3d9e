//! What comes back: from a call's answer to the outcome of each share.

use std::rc::Rc;

use super::call::Purpose;
use super::failure::Failure;
use super::holds::{Batch, Held, Key};
use super::request::{NodeAnswer, Outcome};
use super::{CallId, Engine, Metric, RequestId, Response};
use crate::bulk::{Action, Answer, ErrorItem};
use crate::routing::UpstreamId;

/// How often a batch that surely was not sent is offered to the coordinating upstream. That has the dead node among
/// its hosts too, perhaps, and takes another one each time.
const REDIRECTIONS: u8 = 5;

impl Engine {
    pub(super) fn call_answered(&mut self, call: CallId, response: Response) {
        match self.calls.remove(&call) {
            Some(Purpose::Question(_)) => self.question_answered(response.status, &response.body),
            Some(Purpose::Batch(batch)) => {
                self.holds.finished(batch.upstream);
                match Failure::of(&response) {
                    Some(failure) => self.batch_failed(batch, failure),
                    None => self.batch_answered(batch, response),
                }
            }
            None => {}
        }
    }

    pub(super) fn call_failed(&mut self, call: CallId) {
        self.call_ended(call, Failure::Unreadable);
    }

    pub(super) fn call_not_sent(&mut self, call: CallId) {
        self.call_ended(call, Failure::NotSent);
    }

    fn call_ended(&mut self, call: CallId, failure: Failure) {
        match self.calls.remove(&call) {
            Some(Purpose::Question(question)) => self.question_unanswered(question),
            Some(Purpose::Batch(batch)) => {
                self.holds.finished(batch.upstream);
                self.batch_failed(batch, failure);
            }
            None => {}
        }
    }

    fn batch_failed(&mut self, mut batch: Batch, failure: Failure) {
        // Whatever became of the node, the table may be out of date.
        self.refresh.hurry();
        match failure {
            Failure::NotSent if batch.not_sent < REDIRECTIONS => {
                self.count(Metric::BatchesRedirected(batch.upstream), 1);
                self.release(batch.hold.take());
                let not_sent = batch.not_sent.saturating_add(1);
                self.holds.add_again(Batch { upstream: UpstreamId::COORDINATOR, not_sent, ..batch });
            }
            Failure::NotSent => self.settle_refused(&batch, unavailable()),
            Failure::Lost if self.is_idempotent(&batch) => {
                if let Err(batch) = self.retry(Batch { lost: true, ..batch }) {
                    self.settle_unknown(&batch, failure);
                }
            }
            _ => self.settle_unknown(&batch, failure),
        }
    }

    fn batch_answered(&mut self, batch: Batch, response: Response) {
        match response.status {
            200 if self.is_whole_request(&batch) => self.settle_all(&batch, &Outcome::Whole(Rc::new(response))),
            200 => self.batch_accepted(&batch, response),
            429 => {
                if let Err(batch) = self.retry(batch) {
                    self.settle_refused(&batch, response);
                }
            }
            status if batch.shares.len() > 1 && is_about_one_request(status) => self.separate(batch),
            _ => self.settle_refused(&batch, response),
        }
    }

    /// Whether a batch is exactly one request: then its answer is the request's, as it is.
    fn is_whole_request(&self, batch: &Batch) -> bool {
        match batch.shares.as_slice() {
            [held] => self.requests.get(&held.request).is_some_and(|request| request.shares.len() == 1),
            _ => false,
        }
    }

    /// Gives each request its items.
    fn batch_accepted(&mut self, batch: &Batch, response: Response) {
        let Response { headers, body, .. } = response;
        let answer = match Answer::read(body) {
            Ok(answer) if self.fits(batch, &answer) => answer,
            _ => return self.settle_unknown(batch, Failure::Mismatch),
        };
        let answer = Rc::new(NodeAnswer { headers, answer });
        let mut first = 0_usize;
        for held in &batch.shares {
            self.settle(held, Outcome::Items { answer: Rc::clone(&answer), first });
            first = first.saturating_add(held.operations as usize);
        }
        self.release(batch.hold);
    }

    /// Whether each item is for the operation that was sent at its place. Position alone is no proof.
    fn fits(&self, batch: &Batch, answer: &Answer) -> bool {
        let requests = batch.shares.iter().filter_map(|held| Some((self.requests.get(&held.request)?, held.share)));
        let mut operations = requests.flat_map(|(request, share)| request.share_operations(share));
        let mut items = answer.items.iter();
        let fit = items.by_ref().zip(operations.by_ref()).all(|(item, operation)| {
            let same_id = operation.placement.id_hash.is_none_or(|hash| item.id_hash == Some(hash));
            item.action == operation.action && same_id
        });
        fit && answer.items.len() as u64 == batch.shares.iter().map(|held| held.operations).sum::<u64>()
    }

    /// A batch of several requests was refused as a whole, so nothing of it was carried out: each request's share
    /// is sent again alone, and only the offender sees its error.
    fn separate(&mut self, mut batch: Batch) {
        self.count(Metric::BatchesSeparated(batch.upstream), 1);
        self.release(batch.hold.take());
        for held in std::mem::take(&mut batch.shares).into_iter().rev() {
            self.holds.add_again(Batch { shares: vec![held], ..batch.clone() });
        }
    }

    /// Sends a batch again after a while that doubles each time, unless it was sent often enough, or its time would
    /// be over by then.
    fn retry(&mut self, batch: Batch) -> Result<(), Batch> {
        let at = self.now.saturating_add(self.config.retry.backoff(batch.retries, self.next_call));
        let in_time = at < batch.first_sent.saturating_add(self.config.dispatch.timeout);
        if batch.retries >= self.config.retry.attempts || !in_time {
            return Err(batch);
        }
        self.count(Metric::BatchesRetried(batch.upstream), 1);
        self.holds.add_later(Batch { retries: batch.retries.saturating_add(1), ..batch }, at);
        Ok(())
    }

    /// Whether a batch may be carried out twice: then it comes to the same as once.
    fn is_idempotent(&self, batch: &Batch) -> bool {
        batch.shares.iter().all(|held| {
            self.requests.get(&held.request).is_some_and(|request| {
                request.share_operations(held.share).all(|operation| {
                    matches!(operation.action, Action::Index | Action::Delete) && operation.placement.id_hash.is_some()
                })
            })
        })
    }

    /// None of it was carried out, unless an earlier attempt was.
    fn settle_refused(&mut self, batch: &Batch, response: Response) {
        match batch.lost {
            true => self.settle_unknown(batch, Failure::Lost),
            false => self.settle_all(batch, &Outcome::Whole(Rc::new(response))),
        }
    }

    fn settle_unknown(&mut self, batch: &Batch, failure: Failure) {
        let operations = batch.shares.iter().map(|held| held.operations as usize).sum();
        self.count(Metric::OperationsUnknown(batch.upstream), operations);
        let upstream = self.upstreams.name(batch.upstream);
        let reason =
            format!("outcome unknown, the operation may or may not have been carried out: {failure} [{upstream}]");
        let error = ErrorItem::error("bulk_outcome_unknown_exception", &reason).into();
        self.settle_all(batch, &Outcome::Unknown { status: failure.status(), error });
    }

    fn settle_all(&mut self, batch: &Batch, outcome: &Outcome) {
        for held in &batch.shares {
            self.settle(held, outcome.clone());
        }
        self.release(batch.hold);
    }

    /// A batch that left this hold is settled.
    fn release(&mut self, hold: Option<Key>) {
        if let Some(key) = hold {
            self.holds.settled(key, self.now);
        }
    }

    fn settle(&mut self, held: &Held, outcome: Outcome) {
        let Some(request) = self.requests.get_mut(&held.request) else { return };
        let Some(share) = request.shares.get_mut(usize::from(held.share)) else { return };
        if share.outcome.replace(outcome).is_none() {
            request.pending = request.pending.saturating_sub(1);
        }
        if request.pending == 0 {
            self.answer(held.request);
        }
    }

    fn answer(&mut self, id: RequestId) {
        let Some(request) = self.leave(id) else { return };
        if request.abandoned {
            self.count(Metric::RequestsAbandoned, 1);
            return;
        }
        self.count(Metric::RequestsMerged, 1);
        self.responses.insert(id, request.response());
        self.replies.push_back(id);
    }
}

/// Whether a refusal may be one request's fault rather than the caller's (401) or the node's (5xx).
fn is_about_one_request(status: u16) -> bool {
    (400..500).contains(&status) && status != 401
}

/// For a request that could be sent nowhere, in Elasticsearch's shape.
fn unavailable() -> Response {
    const BODY: &str = r#"{"error":{"root_cause":[{"type":"no_upstream_exception","reason":"no node could be reached; nothing was sent"}],"type":"no_upstream_exception","reason":"no node could be reached; nothing was sent"},"status":503}"#;
    let headers = vec![("content-type".to_owned(), "application/json; charset=UTF-8".to_owned())];
    Response { status: 503, headers, body: BODY.as_bytes().to_vec() }
}
