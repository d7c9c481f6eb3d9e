use std::collections::BTreeMap;

use super::answer_room::AnswerRoom;
use super::id_generator::IdGenerator;
use super::operation_router::{Basis, Names, OperationRouter, Requirements, Routed, RoutedOperation};
use super::outcome::Outcome;
use super::request_body::RequestBody;
use super::share::Share;
use super::share_list::ShareList;
use crate::Time;
use crate::bulk::{Body, InflateError, Inflater, Operation, Placement};
use crate::engine::batching::{Destination, HeldShare, Positions, Ticket, Waiting};
use crate::engine::head::{CallerId, Document, Head, SlotClass};
use crate::engine::memory::{Charge, Room, Scratch};
use crate::engine::pass_through::PassThrough;
use crate::invariant::Count;
use crate::routing::{RoutingTable, Unrouted, may_have_metadata};

/// A bulk request, or a write of a single document, that is being read, held or in flight.
#[derive(Debug)]
pub struct Request {
    /// The caller whose batches it may share.
    pub caller: CallerId,
    /// The slots that its batches take.
    pub class: SlotClass,
    basis: Basis,
    body: RequestBody,
    /// The operations, in the order of the request.
    pub operations: Vec<Operation>,
    /// The shares, one for each destination of an operation.
    pub shares: ShareList,
    /// What is known about its operations.
    pub routed: Routed,
    pub answer_room: AnswerRoom,
    pub progress: Progress,
    charge: Charge,
    scratch: Scratch,
}

/// How far a request has come after its body.
#[derive(Debug, Default)]
pub struct Progress {
    /// The number of shares without an outcome; 0 until the body has ended.
    pending: usize,
    /// Whether any share has left.
    is_dispatched: bool,
    /// The longest time that a share was held.
    pub held: Time,
    /// Whether the client has disconnected.
    pub is_abandoned: bool,
    /// Whether the request for a single document was sent itself, because its operation was refused.
    pub is_original_sent: bool,
    /// The place of that request in the queue, until it leaves.
    pub original: Option<Ticket>,
}

/// A part of a share, which is sent in one batch.
#[derive(Debug)]
pub struct Part {
    /// Its operations.
    pub selection: Positions,
    /// The number of operations.
    pub operations: u64,
    /// Bytes of their lines.
    pub bytes: u64,
    /// Bytes of the longest possible answer to them.
    pub answer: u64,
}

/// The factor by which `pretty` lengthens an answer.
const PRETTY_FACTOR: u64 = 3;

impl Request {
    /// Creates a request, of whose body nothing has arrived.
    pub fn new(mut basis: Basis, (caller, class): (CallerId, SlotClass), charge: Charge) -> Self {
        let mut body = RequestBody::new(basis.head.gzip);
        basis.document.iter_mut().for_each(|document| body.begin_with(document.take_line()));
        Self {
            caller,
            class,
            body,
            operations: Vec::new(),
            shares: ShareList::default(),
            routed: Routed::default(),
            answer_room: AnswerRoom::default(),
            progress: Progress::default(),
            basis,
            scratch: charge.scratch(),
            charge,
        }
    }

    /// Returns about how many bytes a request uses before its body arrives.
    pub fn least_memory(head: &Head, document: Option<&Document>) -> u64 {
        let inflater = if head.gzip { Inflater::MEMORY } else { 0 };
        let document = document.map_or(0, Document::memory);
        inflater.saturating_add(size_of::<Self>() as u64).saturating_add(head.memory).saturating_add(document)
    }

    /// Returns the single document that it writes, unless it is a bulk request.
    pub fn document(&self) -> Option<&Document> {
        self.basis.document.as_deref()
    }

    /// Returns the parsed headers.
    pub fn head(&self) -> &Head {
        &self.basis.head
    }

    /// Returns the table that routes its operations.
    pub fn table(&self) -> &RoutingTable {
        &self.basis.table
    }

    /// Returns the body.
    pub fn body(&self) -> &RequestBody {
        &self.body
    }

    /// Returns when the headers arrived.
    pub fn arrived(&self) -> Time {
        self.basis.arrived
    }

    /// Returns the body as it arrived.
    pub fn into_chunks(self) -> Vec<Vec<u8>> {
        self.body.into_chunks()
    }

