//! Handles an answer with items: assigns them to requests, and selects the operations to be sent again.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::bulk::{Answer, AnswerItem, Operation, Placement};
use crate::engine::Engine;
use crate::engine::batching::{Batch, HeldShare, Selection};
use crate::engine::command::{CallId, Response};
use crate::engine::metrics::RetryCause;
use crate::engine::response::{Failure, ItemNumbers, NodeAnswer, Outcome, shortened};
use crate::invariant::{Count, part};
use crate::routing::UpstreamId;

/// Finds an item that a node rejected with 429. It is static because building a searcher takes more instructions than
/// searching a short answer.
static BUSY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""status":429"#));

impl Engine {
    /// Returns the unchanged answer to a batch that was exactly one request, sent once, with nothing to be sent again.
    /// Otherwise returns the response as the error.
    pub(crate) fn own_answer(&self, batch: &Batch, response: Response) -> Result<Response, Response> {
        let [held] = batch.shares.as_slice() else { return Err(response) };
        let is_unsplit = self.requests.get(&held.request).is_some_and(|request| request.shares.len() == 1);
        if !is_unsplit || held.selection != Selection::All || batch.lost {
            return Err(response);
        }
        // The answer is parsed only if it contains an operation that the node rejected with 429.
        let is_busy = BUSY.find(&response.body).is_some();
        let items = is_busy.then(|| Answer::cut(&response.body, held.operations as usize).ok()).flatten();
        match items.is_some_and(|items| self.fits(batch, &items, |_| false)) {
            true => Err(response),
            false => Ok(response),
        }
    }

    /// Assigns the items to their requests, and retries the operations that the node rejected with 429. Separates the
    /// requests whose operations were refused together, so that only the offending request keeps the refusal.
    pub(crate) fn batch_accepted(&mut self, batch: Batch, Response { headers, body, .. }: Response) {
        let answer = match Answer::read(body, batch.operations() as usize) {
            Ok(answer) => self.within_room(&batch, answer),
            Err(_) => return self.settle_unknown(&batch, Failure::Mismatch),
        };
        if !self.fits(&batch, &answer.items, |item| answer.is_redirected(item)) {
            return self.attribute(&batch, &headers, answer);
        }
        let answer = Rc::new(NodeAnswer::new(&headers, answer, &self.memory));
        let is_refused = |item: &AnswerItem| answer.answer.is_refused(item);
        let is_separated = batch.shares.len() > 1 && answer.answer.items.iter().any(is_refused);
        let is_wanted = |item: &AnswerItem| item.status == 429 || is_separated && is_refused(item);
        let mut first = 0_usize;
        let mut again = Vec::with_capacity(batch.shares.len());
        for held in &batch.shares {
            let items = part(&answer.answer.items, first.., "an answer has an item for each operation");
            again.push(self.again(held, items, is_wanted));
            if let Some(request) = self.requests.get_mut(&held.request) {
                let outcome = Outcome::Items { answer: Rc::clone(&answer), items: ItemNumbers::From(first) };
                request.record(held.share, held.selection.clone(), outcome);
                request.answered(held.operations, answer.answer.bytes(first, held.operations as usize));
            }
            if batch.lost {
                self.mark_uncertain(held, items, batch.upstream);
            }
            first = first.plus(held.operations as usize, "an answer has an item for each operation");
        }
        let is_sent_again = self.send_again(&batch, &again, is_separated);
        for (held, again) in batch.shares.iter().zip(again) {
            if again.is_none() || !is_sent_again {
                self.finish(held);
            }
        }
        if !is_sent_again {
            self.holds.completed(&batch, self.now);
        }
    }

    /// Sends operations of a batch again, for each share the given ones: each share alone and at once, or all together
    /// after a delay. Returns whether they are sent.
    fn send_again(&mut self, batch: &Batch, again: &[Option<HeldShare>], is_separated: bool) -> bool {
        let again: Vec<HeldShare> = again.iter().flatten().cloned().collect();
        if again.is_empty() || !self.has_room_again(&again) {
            return false;
        }
        let rest = Batch { shares: again.clone(), ..batch.clone() };
        if is_separated {
            self.separate(rest);
        } else if self.retry(rest, RetryCause::Busy).is_err() {
            return false;
        }
        self.expect_again(&again);
        true
    }

    /// Returns whether there is room for an answer of this size. If there is none, an answer that is longer than its
    /// operations allow is not even read.
    pub fn has_room(&self, call: CallId, bytes: usize) -> bool {
        let Some(batch) = self.calls.batch(call) else { return true };
        let limit = self.settings.current.limits.memory;
        bytes as u64 <= self.expected(batch).saturating_add(limit.saturating_sub(self.memory.used()))
    }

