//! Accepts requests: from the headers to the held shares.

use std::rc::Rc;

use hashbrown::HashSet;

use super::command::{Command, RequestId};
use super::head::{Arrival, Document, Head, HeadCache, HeaderPauses, Routes, WithDocument, content_length};
use super::memory::Room;
use super::metrics::Counter;
use super::observation::{Observations, Writer};
use super::observe;
use super::pass_through::PassThrough;
use super::requests::{Basis, IdGenerator, Origin, Request};
use super::settlement::Settlement;
use crate::config::{Config, Enabled};
use crate::routing::{RoutingTable, Unrouted, UpstreamId};

/// The warning for the operator when header pauses turn out not to work.
const NO_STOP: &str = "Envoy does not let a request's body come while its headers are held back. From now on, the \
    filter lets headers continue at once. Set allow_on_headers_stop_iteration, or put a buffer filter directly after \
    this one";

/// The bytes that a chunk uses in the list of chunks that are returned to the stream.
const PER_CHUNK: u64 = 64;

/// The maximum number of requests whose end triggers a poll of the cluster state.
const MAY_SOON_SPLIT: usize = 1000;

/// Reads requests and decides whether they are split. It only has what it remembers from request to request: the rest
/// is lent for each step, by the [`Settlement`] that holds the shares.
#[derive(Debug)]
pub struct Intake {
    routes: Routes,
    heads: HeadCache,
    /// The requests whose headers are held back.
    pub pauses: HeaderPauses,
    /// Requests that passed through for a reason that may soon no longer apply, such as an unknown index.
    may_soon_split: HashSet<RequestId>,
    /// The requests that pass through and are observed.
    pub observations: Observations,
    /// The generator of ids for operations without one.
    pub ids: IdGenerator,
    /// The round-robin counter that chooses nodes for operations without an id.
    pub round_robin: usize,
}

impl Intake {
    /// Starts without requests.
    pub fn new(config: &Config, origin: Origin) -> Self {
        Self {
            routes: Routes::default(),
            heads: HeadCache::default(),
            pauses: HeaderPauses::new(config.header_pause),
            may_soon_split: HashSet::new(),
            observations: Observations::new(config),
            ids: IdGenerator::new(origin),
            round_robin: 0,
        }
    }

    /// Handles the headers of a request.
    pub fn head(
        &mut self,
        settlement: &mut Settlement<'_>,
        id: RequestId,
        headers: Vec<(String, Vec<u8>)>,
        route: Option<&[u8]>,
        end: bool,
    ) {
        let enabled = settlement.config.enabled;
        if enabled != Enabled::No && !self.routes.lead_here(route, settlement.config) {
            return self.pass_elsewhere(settlement, id, &headers, route);
        }
        let length = content_length(&headers);
        let is_document = Document::is_in(&headers, settlement.config, settlement.cluster.table().map(Rc::as_ref));
        if is_document && enabled == Enabled::Observe {
            return self.pass(settlement, id, Vec::new(), PassThrough::Observed);
        }
        let observed = (enabled == Enabled::Observe).then(|| written_by(&headers, settlement.config));
        let Some(read) = self.read(settlement, headers, is_document) else {
            settlement.outbox.decide(Command::PassThrough { request: id, body: Vec::new() });
            return;
        };
        settlement.cluster.serve(settlement.now);
        let read = if enabled == Enabled::No { Err(PassThrough::Disabled) } else { read };
        match (read.and_then(|(head, document)| self.enter(settlement, head, document, (length, end))), observed) {
            (Ok(request), None) => {
                settlement.requests.add(id, request);
                match end {
                    true => _ = self.end(settlement, id),
                    false => self.hold_headers(settlement, id),
                }
            }
            (Err(why), None) => self.pass(settlement, id, Vec::new(), why),
            (Ok(request), Some((writer, _))) => self.observe(settlement, id, request, writer),
            (Err(why), Some(observed)) => {
                self.observations.begin_unread(settlement, id, observed, why);
                self.pass(settlement, id, Vec::new(), PassThrough::Observed);
            }
        }
    }

    /// Reads headers, of a single document those of the bulk request for which it stands. Returns `None` for any other
    /// request.
    fn read(
        &mut self,
        settlement: &Settlement<'_>,
        mut headers: Vec<(String, Vec<u8>)>,
        is_document: bool,
    ) -> Option<Result<WithDocument<Rc<Head>>, PassThrough>> {
        let mut document = match is_document.then(|| Document::read(&mut headers).map(Box::new)).transpose() {
            Ok(document) => document,
            Err(why) => return Some(Err(why)),
        };
        let head = self.heads.read(headers, settlement.config)?;
        Some(head.map(|head| {
            if let Some(document) = &mut document {
                document.writer = self.heads.hash((head.caller_hash, &document.write.index, document.write.action));
            }
            (head, document)
        }))
    }

    /// Lets a request continue, and reads a copy of its body.
    fn observe(&mut self, settlement: &mut Settlement<'_>, id: RequestId, request: Request, writer: Writer) {
        settlement.count(Counter::RequestsPassedThrough(PassThrough::Observed), 1);
        observe::log_passed_through(settlement.outbox, settlement.config, id, PassThrough::Observed);
        settlement.outbox.decide(Command::Observe { request: id });
        self.observations.begin(settlement, id, request, writer);
    }