    /// Accepts the next chunk of the body, and reads the operations in it.
    pub fn take(&mut self, chunk: Vec<u8>, room: Room, ids: &mut IdGenerator) -> Result<(), PassThrough> {
        let fits = chunk.len() as u64 <= room.bytes();
        let memory = self.charge.bytes();
        if self.body.is_compressed() {
            let result = if fits { self.inflate(&chunk, room, ids) } else { Err(room.beyond()) };
            self.body.push(chunk);
            return result;
        }
        self.body.push(chunk);
        if fits { self.read(ids, room, memory) } else { Err(room.beyond()) }
    }

    fn inflate(&mut self, chunk: &[u8], all: Room, ids: &mut IdGenerator) -> Result<(), PassThrough> {
        // The compressed chunk is kept too.
        let memory = self.charge.bytes().saturating_sub(Body::chunk_memory(chunk.len()));
        let (length, mut rest) = (self.body.plain_length(), chunk);
        loop {
            let inflated = self.body.plain_length().minus(length, "a body only grows");
            let room = all.less(inflated, self.memory().saturating_sub(memory));
            let is_more = self.body.inflate(&mut rest, room.bytes()).map_err(|error| match error {
                InflateError::Malformed => PassThrough::Gzip,
                InflateError::TooLarge => room.beyond(),
            })?;
            if !is_more {
                return self.check_room(all, memory);
            }
            self.read(ids, all, memory)?;
        }
    }

    /// Ends the body. Returns the reason to pass through if the filter does not accept the whole body.
    pub fn finish(&mut self, room: Room, ids: &mut IdGenerator) -> Result<(), PassThrough> {
        if let Some(document) = &self.basis.document {
            let is_complete = match document.write.action.has_source() {
                true => self.body.end_document(),
                false => self.body.document() == 0,
            };
            if !is_complete {
                return Err(PassThrough::DocumentBody);
            }
            self.read(ids, room, self.charge.bytes())?;
        }
        self.body.finish(&self.operations)?;
        self.routed.chosen.end_at(self.body.plain_length() as u32);
        if self.metadata_in_document().is_some() {
            return Err(PassThrough::Unrouted(Unrouted::IndexPipeline));
        }
        if self.is_unproven() {
            // The answer to a single document may show the routing value.
            if self.document().is_some() {
                return Err(PassThrough::Unrouted(Unrouted::Unproven));
            }
            self.keep_together();
        }
        if self.routed.names.are_mixed() {
            return Err(PassThrough::MixedIndex);
        }
        if self.same_id().is_some() {
            return Err(PassThrough::SameId);
        }
        self.progress.pending = self.shares.len();
        if self.body.forget_compressed() {
            self.recharge();
        }
        Ok(())
    }

    /// Returns whether the body has ended, so that the shares are held or in flight.
    pub fn is_whole(&self) -> bool {
        self.progress.pending > 0
    }

    /// Notes that a share leaves, which was held for this long.
    pub fn dispatch(&mut self, held: Time) {
        self.progress.is_dispatched = true;
        self.routed.chosen.sent();
        self.progress.held = self.progress.held.max(held);
    }

    /// Notes that the client has disconnected. If a share has left, some of the request may already have been carried
    /// out, so that the rest is carried out too, but no reply is sent. Returns whether a share has left.
    pub fn abandon(&mut self) -> bool {
        self.progress.is_abandoned = self.progress.is_dispatched;
        self.progress.is_dispatched
    }

    /// Notes that a share has its outcome. Returns whether all have theirs.
    pub fn share_is_over(&mut self) -> bool {
        self.progress.pending = self.progress.pending.minus(1, "a share is over once");
        self.progress.pending == 0
    }

    /// Returns the hash under which its caller is registered. It keeps the request apart from others of its caller if its
    /// lines have parameters that the query lacks and that concern a whole batch. A `_type` adds a warning to the answer.
    /// A required alias or data stream keeps the cluster from creating an index of that name. An update that changes
    /// nothing causes no refresh, but its item says `forced_refresh` if another operation of the batch does. The answer to
    /// a single document does not repeat that.
    pub fn caller_hash(&self) -> u64 {
        let Head { caller_hash, require_alias, require_data_stream, refreshes, .. } = *self.basis.head;
        let by_lines = |required: fn(&Requirements) -> bool, by_query: bool| {
            self.routed.requirements.is_some_and(|requirements| required(&requirements) != by_query)
        };
        let apart = [
            self.routed.has_type,
            by_lines(|required| required.alias, require_alias),
            by_lines(|required| required.data_stream, require_data_stream == Some(true)),
        ];
        let shows_refresh = refreshes && self.routed.has_update && self.basis.document.is_none();
        let alone = if shows_refresh { self.basis.round_robin as u64 } else { 0 };
        apart.into_iter().fold(alone, |bits, is_apart| bits << 1 | u64::from(is_apart)) ^ caller_hash
    }

