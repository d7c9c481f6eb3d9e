//! An answer with items: whose they are, and which of the operations are to be sent again.

use std::collections::VecDeque;
use std::rc::Rc;

use hashbrown::HashSet;

use super::failure::Failure;
use super::holds::{Batch, Held};
use super::metrics::RetryCause;
use super::outcome::{NodeAnswer, Outcome};
use super::share::Selection;
use super::{Engine, Response};
use crate::bulk::{Answer, AnswerItem, Operation};
use crate::routing::UpstreamId;

impl Engine {
    /// Whether a batch was exactly one request, sent once, and nothing of it is to be sent again: then the answer is
    /// the request's, as it is.
    pub(super) fn is_own_answer(&self, batch: &Batch, response: &Response) -> bool {
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
    pub(super) fn batch_accepted(&mut self, batch: Batch, Response { headers, body, .. }: Response) {
        let answer = match Answer::read(body) {
            Ok(answer) if self.fits(&batch, &answer) => Rc::new(NodeAnswer::new(&headers, answer, &self.memory)),
            Ok(answer) => return self.attribute(&batch, &headers, answer),
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
        let is_sent_again =
            !again.is_empty() && self.retry(Batch { shares: again, ..batch.clone() }, RetryCause::Busy).is_ok();
        for (held, busy) in batch.shares.iter().zip(busy) {
            if busy.is_none() || !is_sent_again {
                self.finish(held);
            }
        }
        if !is_sent_again {
            self.holds.came_back(&batch, self.now);
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
        let items = items.get(..held.operations as usize)?;
        if !items.iter().any(|item| item.status == 429) {
            return None;
        }
        let operations: Vec<&Operation> = request.share_operations(held.share, &held.selection).collect();
        let count = request.shares.get(usize::from(held.share))?.operations.len();
        let places: Vec<u32> = held.selection.places(count).collect();
        let (mut again, mut bytes, mut overtaking) = (VecDeque::new(), 0_u64, HashSet::new());
        for ((item, operation), place) in items.iter().zip(operations).zip(places).rev() {
            let document = operation.placement.id_hash;
            if item.status == 429 && document.is_none_or(|document| !overtaking.contains(&document)) {
                again.push_front(place);
                bytes = bytes.saturating_add(request.sent_bytes(operation));
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
}

/// Whether an item is an operation's, as far as action and id tell.
pub fn is_for(item: &AnswerItem, operation: &Operation) -> bool {
    let same_id = operation.placement.id_hash.is_none_or(|hash| item.id_hash == Some(hash));
    item.action == operation.action && same_id
}