    /// Holds the headers of a request back, if Envoy delivers a body without them.
    pub fn hold_headers(&mut self, settlement: &mut Settlement<'_>, id: RequestId) {
        if !self.pauses.enter(id, settlement.now) {
            settlement.outbox.decide(Command::PassHeaders { request: id });
        }
    }

    /// Lets a request continue to another upstream. Such requests do not start cluster-state polls.
    fn pass_elsewhere(
        &mut self,
        settlement: &mut Settlement<'_>,
        id: RequestId,
        headers: &[(String, Vec<u8>)],
        route: Option<&[u8]>,
    ) {
        let table = settlement.cluster.table().map(Rc::as_ref);
        if !Head::is_bulk(headers) && !Document::is_in(headers, settlement.config, table) {
            settlement.outbox.decide(Command::PassThrough { request: id, body: Vec::new() });
            return;
        }
        if let Some(warning) = self.routes.warning(route, settlement.config) {
            settlement.outbox.warn(&warning, settlement.now);
        }
        self.pass(settlement, id, Vec::new(), PassThrough::Route);
    }

    /// Lets a chunk of a body, or its end, follow the headers if they have already continued. Returns the chunk if the
    /// body is to be read.
    pub fn follow_headers(
        &mut self,
        settlement: &mut Settlement<'_>,
        id: RequestId,
        chunk: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let arrival = self.pauses.body(id, settlement.now);
        if arrival == (Arrival::Follow { newly_detected: true }) {
            settlement.outbox.warn(NO_STOP, settlement.now);
        }
        if arrival == Arrival::Read {
            return Some(chunk);
        }
        let body = if chunk.is_empty() { Vec::new() } else { vec![chunk] };
        settlement.outbox.decide(Command::PassThrough { request: id, body });
        None
    }

    /// Reads a chunk of a body, which is empty if trailers end the request. Returns whether the request was held now.
    pub fn data(&mut self, settlement: &mut Settlement<'_>, id: RequestId, chunk: Vec<u8>, end: bool) -> bool {
        if !chunk.is_empty()
            && let Some(Err(why)) = self.change(settlement, id, |request, room, ids| request.take(chunk, room, ids))
        {
            self.give_back(settlement, id, why);
            return false;
        }
        end && self.end(settlement, id)
    }

    /// Handles the end of a body. Returns whether the request was held now.
    fn end(&mut self, settlement: &mut Settlement<'_>, id: RequestId) -> bool {
        let (now, stale_after) = (settlement.now, settlement.config.cluster_state.stale_after);
        let newest = settlement.cluster.fresh_table(now).map(Rc::as_ptr);
        let finished = self.change(settlement, id, |request, room, ids| {
            // The body may have taken so long that the table of its headers is too old.
            let is_old = now.saturating_sub(request.arrived()) > stale_after;
            if newest.is_none_or(|newest| is_old && !std::ptr::eq(newest, request.table())) {
                return Err(PassThrough::NoState);
            }
            request.finish(room, ids).map(|()| request.routed.is_observed)
        });
        match finished {
            Some(Ok(true)) => {
                self.observations.count(settlement, id);
                self.give_back(settlement, id, PassThrough::Observed);
            }
            Some(Ok(false)) => {
                hold(settlement, id);
                return true;
            }
            Some(Err(why)) => self.give_back(settlement, id, why),
            None => {}
        }
        false
    }

    /// Handles the end of a request: it was answered, it passed through, or its client has disconnected.
    pub fn gone(&mut self, settlement: &mut Settlement<'_>, id: RequestId) {
        self.pauses.gone(id);
        self.observations.gone(settlement, id);
        if self.may_soon_split.remove(&id) {
            // The cluster state may now show what the cluster created for the request.
            settlement.cluster.poll_soon(settlement.now);
        }
        let Some(request) = settlement.requests.get_mut(id) else { return };
        if request.abandon() {
            return;
        }
        if let Some(ticket) = request.progress.original {
            // A request for a single document that is to be sent itself is in no hold.
            let class = request.class;
            settlement.holds.withdraw(UpstreamId::COORDINATOR, class, ticket);
        } else if request.is_whole() {
            let (caller, held) = (request.caller, request.held());
            let requests = &*settlement.requests;
            let is_here = |other: RequestId| other != id && requests.contains(other);
            for (destination, gone) in held {
                settlement.holds.forget((destination, caller), gone, settlement.now, is_here);
            }
        }
        settlement.requests.remove(id);
        settlement.count(Counter::RequestsAbandoned, 1);
    }

    /// Lets the headers of a request without a body continue, which waited for too long, so that no request waits
    /// forever.
    pub fn let_headers_go(&mut self, settlement: &mut Settlement<'_>, id: RequestId, was_suspected: bool) {
        if settlement.requests.get(id).is_some_and(|request| request.body().length() == 0) {
            settlement.requests.remove(id);
            settlement.count(Counter::RequestsPassedThrough(PassThrough::HeaderPause), 1);
            observe::log_passed_through(settlement.outbox, settlement.config, id, PassThrough::HeaderPause);
            self.pauses.resume(id, was_suspected, settlement.now);
            settlement.outbox.resume(id);
        }
    }

