//! Accepts requests: from the headers to the held shares.

use std::rc::Rc;

use crate::config::Limits;
use crate::engine::Engine;
use crate::engine::batching::HeldShare;
use crate::engine::command::{Command, RequestId};
use crate::engine::head::{Arrival, Head, SlotClass, content_length};
use crate::engine::memory::Memory;
use crate::engine::metrics::Counter;
use crate::engine::pass_through::PassThrough;
use crate::engine::request::{IdGenerator, Part, Request, Room};
use crate::routing::{RoutingTable, Unrouted};

/// The warning for the operator when header pauses turn out not to work.
const NO_STOP: &str = "Envoy does not let a request's body come while its headers are held back. From now on, the \
    filter lets headers continue at once. Set allow_on_headers_stop_iteration, or put a buffer filter directly after \
    this one";

/// The bytes that a chunk uses in the list of chunks that are returned to the stream.
const PER_CHUNK: u64 = 64;

/// The maximum number of requests whose end triggers a poll of the cluster state.
const MAY_SOON_SPLIT: usize = 1000;

impl Engine {
    pub(crate) fn request_head(
        &mut self,
        id: RequestId,
        headers: Vec<(String, Vec<u8>)>,
        route: Option<Vec<u8>>,
        end: bool,
    ) {
        if self.admin_head(id, &headers, end) {
            return;
        }
        if self.settings.current.enabled && !self.routes.lead_here(route.as_deref(), &self.settings.current) {
            return self.pass_elsewhere(id, &headers, route.as_deref());
        }
        let length = content_length(&headers);
        let Some(head) = self.heads.read(headers, &self.settings.current) else {
            self.outbox.decide(Command::PassThrough { request: id, body: Vec::new() });
            return;
        };
        self.cluster.state.wake(self.now);
        let head = if self.settings.current.enabled { head } else { Err(PassThrough::Disabled) };
        match head.and_then(|head| self.enter(head, length, end)) {
            Ok(request) => {
                self.requests.insert(id, Box::new(request));
                if !self.header_pauses.enter(id, self.now) {
                    self.outbox.decide(Command::PassHeaders { request: id });
                }
            }
            Err(why) => self.pass(id, Vec::new(), why),
        }
    }

    /// Lets a request continue to another upstream. Such requests do not start cluster-state polls.
    fn pass_elsewhere(&mut self, id: RequestId, headers: &[(String, Vec<u8>)], route: Option<&[u8]>) {
        if !Head::is_bulk(headers) {
            self.outbox.decide(Command::PassThrough { request: id, body: Vec::new() });
            return;
        }
        if let Some(warning) = self.routes.warning(route, &self.settings.current) {
            self.warn(warning);
        }
        self.pass(id, Vec::new(), PassThrough::Route);
    }

    pub(crate) fn request_data(&mut self, id: RequestId, chunk: Vec<u8>, end: bool) {
        if self.follows_headers(id) {
            self.outbox.decide(Command::PassThrough { request: id, body: vec![chunk] });
            return;
        }
        if self.admin_data(id, &chunk, end) {
            return;
        }
        match self.change(id, |request, room, ids| request.take(chunk, room, ids)) {
            Some(Ok(())) if end => self.request_end(id),
            Some(Err(why)) => self.give_back(id, why),
            _ => {}
        }
    }

    pub(crate) fn request_end(&mut self, id: RequestId) {
        if self.follows_headers(id) {
            self.outbox.decide(Command::PassThrough { request: id, body: Vec::new() });
            return;
        }
        if self.admin_end(id) {
            return;
        }
        match self.change(id, |request, _, _| request.finish()) {
            Some(Ok(())) => self.hold(id),
            Some(Err(why)) => self.give_back(id, why),
            None => {}
        }
    }

    /// Holds the shares of a request whose body has ended.
    fn hold(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let hash = request.caller_hash();
        if hash != request.head.caller_hash {
            let identity = &self.settings.current.dispatch.identity;
            let entered = self.callers.enter(hash, &request.head.caller, identity);
            self.callers.leave(request.caller);
            (request.caller, request.class) = entered;
        }
        let shares = request.shares.len();
        let (operations, unrouted) = (request.operations.len(), request.unrouted.clone());
        if request.is_unproven() {
            // Its pipelines may not have been queried yet.
            self.cluster.state.want_pipelines(self.now);
        }
        (0..=u16::MAX).take(shares).for_each(|share| _ = self.hold_part(id, share));
        self.count(Counter::Operations, operations);
        for (why, operations) in unrouted {
            self.count(Counter::OperationsUnrouted(why), operations);
        }
        self.show_sample(id);
    }

    /// Holds the next part of a share. Returns whether there was one.
    pub(crate) fn hold_part(&mut self, id: RequestId, share: u16) -> bool {
        let Some(request) = self.requests.get_mut(&id) else { return false };
        let Some(part) = request.next_part(share, self.settings.current.limits.max_answer) else { return false };
        let (caller, class) = (request.caller, request.class);
        let Some(found) = request.shares.get_mut(usize::from(share)) else { return false };
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
        true
    }