    /// Returns whether one of its operations is under a pipeline that may change where documents go. Any two of them may
    /// then write to one document.
    pub fn is_unproven(&self) -> bool {
        self.routed.unrouted.contains_key(&Unrouted::Unproven)
    }

    /// Moves all operations into one share for the coordinator, where they keep their order.
    fn keep_together(&mut self) {
        let mut share = Share::new(Destination::COORDINATOR);
        share.shards = self.shares.iter().map(|share| share.shards).collect();
        for (position, operation) in (0..).zip(&mut self.operations) {
            operation.placement.share = 0;
            share.push(position, self.body.sent_bytes(operation));
        }
        self.routed.unrouted = BTreeMap::from([(Unrouted::Unproven, self.operations.len())]);
        self.shares = share.into();
    }

    /// Returns the first operation under a pipeline whose document may replace metadata, such as the routing value, that
    /// the filter has read in its action line.
    pub fn metadata_in_document(&self) -> Option<&Operation> {
        if !self.basis.table.applies_metadata_in_documents() {
            return None;
        }
        let mut under_pipeline = self.operations.iter().filter(|operation| operation.placement.under_pipeline);
        under_pipeline.find(|operation| may_have_metadata(self.body.lines(operation, &mut Vec::new())))
    }

    /// Returns an operation that has the id of another one which goes elsewhere, if they may mean one document under two
    /// names. Their order then matters. They may mean one document if only one of them is routed, or if one name is not
    /// that of an index: since the last poll, an alias may have been moved.
    pub fn same_id(&self) -> Option<&Operation> {
        let unrouted = self.shares.find(Destination::COORDINATOR);
        if self.shares.len() < 2 || unrouted.is_none() && !self.routed.names.may_meet() {
            return None;
        }
        // Clients choose the ids and thereby these hashes. In a sorted list, no choice of them makes the search slow.
        let with_id = (0_u32..).zip(&self.operations).filter_map(|(position, operation)| {
            Some((operation.placement.id_hash?, operation.placement.share, position))
        });
        let mut ids: Vec<(u32, u16, u32)> = with_id.collect();
        ids.sort_unstable();
        let by_id = ids.chunk_by(|one, other| one.0 == other.0);
        let mut apart = by_id.filter(|same| same.first().map(|first| first.1) != same.last().map(|last| last.1));
        let position = apart.find_map(|same| {
            let is_unrouted = same.iter().any(|(_, share, _)| Some(*share) == unrouted);
            let one = same.iter().find(|(_, share, _)| Some(*share) != unrouted)?;
            (is_unrouted || self.may_meet(same.iter().map(|(.., position)| *position))).then_some(one.2)
        })?;
        self.operations.get(position as usize)
    }

    /// Returns whether the operations at these positions have different names, of which one is not that of an index.
    fn may_meet(&self, positions: impl Iterator<Item = u32>) -> bool {
        let mut names = Names::default();
        for position in positions {
            let Some(operation) = self.operations.get(position as usize) else { continue };
            self.read_line(operation, |line| {
                line.index
                    .as_deref()
                    .and_then(|name| self.basis.table.write_target(name).ok())
                    .into_iter()
                    .for_each(|target| names.add(target));
            });
        }
        names.may_meet()
    }

    /// Returns whether an operation writes to this index, by its own name or an alias.
    pub fn writes_to(&self, operation: &Operation, index: &str) -> bool {
        let mut writes = false;
        self.read_line(operation, |line| {
            writes = line.index.as_deref().is_some_and(|name| self.basis.table.writes_to(name, index));
        });
        writes
    }

    /// Continues to read a body that has grown, as long as there is room for the answer to its operations.
    fn read(&mut self, ids: &mut IdGenerator, room: Room, before: u64) -> Result<(), PassThrough> {
        let read = self.read_operations(ids);
        let read = match self.document() {
            Some(document) if self.is_no_line(document, &read) => Err(PassThrough::DocumentBody),
            _ => read,
        };
        read.and(self.check_room(room, before))
    }

    /// Returns whether the body of a single document cannot be a line of a bulk request. A newline ends its line too early,
    /// so that the rest would be other operations. In the body of a deletion, already its first line would be one.
    fn is_no_line(&self, document: &Document, read: &Result<(), PassThrough>) -> bool {
        let was_read = *read == Err(PassThrough::UpdateBody);
        self.body.has_newline(was_read) || !document.write.action.has_source() && self.body.document() > 0
    }

