use std::collections::{BTreeSet, VecDeque};
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::misplaced::{self, is_for};
use super::{Failure, Items, Verdict};
use crate::bulk::{Answer, AnswerItem, Operation};
use crate::engine::batching::{Batch, Ending, HeldShare, Positions};
use crate::engine::command::{Headers, Response};
use crate::engine::memory::Memory;
use crate::engine::requests::{Request, Requests, shortened};
use crate::invariant::{Count, part};

/// Finds an item that a node rejected with 429. It is static because building a searcher takes more instructions than
/// searching a short answer.
static BUSY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""status":429"#));

static EXCEPTION: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("_exception"));

static HAS_ERRORS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""errors":true"#));

/// What a reader of answers may look at.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// The requests, among them those of the batch.
    pub requests: &'a Requests,
    /// Whether the nodes return the items of a batch in order, whatever pipelines do.
    pub orders_items: bool,
    /// The account of memory, in which the answer is counted with its capacity.
    pub memory: &'a Memory,
}

impl Reading<'_> {
    /// Reads a response to a batch.
    pub fn read(self, batch: &Batch, response: Response) -> Verdict {
        match response.status {
            _ if batch.is_original => Verdict::Whole(response),
            200 => self.read_answer(batch, response),
            429 if is_carried_out_in_part(batch, &response.body) && !self.is_idempotent(batch) => {
                Verdict::Refused(response)
            }
            429 => Verdict::Busy(response),
            status if batch.shares.len() > 1 && is_about_one_request(status) => Verdict::Separate,
            _ => Verdict::Refused(response),
        }
    }

    fn is_idempotent(self, batch: &Batch) -> bool {
        batch.shares.iter().all(|held| self.requests.is_idempotent(held))
    }

    /// Returns the verdict on a batch that got no answer.
    pub fn failed(self, batch: &Batch, failure: Failure) -> Verdict {
        match failure {
            Failure::NotSent | Failure::ConnectTimeout | Failure::NoUpstream => Verdict::NotSent,
            Failure::Lost if !batch.is_original => {
                let (again, unknown) = batch.shares.iter().cloned().partition(|held| self.requests.is_idempotent(held));
                Verdict::Lost { again, unknown }
            }
            _ => Verdict::Unknown(failure),
        }
    }

    fn read_answer(self, batch: &Batch, response: Response) -> Verdict {
        let is_own = self.is_own(batch);
        // The answer to a single request is read only if it contains an operation that the node rejected with 429.
        if is_own && BUSY.find(&response.body).is_none() {
            return Verdict::Whole(response);
        }
        let Response { status, headers, body } = response;
        let (operations, incoming) = (batch.operations() as usize, body.capacity() as u64);
        if is_own {
            let whole = |body| Verdict::Whole(Response { status, headers: headers.clone(), body });
            return match Answer::read_own(body, operations) {
                Ok(answer) if self.fits(batch, &answer.items, |_| false) => {
                    self.in_order(batch, headers, self.within_room(batch, answer, incoming))
                }
                Ok(answer) => whole(answer.into_body()),
                Err(body) => whole(body),
            };
        }
        let Ok(answer) = Answer::read(body, operations) else { return Verdict::Unknown(Failure::Mismatch) };
        let answer = self.within_room(batch, answer, incoming);
        match self.fits(batch, &answer.items, |item| answer.is_redirected(item)) {
            true => self.in_order(batch, headers, answer),
            false => Verdict::Misplaced(misplaced::read(self.requests, self.orders_items, batch, headers, answer)),
        }
    }

    /// Returns whether a batch is exactly one request, sent once.
    fn is_own(self, batch: &Batch) -> bool {
        let [held] = batch.shares.as_slice() else { return false };
        let is_unsplit = self.requests.of(held).is_some_and(|request| {
            // The answer to a single document is made of its item.
            request.shares.len() == 1 && request.document().is_none()
        });
        is_unsplit && held.selection == Positions::All && !batch.lost
    }

    /// Returns the verdict on an answer whose items are in order: which operations may be sent again, and which failures
    /// say nothing.
    fn in_order(self, batch: &Batch, headers: Headers, answer: Answer) -> Verdict {
        let is_refused = |item: &AnswerItem| answer.is_refused(item);
        // Only the offending request keeps the refusal.
        let are_separate = batch.shares.len() > 1 && answer.items.iter().any(is_refused);
        let is_wanted = |item: &AnswerItem| item.status == 429 || are_separate && is_refused(item);
        let (mut again, mut uncertain) = (Vec::with_capacity(batch.shares.len()), Vec::new());
        let mut items = answer.items.as_slice();
        for held in &batch.shares {
            let its = part(items, ..held.operations as usize, "an answer has an item for each operation");
            items = part(items, its.len().., "an answer has an item for each operation");
            let request = self.requests.of(held);
            again.push(request.and_then(|request| wanted_again(request, held, its, is_wanted)));
            if batch.lost {
                uncertain.extend(request.and_then(|request| uncertain_part(request, held, its)));
            }
        }
        Verdict::Items(Items { headers, answer, again, are_separate, uncertain })
    }

    /// Returns the answer unchanged, or with its long items shortened if there is no room for them.
    fn within_room(self, batch: &Batch, answer: Answer, incoming: u64) -> Answer {
        let bytes = answer.memory();
        // Usually there is room for the whole answer and for a reply of the same length, whatever was expected.
        if self.memory.has_room(bytes.saturating_mul(2), 0) {
            return answer;
        }
        let longer = bytes.saturating_sub(self.requests.expected(&batch.shares));
        // The extra length of the answer may also be the extra length of one reply.
        match longer == 0 || self.memory.has_room(longer.saturating_mul(2), incoming) {
            true => answer,
            false => answer.shortened(shortened),
        }
    }

    /// Returns whether each item is for the operation at its position. The position alone does not prove it, unless the
    /// document went to a failure store: releases that have those return the items in order.
    fn fits(self, batch: &Batch, items: &[AnswerItem], is_redirected: impl Fn(&AnswerItem) -> bool) -> bool {
        let fits = |(item, (_, operation)): (&AnswerItem, (&HeldShare, &Operation))| {
            is_for(item, operation) || item.action == operation.action && is_redirected(item)
        };
        items.len() as u64 == batch.operations() && items.iter().zip(self.requests.operations(batch)).all(fits)
    }
}

