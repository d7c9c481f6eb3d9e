//! Taking requests in: from the headers to the shares on hold.

use std::rc::Rc;

use super::destination::Destination;
use super::head::{Head, content_length};
use super::header_pause::Arrival;
use super::holds::Held;
use super::ids::Ids;
use super::metrics::Counter;
use super::request::{Request, Room};
use super::share::Selection;
use super::{Command, Engine, PassThrough, RequestId};
use crate::config::Limits;
use crate::routing::RoutingTable;

/// For the operator, once.
const NO_STOP: &str = "Envoy does not let a request's body come while its headers are held back. From now on the \
    headers go on at once: set allow_on_headers_stop_iteration, or put a buffer filter right behind this one";

/// The most requests of which it is remembered that something can be learnt when they are over.
const LEARNING: usize = 1000;

impl Engine {
    pub(super) fn request_head(&mut self, id: RequestId, headers: Vec<(String, Vec<u8>)>, end: bool) {
        if self.admin_head(id, &headers, end) {
            return;
        }
        let length = content_length(&headers);
        let Some(head) = self.heads.read(headers, &self.config) else {
            self.flow = Some(Command::PassThrough { request: id, body: Vec::new() });
            return;
        };
        self.state.wake(self.now);
        let head = if self.config.enabled { head } else { Err(PassThrough::Disabled) };
        match head.and_then(|head| self.enter(head, length, end)) {
            Ok(request) => {
                self.requests.insert(id, Box::new(request));
                if !self.header_pauses.enter(id, self.now) {
                    self.flow = Some(Command::PassHeaders { request: id });
                }
            }
            Err(why) => self.pass(id, Vec::new(), why),
        }
    }

    pub(super) fn request_data(&mut self, id: RequestId, chunk: Vec<u8>, end: bool) {
        if self.follows_headers(id) {
            self.flow = Some(Command::PassThrough { request: id, body: vec![chunk] });
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

    pub(super) fn request_end(&mut self, id: RequestId) {
        if self.follows_headers(id) {
            self.flow = Some(Command::PassThrough { request: id, body: Vec::new() });
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

    /// Puts the shares of a request that has ended on hold.
    fn hold(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let mut redirected = Vec::new();
        for (share, details) in (0..=u16::MAX).zip(&mut request.shares) {
            if self.gone.contains(&details.destination.upstream) {
                redirected.push(details.destination.upstream);
                details.destination = Destination::COORDINATOR;
            }
            let held = Held {
                request: id,
                share,
                selection: Selection::All,
                bytes: details.bytes,
                operations: details.operations.len() as u64,
                since: self.now,
            };
            self.holds.add((details.destination, request.caller), held);
        }
        let (operations, unrouted) = (request.operations.len(), request.unrouted.clone());
        self.count(Counter::Operations, operations);
        for (why, operations) in unrouted {
            self.count(Counter::OperationsUnrouted(why), operations);
        }
        redirected.into_iter().for_each(|upstream| self.count_redirected(upstream, 1));
        self.show_sample(id);
    }

    pub(super) fn request_gone(&mut self, id: RequestId) {
        self.responses.remove(&id);
        self.admin_gone(id);
        self.header_pauses.gone(id);
        if self.learning.remove(&id) {
            // What the cluster has made for it can be learnt now.
            self.state.hurry(self.now);
        }
        let Some(request) = self.requests.get_mut(&id) else { return };
        if request.dispatched {
            // Some of it may be carried out already, so all of it will be.
            request.abandoned = true;
            return;
        }
        if request.pending > 0 {
            for share in &request.shares {
                self.holds.forget((share.destination, request.caller), share.bytes, share.operations.len() as u64);
            }
        }
        self.leave(id);
        self.count(Counter::RequestsAbandoned, 1);
    }

    /// Lets the headers of requests go of which no body has come, so that none waits for ever.
    pub(super) fn let_headers_go(&mut self) {
        while let Some(id) = self.header_pauses.next_overdue(self.now) {
            if self.admin_overdue(id) {
                continue;
            }
            if self.requests.get(&id).is_some_and(|request| request.length() == 0) {
                self.leave(id);
                self.count(Counter::RequestsPassedThrough(PassThrough::HeaderPause), 1);
                self.note_passed_through(id, PassThrough::HeaderPause);
                self.header_pauses.resume(id, self.now);
                self.resumes.push_back(id);
            }
        }
    }

    /// Whether a request's headers were let go, so that its body has to follow.
    fn follows_headers(&mut self, id: RequestId) -> bool {
        let arrival = self.header_pauses.body(id, self.now);
        if arrival == (Arrival::Follow { learnt: true }) {
            self.warn(NO_STOP.to_owned());
        }
        arrival != Arrival::Read
    }

    /// Forgets a request.
    pub(super) fn leave(&mut self, id: RequestId) -> Option<Box<Request>> {
        let request = self.requests.remove(&id)?;
        self.callers.leave(request.caller);
        Some(request)
    }

    fn enter(&mut self, head: Rc<Head>, length: Option<u64>, end: bool) -> Result<Request, PassThrough> {
        let room = room(&self.config.limits, self.memory.used(), 0);
        let table = admit(self.table.as_ref(), &head, length, end, room)?;
        self.turn = self.turn.wrapping_add(1);
        let caller = self.callers.enter(Rc::clone(&head.caller));
        let (config, charge) = (Rc::clone(&self.config), self.memory.charge(0));
        Ok(Request::new(head, caller, table, config, self.turn, charge))
    }

    /// Lets a request take in more, and keeps account of the memory.
    fn change<T>(&mut self, id: RequestId, act: impl FnOnce(&mut Request, Room, &mut Ids) -> T) -> Option<T> {
        // One that has ended takes nothing more.
        let request = self.requests.get_mut(&id).filter(|request| request.pending == 0)?;
        let room = room(&self.config.limits, self.memory.used(), request.length());
        let result = act(request, room, &mut self.ids);
        request.recharge();
        Some(result)
    }

    /// A request that was taken in passes on whole after all.
    fn give_back(&mut self, id: RequestId, why: PassThrough) {
        if let Some(request) = self.leave(id) {
            request.unknown.iter().for_each(|name| self.state.want(name));
            self.pass(id, request.into_chunks(), why);
        }
    }

    fn pass(&mut self, request: RequestId, body: Vec<Vec<u8>>, why: PassThrough) {
        if matches!(why, PassThrough::Unrouted(why) if why.may_pass_soon()) && self.learning.len() < LEARNING {
            self.learning.insert(request);
        }
        self.count(Counter::RequestsPassedThrough(why), 1);
        self.note_passed_through(request, why);
        self.flow = Some(Command::PassThrough { request, body });
    }
}

/// The table for a request that may be read, as far as its headers tell.
pub(super) fn admit(
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
    if room.of_memory < Request::least_memory(head.gzip) {
        return Err(PassThrough::Memory);
    }
    Ok(Rc::clone(table))
}

/// How much more of a request there is room for, of which so much is here.
pub(super) fn room(limits: &Limits, memory: u64, length: u64) -> Room {
    Room { of_request: limits.max_request.saturating_sub(length), of_memory: limits.memory.saturating_sub(memory) }
}