    pub(crate) fn request_gone(&mut self, id: RequestId) {
        self.outbox.forget(id);
        self.admin_gone(id);
        self.header_pauses.gone(id);
        if self.may_soon_split.remove(&id) {
            // The cluster state may now show what the cluster created for the request.
            self.cluster.state.poll_soon(self.now);
        }
        let Some(request) = self.requests.get_mut(&id) else { return };
        if request.dispatched {
            // Some of it may already have been carried out, so the rest is carried out too.
            request.abandoned = true;
            return;
        }
        if request.pending > 0 {
            let (caller, held) = (request.caller, request.held());
            let requests = &self.requests;
            let is_here = |other: RequestId| other != id && requests.contains_key(&other);
            for (destination, gone) in held {
                self.holds.forget((destination, caller), gone, self.now, is_here);
            }
        }
        self.leave(id);
        self.count(Counter::RequestsAbandoned, 1);
    }

    /// Lets the headers of requests without a body continue, so that no request waits forever.
    pub(crate) fn let_headers_go(&mut self) {
        while let Some((id, was_suspected)) = self.header_pauses.next_overdue(self.now) {
            if self.admin_overdue(id) {
                continue;
            }
            if self.requests.get(&id).is_some_and(|request| request.length() == 0) {
                self.leave(id);
                self.count(Counter::RequestsPassedThrough(PassThrough::HeaderPause), 1);
                self.record_passed_through(id, PassThrough::HeaderPause);
                self.header_pauses.resume(id, was_suspected, self.now);
                self.outbox.resume(id);
            }
        }
    }

    /// Returns whether a request's headers have already continued, so that its body must follow.
    fn follows_headers(&mut self, id: RequestId) -> bool {
        let arrival = self.header_pauses.body(id, self.now);
        if arrival == (Arrival::Follow { newly_detected: true }) {
            self.warn(NO_STOP.to_owned());
        }
        arrival != Arrival::Read
    }

    /// Removes a request.
    pub(crate) fn leave(&mut self, id: RequestId) -> Option<Box<Request>> {
        let request = self.requests.remove(&id)?;
        self.callers.leave(request.caller);
        Some(request)
    }

    fn enter(&mut self, head: Rc<Head>, length: Option<u64>, end: bool) -> Result<Request, PassThrough> {
        let room = room(&self.settings.current.limits, &self.memory, 0);
        let table = admit(self.cluster.fresh_table(self.now), &head, length, end, room)?;
        self.round_robin = self.round_robin.wrapping_add(1);
        let (caller, class) =
            self.callers.enter(head.caller_hash, &head.caller, &self.settings.current.dispatch.identity);
        let apart = self.holds.apart();
        let (config, charge) = (Rc::clone(&self.settings.current), self.memory.charge(Request::least_memory(&head)));
        Ok(Request::new(head, (caller, class), (table, apart), config, self.round_robin, charge))
    }

    /// Changes a request whose body has not ended, within the memory that is left.
    fn change<T>(&mut self, id: RequestId, act: impl FnOnce(&mut Request, Room, &mut IdGenerator) -> T) -> Option<T> {
        // A request whose body has ended accepts no more data.
        let request = self.requests.get_mut(&id).filter(|request| request.pending == 0)?;
        let room = room(&self.settings.current.limits, &self.memory, request.length());
        Some(act(request, room, &mut self.ids))
    }

    /// Passes an accepted request through unchanged after all.
    fn give_back(&mut self, id: RequestId, why: PassThrough) {
        if let Some(request) = self.leave(id) {
            request.unknown.iter().for_each(|name| self.cluster.state.want(name));
            if why == PassThrough::Unrouted(Unrouted::NamedPipeline) {
                self.cluster.state.want_pipelines(self.now);
            }
            let chunks = request.into_chunks();
            self.pass(id, chunks, why);
        }
    }

    fn pass(&mut self, request: RequestId, body: Vec<Vec<u8>>, why: PassThrough) {
        if matches!(why, PassThrough::Unrouted(why) if why.may_pass_soon())
            && self.may_soon_split.len() < MAY_SOON_SPLIT
        {
            self.may_soon_split.insert(request);
        }
        self.count(Counter::RequestsPassedThrough(why), 1);
        self.record_passed_through(request, why);
        self.outbox.hand_out(body.iter().map(|chunk| chunk.capacity() as u64 + PER_CHUNK).sum());
        self.outbox.decide(Command::PassThrough { request, body });
    }
}

/// Returns the routing table if the headers allow the request to be read.
pub(crate) fn admit(
    table: Option<&Rc<RoutingTable>>,
    head: &Head,
    length: Option<u64>,
    end: bool,
    room: Room,
) -> Result<Rc<RoutingTable>, PassThrough> {
    if end {
        return Err(PassThrough::Empty);
    }
    let table = table.ok_or(PassThrough::NoState)?;
    if length.is_some_and(|length| length > room.bytes()) {
        return Err(room.beyond());
    }
    if room.free() < Request::least_memory(head) {
        return Err(PassThrough::Memory);
    }
    Ok(Rc::clone(table))
}

/// Returns how much more of a request there is room for, given the bytes that have arrived.
pub(crate) fn room(limits: &Limits, memory: &Memory, length: u64) -> Room {
    Room {
        of_request: limits.max_request.saturating_sub(length),
        of_memory: limits.memory.saturating_sub(memory.used()),
        scratch: memory.scratch(),
    }
}