    /// Returns the answer unchanged, or with its long items shortened if there is no room for them.
    fn within_room(&self, batch: &Batch, answer: Answer) -> Answer {
        let memory = answer.memory();
        let free = self
            .settings
            .current
            .limits
            .memory
            .saturating_sub(self.memory.used())
            .saturating_sub(self.memory.scratch());
        // Usually there is room for the whole answer and for a reply of the same length, whatever was expected.
        if memory.saturating_mul(2) <= free {
            return answer;
        }
        let longer = memory.saturating_sub(self.expected(batch));
        let used = self.memory.used().saturating_sub(self.incoming.bytes()).saturating_add(longer);
        // The extra length of the answer may also be the extra length of one reply.
        match longer == 0
            || used.saturating_add(self.memory.scratch()).saturating_add(longer) <= self.settings.current.limits.memory
        {
            true => answer,
            false => answer.shortened(shortened),
        }
    }

    /// Returns the bytes that are reserved for the answer to a batch.
    fn expected(&self, batch: &Batch) -> u64 {
        let requests = batch.shares.iter().filter_map(|held| Some((self.requests.get(&held.request)?, held)));
        requests.map(|(request, held)| request.expected(held.operations)).sum()
    }

    /// Records that the items of a share have arrived, and their size in bytes.
    pub(crate) fn answered(&mut self, held: &HeldShare, bytes: u64) {
        if let Some(request) = self.requests.get_mut(&held.request) {
            request.answered(held.operations, bytes);
        }
    }

    /// Returns whether there is room for another answer to the shares that are to be sent again.
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

    /// Returns whether each item is for the operation at its position. The position alone does not prove it, unless the
    /// document went to a failure store: releases that have those return the items in order.
    fn fits(&self, batch: &Batch, items: &[AnswerItem], is_redirected: impl Fn(&AnswerItem) -> bool) -> bool {
        let fits = |(item, (_, operation)): (&AnswerItem, (&HeldShare, &Operation))| {
            is_for(item, operation) || item.action == operation.action && is_redirected(item)
        };
        items.len() as u64 == batch.operations() && items.iter().zip(self.batch_operations(batch)).all(fits)
    }

    /// Returns the operations of a batch in the order in which they were sent, each with its share.
    pub(crate) fn batch_operations<'a>(
        &'a self,
        batch: &'a Batch,
    ) -> impl Iterator<Item = (&'a HeldShare, &'a Operation)> {
        let requests = batch.shares.iter().filter_map(|held| Some((self.requests.get(&held.request)?, held)));
        requests.flat_map(|(request, held)| {
            request.share_operations(held.share, &held.selection).map(move |operation| (held, operation))
        })
    }

    /// Returns the operations of a share that are wanted again, by their items, and that may be sent again: those that
    /// no later operation on the same document has overtaken.
    fn again(
        &self,
        held: &HeldShare,
        items: &[AnswerItem],
        is_wanted: impl Fn(&AnswerItem) -> bool,
    ) -> Option<HeldShare> {
        let request = self.requests.get(&held.request)?;
        let items = items.get(..held.operations as usize)?;
        if !items.iter().any(&is_wanted) {
            return None;
        }
        let operations: Vec<&Operation> = request.share_operations(held.share, &held.selection).collect();
        let count = request.shares.get(usize::from(held.share))?.operations.len();
        let places: Vec<u32> = held.selection.places(count).collect();
        let is_unproven = request.is_unproven();
        let (mut again, mut bytes, mut overtaking) = (VecDeque::new(), 0_u64, BTreeSet::new());
        for ((item, operation), place) in items.iter().zip(operations).zip(places).rev() {
            let document = if is_unproven { Some(0) } else { operation.placement.id_hash };
            if is_wanted(item) && document.is_none_or(|document| !overtaking.contains(&document)) {
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

    /// Marks failed operations of a share as uncertain after a lost attempt: the earlier attempt may have been carried
    /// out, so a failure proves nothing, unless the document itself caused it.
    fn mark_uncertain(&mut self, held: &HeldShare, items: &[AnswerItem], upstream: UpstreamId) {
        let count = held.operations as usize;
        let share = self.requests.get(&held.request).and_then(|request| request.shares.get(usize::from(held.share)));
        let places = share.map(|share| held.selection.places(share.operations.len()));
        let items = places.into_iter().flatten().zip(items.iter().take(count));
        let uncertain: Vec<u32> = items.filter(|(_, item)| item.is_uncertain()).map(|(place, _)| place).collect();
        if !uncertain.is_empty() {
            let outcome = self.unknown(upstream, Failure::Lost);
            self.record(&HeldShare { selection: Selection::from_iter(uncertain), ..held.clone() }, outcome);
        }
    }
}

/// Returns whether an item matches an operation by action and id.
pub fn is_for(item: &AnswerItem, operation: &Operation) -> bool {
    let Placement { id_hash, under_pipeline, .. } = operation.placement;
    // A pipeline may have changed since the last poll. The release returns these items in order.
    let same_id = under_pipeline || id_hash.is_none_or(|hash| item.id_hash == Some(hash));
    item.action == operation.action && same_id
}
