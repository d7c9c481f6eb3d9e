//! An answer with items: whose they are, and which of the operations are to be sent again.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::bulk::{Answer, AnswerItem, Operation};
use crate::engine::Engine;
use crate::engine::batching::{Batch, HeldShare, Selection};
use crate::engine::command::{CallId, Response};
use crate::engine::metrics::RetryCause;
use crate::engine::response::{Failure, ItemNumbers, NodeAnswer, Outcome, shortened};
use crate::routing::UpstreamId;

/// Stands in an item that a node had no room for. To make such a searcher takes more instructions than to search a short
/// answer.
static BUSY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""status":429"#));

impl Engine {
    /// The answer to a batch that was exactly one request, sent once, of which nothing is to be sent again: it is the
    /// request's, as it is. Else the response is handed back.
    pub(crate) fn own_answer(&self, batch: &Batch, response: Response) -> Result<Response, Response> {
        let [held] = batch.shares.as_slice() else { return Err(response) };
        let is_unsplit = self.requests.get(&held.request).is_some_and(|request| request.shares.len() == 1);
        if !is_unsplit || held.selection != Selection::All || batch.lost {
            return Err(response);
        }
        // The answer is read only where it tells of an operation that the node had no room for.
        let is_busy = BUSY.find(&response.body).is_some();
        let items = is_busy.then(|| Answer::cut(&response.body, held.operations as usize).ok()).flatten();
        match items.is_some_and(|items| self.fits(batch, &items)) {
            true => Err(response),
            false => Ok(response),
        }
    }

    /// Gives each request its items, and sends again what the node had no room for.
    pub(crate) fn batch_accepted(&mut self, batch: Batch, Response { headers, body, .. }: Response) {
        let answer = match Answer::read(body, batch.operations() as usize) {
            Ok(answer) => self.within_room(&batch, answer),
            Err(_) => return self.settle_unknown(&batch, Failure::Mismatch),
        };
        if !self.fits(&batch, &answer.items) {
            return self.attribute(&batch, &headers, answer);
        }
        let answer = Rc::new(NodeAnswer::new(&headers, answer, &self.memory));
        let mut first = 0_usize;
        let mut busy = Vec::with_capacity(batch.shares.len());
        for held in &batch.shares {
            let items = answer.answer.items.get(first..).unwrap_or_default();
            busy.push(self.busy(held, items));
            if let Some(request) = self.requests.get_mut(&held.request) {
                let outcome = Outcome::Items { answer: Rc::clone(&answer), items: ItemNumbers::From(first) };
                request.record(held.share, held.selection.clone(), outcome);
                request.answered(held.operations, answer.answer.bytes(first, held.operations as usize));
            }
            if batch.lost {
                self.mark_uncertain(held, items, batch.upstream);
            }
            first = first.saturating_add(held.operations as usize);
        }
        let again: Vec<HeldShare> = busy.iter().flatten().cloned().collect();
        let is_sent_again = !again.is_empty()
            && self.has_room_again(&again)
            && self.retry(Batch { shares: again.clone(), ..batch.clone() }, RetryCause::Busy).is_ok();
        if is_sent_again {
            self.expect_again(&again);
        }
        for (held, busy) in batch.shares.iter().zip(busy) {
            if busy.is_none() || !is_sent_again {
                self.finish(held);
            }
        }
        if !is_sent_again {
            self.holds.came_back(&batch, self.now);
        }
    }

    /// Whether there is room for an answer of so many bytes to a call. What comes from a node that has more to say than
    /// its operations can be answered with is not even read where there is none.
    pub fn has_room(&self, call: CallId, bytes: usize) -> bool {
        let Some(batch) = self.calls.batch(call) else { return true };
        let limit = self.settings.current.limits.memory;
        bytes as u64 <= self.expected(batch).saturating_add(limit.saturating_sub(self.memory.used()))
    }

    /// An answer as it is, or with its long items cut down where there is no room for them.
    fn within_room(&self, batch: &Batch, answer: Answer) -> Answer {
        let memory = answer.memory();
        let free = self
            .settings
            .current
            .limits
            .memory
            .saturating_sub(self.memory.used())
            .saturating_sub(self.memory.scratch());
        // Mostly there is room for it however much of it is expected, and for a reply as long.
        if memory.saturating_mul(2) <= free {
            return answer;
        }
        let longer = memory.saturating_sub(self.expected(batch));
        let used = self.memory.used().saturating_sub(self.incoming.bytes()).saturating_add(longer);
        // What is longer in the answer may be longer in one reply.
        match longer == 0
            || used.saturating_add(self.memory.scratch()).saturating_add(longer) <= self.settings.current.limits.memory
        {
            true => answer,
            false => answer.shortened(shortened),
        }
    }