    /// Updates its charge. Fails if there is no room for its growth since `before`.
    fn check_room(&mut self, room: Room, before: u64) -> Result<(), PassThrough> {
        self.recharge();
        match room.fits(self.charge.bytes().saturating_sub(before), self.scratch()) {
            true => Ok(()),
            false => Err(PassThrough::Memory),
        }
    }

    fn read_operations(&mut self, ids: &mut IdGenerator) -> Result<(), PassThrough> {
        let Self { basis, body, operations, shares, routed, answer_room, class, .. } = self;
        let mut router = OperationRouter { basis, waits: class.waits, routed, ids, last: None };
        let before = operations.len();
        body.read(operations, |line, start| {
            let routed = router.route_line(line, start)?;
            let RoutedOperation { id_hash, location, parameter, name, under_pipeline } = routed;
            // An item repeats the names and the id of the line, or contains those that the cluster puts in their location.
            answer_room.add(line.bytes(), name);
            let share = shares.find_or_add(location.destination).ok_or(PassThrough::Shards)?;
            shares.get_mut(usize::from(share)).into_iter().for_each(|share| share.shards.add(location.shards));
            Ok((Placement { id_hash, share, under_pipeline, is_located: location.is_known }, parameter))
        })?;
        for (position, operation) in operations.iter().enumerate().skip(before) {
            if let Some(share) = shares.get_mut(usize::from(operation.placement.share)) {
                share.push(position as u32, body.sent_bytes(operation));
            }
        }
        answer_room.reserve(operations.len());
        Ok(())
    }

    /// Updates its charge to the memory that it uses now.
    pub fn recharge(&mut self) {
        self.charge.set(self.memory());
        self.scratch.set(self.scratch());
    }

    /// Returns about how many bytes it uses, including the room for the items of its answer.
    fn memory(&self) -> u64 {
        // A growing list has a capacity of up to twice its length.
        let per_operation = size_of::<Operation>().saturating_add(2 * size_of::<u32>());
        let operations = self.operations.capacity().saturating_mul(per_operation) as u64;
        let shares = self.shares.len().saturating_mul(Share::MEMORY) as u64;
        let document = self.document().map_or(0, Document::memory);
        let least = (size_of::<Self>() as u64).saturating_add(self.basis.head.memory).saturating_add(document);
        let parts = [least, self.body.memory(), operations, shares, self.routed.memory()];
        parts.into_iter().fold(self.answer_room.reserved(), u64::saturating_add)
    }

    /// Returns the bytes of its longest temporary copy: its lines for a batch, or its items for the reply.
    fn scratch(&self) -> u64 {
        let sent = self.body.sent();
        sent.saturating_add(if self.basis.may_compress { sent } else { 0 }).max(self.printed(self.answer_room.items()))
    }

    /// Returns the bytes of an answer of this length as it is printed.
    fn printed(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(if self.basis.head.pretty { PRETTY_FACTOR } else { 1 })
    }

    /// Releases the reservation for operations that a node has answered, with items of `bytes` bytes. The answer's own
    /// charge counts the items from now on, and the reply needs room for the bytes beyond the reservation.
    pub fn answered(&mut self, operations: u64, bytes: u64) {
        let (released, is_longer) = self.answer_room.answered(operations, bytes);
        self.charge.set(self.charge.bytes().minus(released, "the reservation is a part of the charge"));
        if is_longer {
            self.scratch.set(self.scratch());
        }
    }

    /// Returns the bytes of the longest possible reply while it is assembled.
    pub fn reply_bytes(&self) -> u64 {
        let whole = self.shares.iter().filter_map(|share| share.outcomes.last()).map(|last| last.outcome.whole_bytes());
        // The answer to a single document may contain an error twice.
        let items = self.answer_room.items().saturating_mul(1 + u64::from(self.document().is_some()));
        self.printed(items.max(2 * whole.max().unwrap_or_default()))
    }

    /// Reserves room for the items of operations that are sent again.
    pub fn expect_again(&mut self, operations: u64) {
        self.answer_room.expect_again(operations);
        self.recharge();
    }

    /// Records the outcome of some operations of a share.
    pub fn record(&mut self, share: u16, selection: Positions, outcome: Outcome) {
        if let Some(share) = self.shares.get_mut(usize::from(share)) {
            share.record(selection, outcome);
        }
    }

