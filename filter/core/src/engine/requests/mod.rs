//! The bulk requests that are being read, split or waited for: their operations, their shares with the outcomes, and
//! their replies.
//!
//! It may read heads and tables, and it knows what a held share is. It knows nothing of holds, calls and answers that
//! are still to be read.

mod answer_room;
mod bulk_request;
mod document_reply;
mod headers;
mod id_generator;
mod operation_router;
mod outcome;
mod refusals;
mod reply;
mod request_body;
mod shard_chooser;
mod share;
mod share_list;

use hashbrown::HashMap;

use crate::bulk::Operation;
use crate::config::IdentityHeaders;
use crate::engine::batching::{Batch, HeldShare, Moved};
use crate::engine::command::{Headers, RequestId};
use crate::engine::head::{CallerId, Callers, Head, SlotClass};
use crate::invariant::found;

pub use bulk_request::{Part, Request};
pub use id_generator::{IdGenerator, Origin};
pub use operation_router::Basis;
pub use outcome::{ItemNumbers, NodeAnswer, Outcome, Refusal, WholeAnswer, shortened};
pub use refusals::Refusals;
pub use shard_chooser::ChosenShards;

/// Why the request of a share in a batch is always found.
const STAYS: &str = "a request stays until all of its shares have their outcomes";

/// The requests that are being read, held or in flight, and their callers.
#[derive(Debug, Default)]
pub struct Requests {
    /// Boxed, because the table has more slots than requests.
    open: HashMap<RequestId, Box<Request>>,
    callers: Callers,
    /// The writers of single documents that are often refused.
    pub refusals: Refusals,
}

impl Requests {
    /// Registers one more request of a caller. Returns the number of the caller and the slots that its batches take.
    pub fn enter(&mut self, head: &Head, identity: &IdentityHeaders) -> (CallerId, SlotClass) {
        self.callers.enter(head.caller_hash, &head.caller, identity)
    }

    /// Adds a request whose caller has [entered](Self::enter).
    pub fn add(&mut self, id: RequestId, request: Request) {
        self.open.insert(id, Box::new(request));
    }

    /// Removes a request.
    pub fn remove(&mut self, id: RequestId) -> Option<Box<Request>> {
        let request = self.open.remove(&id)?;
        self.callers.leave(request.caller);
        Some(request)
    }

    /// Returns a request.
    pub fn get(&self, id: RequestId) -> Option<&Request> {
        self.open.get(&id).map(Box::as_ref)
    }

    /// Returns a request, to change it.
    pub fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        self.open.get_mut(&id).map(Box::as_mut)
    }

    /// Returns whether a request still exists.
    pub fn contains(&self, id: RequestId) -> bool {
        self.open.contains_key(&id)
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Registers a request whose body has ended under the caller of what its lines require.
    pub fn separate_caller(&mut self, id: RequestId, identity: &IdentityHeaders) {
        let Some(request) = self.open.get_mut(&id) else { return };
        separate(&mut self.callers, request, identity);
    }

    /// Does the same for a request that passes through.
    pub fn separate(&mut self, request: &mut Request, identity: &IdentityHeaders) {
        separate(&mut self.callers, request, identity);
    }

    /// Unregisters a request that was not added.
    pub fn leave(&mut self, caller: CallerId) {
        self.callers.leave(caller);
    }

    /// Returns whether no caller has a request.
    #[cfg(test)]
    pub fn callers_are_idle(&self) -> bool {
        self.callers.are_idle()
    }

    /// Returns the headers that a batch of a caller is sent with.
    pub fn headers(&self, caller: CallerId) -> Headers {
        found(self.callers.get(caller), "each request of a batch keeps its caller registered")
            .cloned()
            .unwrap_or_default()
    }

    /// Returns the request of a share that was sent.
    pub fn of(&self, held: &HeldShare) -> Option<&Request> {
        found(self.get(held.request), STAYS)
    }

    /// Returns the request of a share that was sent, to change it.
    pub fn of_mut(&mut self, held: &HeldShare) -> Option<&mut Request> {
        found(self.get_mut(held.request), STAYS)
    }

    /// Returns the operations of a batch in the order in which they were sent, each with its share.
    pub fn operations<'a>(&'a self, batch: &'a Batch) -> impl Iterator<Item = (&'a HeldShare, &'a Operation)> {
        let requests = batch.shares.iter().filter_map(|held| Some((self.of(held)?, held)));
        requests.flat_map(|(request, held)| {
            request.share_operations(held.share, &held.selection).map(move |operation| (held, operation))
        })
    }

    /// Returns whether carrying out a share twice has the same effect as once.
    pub fn is_idempotent(&self, held: &HeldShare) -> bool {
        let mut requests = self.of(held).into_iter();
        requests.all(|request| request.share_operations(held.share, &held.selection).all(Operation::is_idempotent))
    }

    /// Returns the bytes that are reserved for the answer to these shares.
    pub fn expected(&self, shares: &[HeldShare]) -> u64 {
        shares.iter().filter_map(|held| Some(self.of(held)?.answer_room.expected(held.operations))).sum()
    }

    /// Notes that a share is held for another destination now.
    pub fn moved(&mut self, Moved { request, share, destination }: Moved) {
        let request = found(self.get_mut(request), "a share is moved only if its request exists");
        let share = request.and_then(|request| found(request.shares.get_mut(usize::from(share)), "it has the share"));
        share.into_iter().for_each(|share| share.destination = destination);
    }
}

fn separate(callers: &mut Callers, request: &mut Request, identity: &IdentityHeaders) {
    let hash = request.caller_hash();
    if hash != request.head().caller_hash {
        let entered = callers.enter(hash, &request.head().caller, identity);
        callers.leave(request.caller);
        (request.caller, request.class) = entered;
    }
}