    fn enter(
        &mut self,
        settlement: &mut Settlement<'_>,
        head: Rc<Head>,
        document: Option<Box<Document>>,
        (length, end): (Option<u64>, bool),
    ) -> Result<Request, PassThrough> {
        let room = settlement.memory.room(settlement.config.limits.max_request);
        let table = settlement.cluster.fresh_table(settlement.now);
        let table = admit(table, (&head, document.as_deref()), (length, end), room)?;
        if document.as_ref().is_some_and(|document| settlement.requests.refusals.are_often(document.writer)) {
            return Err(PassThrough::OftenRefused);
        }
        self.round_robin = self.round_robin.wrapping_add(1);
        let caller = settlement.requests.enter(&head, &settlement.config.dispatch.identity);
        let charge = settlement.memory.charge(Request::least_memory(&head, document.as_deref()));
        let (config, apart) = (Rc::clone(settlement.config), settlement.holds.apart());
        let may_compress = settlement.cluster.may_compress(config.dispatch.compress);
        let (arrived, round_robin) = (settlement.now, self.round_robin);
        let basis = Basis { head, config, table, arrived, apart, round_robin, may_compress, document };
        Ok(Request::new(basis, caller, charge))
    }

    /// Changes a request whose body has not ended, within the memory that is left.
    fn change<T>(
        &mut self,
        settlement: &mut Settlement<'_>,
        id: RequestId,
        act: impl FnOnce(&mut Request, Room, &mut IdGenerator) -> T,
    ) -> Option<T> {
        // A request whose body has ended accepts no more data.
        let request = settlement.requests.get_mut(id).filter(|request| !request.is_whole())?;
        let left = settlement.config.limits.max_request.saturating_sub(request.body().length());
        let room = settlement.memory.room(left);
        Some(act(request, room, &mut self.ids))
    }

    /// Passes an accepted request through unchanged after all.
    fn give_back(&mut self, settlement: &mut Settlement<'_>, id: RequestId, why: PassThrough) {
        if let Some(request) = settlement.requests.remove(id) {
            request.routed.unknown.iter().for_each(|name| settlement.cluster.want(name));
            if why == PassThrough::Unrouted(Unrouted::NamedPipeline) {
                settlement.cluster.want_pipelines(settlement.now);
            }
            self.pass(settlement, id, request.into_chunks(), why);
        }
    }

    fn pass(&mut self, settlement: &mut Settlement<'_>, request: RequestId, body: Vec<Vec<u8>>, why: PassThrough) {
        if matches!(why, PassThrough::Unrouted(why) if why.may_pass_soon())
            && self.may_soon_split.len() < MAY_SOON_SPLIT
        {
            self.may_soon_split.insert(request);
        }
        settlement.count(Counter::RequestsPassedThrough(why), 1);
        observe::log_passed_through(settlement.outbox, settlement.config, request, why);
        settlement.outbox.hand_out(body.iter().map(|chunk| chunk.capacity() as u64 + PER_CHUNK).sum());
        settlement.outbox.decide(Command::PassThrough { request, body });
    }
}

/// Returns who sends a request with these headers, and the index in its path.
fn written_by(headers: &[(String, Vec<u8>)], config: &Config) -> (Writer, Option<String>) {
    let all = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
    (Writer::of(all, &config.dispatch.identity), Head::index_in_path(headers))
}

/// Holds the shares of a request whose body has ended.
fn hold(settlement: &mut Settlement<'_>, id: RequestId) {
    settlement.requests.separate_caller(id, &settlement.config.dispatch.identity);
    let Some(request) = settlement.requests.get(id) else { return };
    let shares = request.shares.len();
    let (operations, unrouted) = (request.operations.len(), request.routed.unrouted.clone());
    if request.is_unproven() {
        // Its pipelines may not have been queried yet.
        settlement.cluster.want_pipelines(settlement.now);
    }
    (0..=u16::MAX).take(shares).for_each(|share| settlement.hold_part(id, share));
    settlement.count(Counter::Operations, operations);
    for (why, operations) in unrouted {
        settlement.count(Counter::OperationsUnrouted(why), operations);
    }
}

/// Returns the routing table if the headers allow the request to be read.
pub fn admit(
    table: Option<&Rc<RoutingTable>>,
    (head, document): (&Head, Option<&Document>),
    (length, end): (Option<u64>, bool),
    room: Room,
) -> Result<Rc<RoutingTable>, PassThrough> {
    if end && document.is_none_or(|document| document.write.action.has_source()) {
        return Err(PassThrough::Empty);
    }
    let table = table.ok_or(PassThrough::NoState)?;
    if length.is_some_and(|length| length > room.bytes()) {
        return Err(room.beyond());
    }
    if room.free() < Request::least_memory(head, document) {
        return Err(PassThrough::Memory);
    }
    Ok(Rc::clone(table))
}
