//! What comes back: from a call's answer to the outcome of each share.

use std::collections::VecDeque;
use std::rc::Rc;

use hashbrown::HashSet;

use super::call::Purpose;
use super::failure::Failure;
use super::holds::{Batch, Held, Key};
use super::outcome::{NodeAnswer, Outcome};
use super::share::Selection;
use super::{CallId, Engine, Metric, RequestId, Response};
use crate::bulk::{Action, Answer, AnswerItem, ErrorItem, Operation};
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
            200 if self.is_own_answer(&batch, &response) => self.settle_all(&batch, &Outcome::Whole(Rc::new(response))),
            200 => self.batch_accepted(batch, response),
            429 => {
                if let Err(batch) = self.retry(batch) {
                    self.settle_refused(&batch, response);
                }
            }
            status if batch.shares.len() > 1 && is_about_one_request(status) => self.separate(batch),
            _ => self.settle_refused(&batch, response),
        }
    }

    /// Whether a batch was exactly one request, sent once, and nothing of it is to be sent again: then the answer is
    /// the request's, as it is.
    fn is_own_answer(&self, batch: &Batch, response: &Response) -> bool {
        let [held] = batch.shares.as_slice() else { return false };
        let is_unsplit = self.requests.get(&held.request).is_some_and(|request| request.shares.len() == 1);
        if !is_unsplit || held.selection != Selection::All || batch.lost {
            return false;
        }
        // The answer is read only where it tells of an operation that the node had no room for.
        memchr::memmem::find(&response.body, br#""status":429"#).is_none()
            || !Answer::read(response.body.clone()).is_ok_and(|answer| self.fits(batch, &answer))
    }

    /// Gives each request its items, and sends again what the node had no room for.
    fn batch_accepted(&mut self, batch: Batch, Response { headers, body, .. }: Response) {
        let answer = match Answer::read(body) {
            Ok(answer) if self.fits(&batch, &answer) => Rc::new(NodeAnswer::new(headers, answer, &self.memory)),
            Ok(answer) => return self.attribute(&batch, headers, answer),
            Err(_) => return self.settle_unknown(&batch, Failure::Mismatch),
        };
        let mut first = 0_usize;
        let mut busy = Vec::with_capacity(batch.shares.len());
        for held in &batch.shares {
            let items = answer.answer.items.get(first..).unwrap_or_default();
            busy.push(self.busy(held, items));
            self.learn(held, Outcome::Items { answer: Rc::clone(&answer), first });
            if batch.lost {
                self.doubt(held, items, batch.upstream);
            }
            first = first.saturating_add(held.operations as usize);
        }
        let again: Vec<Held> = busy.iter().flatten().cloned().collect();
        let is_sent_again = !again.is_empty() && self.retry(Batch { shares: again, ..batch.clone() }).is_ok();
        for (held, busy) in batch.shares.iter().zip(busy) {
            if busy.is_none() || !is_sent_again {
                self.finish(held);
            }
        }
        if !is_sent_again {
            self.release(batch.hold);
        }
    }

    /// Whether each item is for the operation that was sent at its place. Position alone is no proof.
    fn fits(&self, batch: &Batch, answer: &Answer) -> bool {
        let mut items = answer.items.iter();
        let fit =
            items.by_ref().zip(self.batch_operations(batch)).all(|(item, (_, operation))| is_for(item, operation));
        fit && answer.items.len() as u64 == batch.operations()
    }

    /// The operations of a batch in the order in which they were sent, with whose they are.
    pub(super) fn batch_operations<'a>(&'a self, batch: &'a Batch) -> impl Iterator<Item = (&'a Held, &'a Operation)> {
        let requests = batch.shares.iter().filter_map(|held| Some((self.requests.get(&held.request)?, held)));
        requests.flat_map(|(request, held)| {
            request.share_operations(held.share, &held.selection).map(move |operation| (held, operation))
        })
    }

    /// What of a share a node had no room for, and may be sent again: what no later operation on the same document
    /// has overtaken.
    fn busy(&self, held: &Held, items: &[AnswerItem]) -> Option<Held> {
        let request = self.requests.get(&held.request)?;
        let operations: Vec<&Operation> = request.share_operations(held.share, &held.selection).collect();
        let items = items.get(..operations.len())?;
        if !items.iter().any(|item| item.status == 429) {
            return None;
        }
        let count = request.shares.get(usize::from(held.share))?.operations.len();
        let places: Vec<u32> = held.selection.places(count).collect();
        let (mut again, mut bytes, mut overtaking) = (VecDeque::new(), 0_u64, HashSet::new());
        for ((item, operation), place) in items.iter().zip(operations).zip(places).rev() {
            let document = operation.placement.id_hash;
            if item.status == 429 && document.is_none_or(|document| !overtaking.contains(&document)) {
                again.push_front(place);
                bytes = bytes.saturating_add(u64::from(operation.len));
            } else {
                overtaking.extend(document);
            }
        }
        let operations = again.len() as u64;
        let selection = match operations == held.operations {
            true => held.selection.clone(),
            false => Selection::from_iter(again),
        };
        (operations > 0).then(|| Held { selection, bytes, operations, ..held.clone() })
    }

    /// An earlier attempt at a share may have been carried out, so that a failure says nothing of it, unless it is
    /// the document's own.
    fn doubt(&mut self, held: &Held, items: &[AnswerItem], upstream: UpstreamId) {
        let count = held.operations as usize;
        let share = self.requests.get(&held.request).and_then(|request| request.shares.get(usize::from(held.share)));
        let places = share.map(|share| held.selection.places(share.operations.len()));
        let items = places.into_iter().flatten().zip(items.iter().take(count));
        let doubtful: Vec<u32> = items.filter(|(_, item)| item.is_doubtful()).map(|(place, _)| place).collect();
        if !doubtful.is_empty() {
            let outcome = self.unknown(upstream, Failure::Lost);
            self.learn(&Held { selection: Selection::from_iter(doubtful), ..held.clone() }, outcome);
        }
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
        self.batch_operations(batch).all(|(_, operation)| {
            matches!(operation.action, Action::Index | Action::Delete) && operation.placement.id_hash.is_some()
        })
    }

    /// None of it was carried out, unless an earlier attempt was.
    fn settle_refused(&mut self, batch: &Batch, response: Response) {
        match batch.lost {
            true => self.settle_unknown(batch, Failure::Lost),
            false => self.settle_all(batch, &Outcome::Refused(Rc::new(response.into()))),
        }
    }

    pub(super) fn settle_unknown(&mut self, batch: &Batch, failure: Failure) {
        self.count(Metric::OperationsUnknown(batch.upstream), batch.operations() as usize);
        let outcome = self.unknown(batch.upstream, failure);
        self.settle_all(batch, &outcome);
    }

    pub(super) fn unknown(&self, upstream: UpstreamId, failure: Failure) -> Outcome {
        let upstream = self.upstreams.name(upstream);
        let reason =
            format!("outcome unknown, the operation may or may not have been carried out: {failure} [{upstream}]");
        let error = ErrorItem::error("bulk_outcome_unknown_exception", &reason).into();
        Outcome::Unknown { status: failure.status(), error }
    }

    fn settle_all(&mut self, batch: &Batch, outcome: &Outcome) {
        for held in &batch.shares {
            self.learn(held, outcome.clone());
            self.finish(held);
        }
        self.release(batch.hold);
    }

    /// A batch that left this hold is settled.
    pub(super) fn release(&mut self, hold: Option<Key>) {
        if let Some(key) = hold {
            self.holds.settled(key, self.now);
        }
    }

    /// Notes what became of a share, or of some of it.
    pub(super) fn learn(&mut self, held: &Held, outcome: Outcome) {
        let request = self.requests.get_mut(&held.request);
        if let Some(share) = request.and_then(|request| request.shares.get_mut(usize::from(held.share))) {
            share.outcomes.push((held.selection.clone(), outcome));
        }
    }

    /// Nothing more becomes of a share. With a request's last it is answered.
    pub(super) fn finish(&mut self, held: &Held) {
        let Some(request) = self.requests.get_mut(&held.request) else { return };
        request.pending = request.pending.saturating_sub(1);
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

/// Whether an item is an operation's, as far as action and id tell.
pub fn is_for(item: &AnswerItem, operation: &Operation) -> bool {
    let same_id = operation.placement.id_hash.is_none_or(|hash| item.id_hash == Some(hash));
    item.action == operation.action && same_id
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