    /// Bytes of the answer for which there is room.
    fn expected(&self, batch: &Batch) -> u64 {
        let requests = batch.shares.iter().filter_map(|held| Some((self.requests.get(&held.request)?, held)));
        requests.map(|(request, held)| request.expected(held.operations)).sum()
    }

    /// The items of a share are here, and have so many bytes.
    pub(crate) fn answered(&mut self, held: &HeldShare, bytes: u64) {
        if let Some(request) = self.requests.get_mut(&held.request) {
            request.answered(held.operations, bytes);
        }
    }

    /// Whether there is room for another answer to what is to be sent again.
    fn has_room_again(&self, again: &[HeldShare]) -> bool {
        let expected = |held: &HeldShare| Some(self.requests.get(&held.request)?.expected(held.operations));
        let room: u64 = again.iter().filter_map(expected).sum();
        let used = self.memory.used().saturating_add(self.memory.scratch()).saturating_add(room);
        used <= self.settings.current.limits.memory
    }

    fn expect_again(&mut self, again: &[HeldShare]) {
        for held in again {
            self.requests.get_mut(&held.request).into_iter().for_each(|request| request.expect_again(held.operations));
        }
    }

    /// Whether each item is for the operation that was sent at its place. Position alone is no proof.
    fn fits(&self, batch: &Batch, items: &[AnswerItem]) -> bool {
        let fit = items.iter().zip(self.batch_operations(batch)).all(|(item, (_, operation))| is_for(item, operation));
        fit && items.len() as u64 == batch.operations()
    }

    /// The operations of a batch in the order in which they were sent, with whose they are.
    pub(crate) fn batch_operations<'a>(
        &'a self,
        batch: &'a Batch,
    ) -> impl Iterator<Item = (&'a HeldShare, &'a Operation)> {
        let requests = batch.shares.iter().filter_map(|held| Some((self.requests.get(&held.request)?, held)));
        requests.flat_map(|(request, held)| {
            request.share_operations(held.share, &held.selection).map(move |operation| (held, operation))
        })
    }

    /// What of a share a node had no room for, and may be sent again: what no later operation on the same document
    /// has overtaken.
    fn busy(&self, held: &HeldShare, items: &[AnswerItem]) -> Option<HeldShare> {
        let request = self.requests.get(&held.request)?;
        let items = items.get(..held.operations as usize)?;
        if !items.iter().any(|item| item.status == 429) {
            return None;
        }
        let operations: Vec<&Operation> = request.share_operations(held.share, &held.selection).collect();
        let count = request.shares.get(usize::from(held.share))?.operations.len();
        let places: Vec<u32> = held.selection.places(count).collect();
        let (mut again, mut bytes, mut overtaking) = (VecDeque::new(), 0_u64, BTreeSet::new());
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
        (operations > 0).then(|| HeldShare { selection, bytes, operations, ..held.clone() })
    }

    /// An earlier attempt at a share may have been carried out, so that a failure says nothing of it, unless it is
    /// the document's own.
    fn mark_uncertain(&mut self, held: &HeldShare, items: &[AnswerItem], upstream: UpstreamId) {
        let count = held.operations as usize;
        let share = self.requests.get(&held.request).and_then(|request| request.shares.get(usize::from(held.share)));
        let places = share.map(|share| held.selection.places(share.operations.len()));
        let items = places.into_iter().flatten().zip(items.iter().take(count));
        let doubtful: Vec<u32> = items.filter(|(_, item)| item.is_doubtful()).map(|(place, _)| place).collect();
        if !doubtful.is_empty() {
            let outcome = self.unknown(upstream, Failure::Lost);
            self.record(&HeldShare { selection: Selection::from_iter(doubtful), ..held.clone() }, outcome);
        }
    }
}

/// Whether an item is an operation's, as far as action and id tell.
pub fn is_for(item: &AnswerItem, operation: &Operation) -> bool {
    let same_id = operation.placement.id_hash.is_none_or(|hash| item.id_hash == Some(hash));
    item.action == operation.action && same_id
}