/// Returns the operations of a share that are wanted again, by their items, and that may be sent again: those that no
/// later operation on the same document has overtaken.
fn wanted_again(
    request: &Request,
    held: &HeldShare,
    items: &[AnswerItem],
    is_wanted: impl Fn(&AnswerItem) -> bool,
) -> Option<HeldShare> {
    if !items.iter().any(&is_wanted) {
        return None;
    }
    let operations: Vec<&Operation> = request.share_operations(held.share, &held.selection).collect();
    let positions: Vec<u32> = request.positions(held).collect();
    let is_unproven = request.is_unproven();
    let (mut again, mut bytes, mut overtaking) = (VecDeque::new(), 0_u64, BTreeSet::new());
    for ((item, operation), position) in items.iter().zip(operations).zip(positions).rev() {
        let document = if is_unproven { Some(0) } else { operation.placement.id_hash };
        if is_wanted(item) && document.is_none_or(|document| !overtaking.contains(&document)) {
            again.push_front(position);
            bytes = bytes.plus(request.body().sent_bytes(operation), "memory bounds a request");
        } else {
            overtaking.extend(document);
        }
    }
    let operations = again.len() as u64;
    let selection = match operations == held.operations {
        true => held.selection.clone(),
        false => Positions::from_iter(again),
    };
    (operations > 0).then(|| HeldShare { selection, bytes, operations, ..held.clone() })
}

/// Returns the failed operations of a share after a lost attempt: the earlier attempt may have been carried out, so a
/// failure proves nothing, unless the document itself caused it.
fn uncertain_part(request: &Request, held: &HeldShare, items: &[AnswerItem]) -> Option<HeldShare> {
    let items = request.positions(held).zip(items);
    let uncertain: Vec<u32> = items.filter(|(_, item)| item.is_uncertain()).map(|(position, _)| position).collect();
    (!uncertain.is_empty()).then(|| HeldShare { selection: Positions::from_iter(uncertain), ..held.clone() })
}

/// Returns whether the answer to a batch has errors, which it says at its beginning.
pub fn has_errors(body: &[u8]) -> bool {
    HAS_ERRORS.find(body.get(..100).unwrap_or(body)).is_some()
}

/// Returns whether an answer with errors shows that an index or a shard no longer matches the table.
pub fn reveals_a_change(body: &[u8]) -> bool {
    const ERRORS: &[&str] =
        &["index_not_found", "index_closed", "cluster_block", "unavailable_shards", "no_shard_available_action"];
    // Nodes may answer with megabytes, so they are searched once, not once for each error.
    EXCEPTION.find_iter(body).any(|end| {
        let before = body.get(..end).unwrap_or_default();
        ERRORS.iter().any(|error| before.ends_with(error.as_bytes()))
    })
}

/// Returns how a call with a batch ended, given the node's answer, and whether it has errors. A node is overloaded if its
/// queue for writes is full or if it has too little memory. A block of an index has the same status 429, but says nothing
/// about the node.
pub fn ending(response: &Response, has_errors: bool) -> Ending {
    const ERRORS: [&str; 3] = [
        r#""type":"es_rejected_execution_exception""#,
        r#""type":"rejected_execution_exception""#,
        r#""type":"circuit_breaking_exception""#,
    ];
    let may_be = match response.status {
        429 => true,
        200 => has_errors && BUSY.find(&response.body).is_some(),
        _ => false,
    };
    let is_in = |error: &&str| memchr::memmem::find(&response.body, error.as_bytes()).is_some();
    match response.status {
        _ if may_be && ERRORS.iter().any(is_in) => Ending::Overloaded,
        200 => Ending::Answered,
        _ => Ending::Failed,
    }
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