    /// Returns whether a share has a further part.
    pub fn has_part(&self, share: u16) -> bool {
        self.shares.get(usize::from(share)).is_some_and(|share| (share.next as usize) < share.operations.len())
    }

    /// Returns the next part of a share, whose answer has at most `most` bytes; `None` if there are no more parts.
    pub fn next_part(&mut self, share: u16, most: u64) -> Option<Part> {
        let found = self.shares.get(usize::from(share))?;
        let (count, begin) = (found.operations.len() as u64, found.next);
        if u64::from(begin) >= count {
            return None;
        }
        let answer = self.answer_room.longest_answer(count, found.bytes);
        let part = match begin == 0 && answer <= most {
            true => Part { selection: Positions::All, operations: count, bytes: found.bytes, answer },
            false => self.part_from(found, begin, most),
        };
        let next = begin.plus(part.operations as u32, "a share has fewer than 2^32 operations");
        self.shares.get_mut(usize::from(share))?.next = next;
        Some(part)
    }

    /// Returns the part of a share that begins at this operation: at least one operation, and more as long as the
    /// answer has room for them.
    fn part_from(&self, share: &Share, begin: u32, most: u64) -> Part {
        let (mut operations, mut bytes, mut answer) = (0_u64, 0_u64, 0_u64);
        for position in share.operations.iter().skip(begin as usize) {
            let Some(operation) = self.operations.get(*position as usize) else { break };
            let sent = self.body.sent_bytes(operation);
            let longer = answer.saturating_add(self.answer_room.longest_answer(1, sent));
            if operations > 0 && longer > most {
                break;
            }
            (operations, bytes, answer) = (operations.saturating_add(1), bytes.saturating_add(sent), longer);
        }
        let selection = Positions::Part(begin..begin.saturating_add(operations as u32));
        Part { selection, operations, bytes, answer }
    }

    /// Returns the amounts of all shares that wait for each destination, before any of them was sent.
    pub fn held(&self) -> BTreeMap<Destination, Waiting> {
        let mut held = BTreeMap::<Destination, Waiting>::new();
        for share in self.shares.iter() {
            held.entry(share.destination).or_default().add(&self.held_part(share));
        }
        held
    }

    /// Returns the amounts of the part of a share that was held last.
    fn held_part(&self, share: &Share) -> Waiting {
        let bytes = match share.next as usize == share.operations.len() {
            true => share.bytes,
            false => {
                let operations = share.operations.iter().take(share.next as usize);
                let operations = operations.filter_map(|position| self.operations.get(*position as usize));
                operations.map(|operation| self.body.sent_bytes(operation)).sum()
            }
        };
        Waiting { requests: 1, operations: u64::from(share.next), bytes }
    }

    /// Returns the selected operations of a share, in order.
    pub fn share_operations<'a>(&'a self, share: u16, selection: &'a Positions) -> impl Iterator<Item = &'a Operation> {
        let positions = self.shares.get(usize::from(share)).map(|share| share.positions(selection));
        positions.into_iter().flatten().filter_map(|position| self.operations.get(position as usize))
    }

    /// Returns the positions of the operations of a part in their share.
    pub fn positions<'a>(&self, held: &'a HeldShare) -> impl Iterator<Item = u32> + use<'a> {
        let count = self.shares.get(usize::from(held.share)).map_or(0, |share| share.operations.len());
        held.selection.positions(count)
    }

    /// Notes that the request for a single document is sent itself, if its operation was refused and that has not
    /// happened before. Nothing of a refused operation was carried out. Returns whether it is to be sent.
    pub fn sends_original(&mut self) -> bool {
        let is_refused = || self.shares.first()?.outcomes.last().map(|last| last.outcome.is_refusal());
        let may_be_sent =
            self.basis.document.is_some() && !self.progress.is_original_sent && !self.progress.is_abandoned;
        self.progress.is_original_sent |= may_be_sent && is_refused() == Some(true);
        // Until it is sent, the client may leave as if nothing had been.
        self.progress.is_dispatched &= !(may_be_sent && self.progress.is_original_sent);
        may_be_sent && self.progress.is_original_sent
    }

    /// Appends the lines of the selected operations of a share.
    pub fn copy_share(&self, share: u16, selection: &Positions, to: &mut Vec<u8>) {
        for operation in self.share_operations(share, selection) {
            self.body.copy_operation(operation, to);
        }
    }
}
