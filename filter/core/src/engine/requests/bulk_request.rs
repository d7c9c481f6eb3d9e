use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use hashbrown::HashMap;

use super::id_generator::IdGenerator;
use super::operation_router::{Names, OperationRouter, Place, Requirements, RoutedOperation};
use super::outcome::Outcome;
use super::share::Share;
use super::share_numbers::ShareNumbers;
use crate::Time;
use crate::bulk::{
    AnswerItem, Body, ERROR_ROOM, ITEM_ROOM, InflateError, Inflater, Operation, Parameter, Placement, Reader, Splices,
};
use crate::config::Config;
use crate::engine::batching::{Apart, Destination, HeldShare, Selection, Waiting};
use crate::engine::head::{CallerId, Head, SlotClass};
use crate::engine::memory::{Charge, Room, Scratch};
use crate::engine::pass_through::PassThrough;
use crate::invariant::Count;
use crate::routing::{RoutingTable, Unrouted, may_have_metadata};

/// A bulk request that is being read, held or in flight.
#[derive(Debug)]
pub struct Request {
    /// The caller whose batches it may share.
    pub caller: CallerId,
    /// The slots that its batches take.
    pub class: SlotClass,
    /// The inflated body. It is kept until the answer, because error items quote it and it may have to be sent again.
    body: Body,
    /// The compressed body, as long as the request may still pass through.
    compressed: Option<Box<Compressed>>,
    /// The operations, in the order of the request.
    pub operations: Vec<Operation>,
    /// The shares, one for each destination of an operation.
    pub shares: Vec<Share>,
    /// The number of shares without an outcome.
    pub pending: usize,
    /// Whether any share has left.
    pub dispatched: bool,
    /// The longest time that a share was held.
    pub held: Time,
    /// Whether the client has disconnected. Shares in flight continue, but no reply is sent.
    pub abandoned: bool,
    /// The parsed headers.
    pub head: Rc<Head>,
    reader: Reader,
    /// The table that routes all operations, so that operations on one document stay together.
    table: Rc<RoutingTable>,
    /// The shards that may be slow, for the same reason.
    apart: Apart,
    share_numbers: ShareNumbers,
    config: Rc<Config>,
    /// The round-robin counter that chooses a node for its operations without an id.
    round_robin: usize,
    /// The routing value and destination of such operations by index name, in `direct` mode: see
    /// [`direct`](crate::routing::WriteTarget::direct).
    direct: HashMap<Box<str>, Option<(u32, Place)>>,
    /// The number of operations that go to the coordinating upstream, by reason.
    pub unrouted: BTreeMap<Unrouted, usize>,
    /// Whether one of its lines has a `_type`. The cluster then adds a `warning` to the answer.
    has_type: bool,
    /// What all its operations require of their names; `None` before the first one.
    requirements: Option<Requirements>,
    /// The names that its operations are written to.
    names: Names,
    /// The name that is missing in the table and makes the request pass through.
    pub unknown: Option<String>,
    /// The parameters that are added to its lines.
    splices: Splices,
    /// Bytes of the longest possible items for its operations.
    items: u64,
    /// The number of bytes by which the items that have arrived exceed that.
    longer: u64,
    /// Bytes of the longest index name in an item.
    longest_name: u64,
    /// Bytes that are reserved for the items of operations that no node has answered yet.
    reserved: u64,
    charge: Charge,
    scratch: Scratch,
}

/// A part of a share, which is sent in one batch.
#[derive(Debug)]
pub struct Part {
    /// Its operations.
    pub selection: Selection,
    /// The number of operations.
    pub operations: u64,
    /// Bytes of their lines.
    pub bytes: u64,
    /// Bytes of the longest possible answer to them.
    pub answer: u64,
}

/// A compressed body.
#[derive(Debug)]
struct Compressed {
    inflater: Inflater,
    arrived: Body,
}

/// Bytes of the record for an item.
const ITEM: u64 = size_of::<AnswerItem>() as u64;

/// The factor by which `pretty` lengthens an answer.
const PRETTY: u64 = 3;

/// About how many bytes an entry of `direct` uses, with room to grow.
const DIRECT: usize = 512;

impl Request {
    /// Creates a request from its headers. `round_robin` chooses a node for its operations without an id.
    pub fn new(
        head: Rc<Head>,
        (caller, class): (CallerId, SlotClass),
        (table, apart): (Rc<RoutingTable>, Apart),
        config: Rc<Config>,
        round_robin: usize,
        charge: Charge,
    ) -> Self {
        Self {
            caller,
            class,
            body: Body::default(),
            compressed: head
                .gzip
                .then(|| Box::new(Compressed { inflater: Inflater::default(), arrived: Body::default() })),
            operations: Vec::new(),
            // A push would allocate room for four, but a small request needs only one.
            shares: Vec::with_capacity(1),
            pending: 0,
            dispatched: false,
            held: Time::ZERO,
            abandoned: false,
            head,
            reader: Reader::default(),
            table,
            apart,
            share_numbers: ShareNumbers::default(),
            config,
            round_robin,
            direct: HashMap::new(),
            unrouted: BTreeMap::new(),
            has_type: false,
            requirements: None,
            names: Names::default(),
            unknown: None,
            splices: Splices::default(),
            items: 0,
            longer: 0,
            longest_name: 0,
            reserved: 0,
            scratch: charge.scratch(),
            charge,
        }
    }

    /// Returns about how many bytes a request uses before its body arrives.
    pub fn least_memory(head: &Head) -> u64 {
        let inflater = if head.gzip { Inflater::MEMORY } else { 0 };
        inflater.saturating_add(size_of::<Self>() as u64).saturating_add(head.memory())
    }

    /// Accepts the next chunk of the body, and reads the operations in it.
    pub fn take(&mut self, chunk: Vec<u8>, room: Room, ids: &mut IdGenerator) -> Result<(), PassThrough> {
        let fits = chunk.len() as u64 <= room.bytes();
        let memory = self.charge.bytes();
        match &mut self.compressed {
            None => {
                self.body.push(chunk);
                if fits { self.read(ids, room, memory) } else { Err(room.beyond()) }
            }
            Some(_) => {
                let result = if fits { self.inflate(&chunk, room, ids) } else { Err(room.beyond()) };
                if let Some(compressed) = &mut self.compressed {
                    compressed.arrived.push(chunk);
                }
                result
            }
        }
    }

    fn inflate(&mut self, chunk: &[u8], all: Room, ids: &mut IdGenerator) -> Result<(), PassThrough> {
        // The compressed chunk is kept too.
        let (length, memory) = (self.body.len(), self.charge.bytes().saturating_sub(Body::chunk_memory(chunk.len())));
        let mut rest = chunk;
        loop {
            let inflated = u64::from(self.body.len().saturating_sub(length));
            let room = all.less(inflated, self.memory().saturating_sub(memory));
            let Some(compressed) = &mut self.compressed else { return Ok(()) };
            let more = compressed.inflater.inflate(&mut rest, room.bytes() as usize);
            let more = more.map_err(|error| match error {
                InflateError::Malformed => PassThrough::Gzip,
                InflateError::TooLarge => room.beyond(),
            })?;
            if more.is_empty() {
                return self.check_room(all, memory);
            }
            self.body.push(more);
            self.read(ids, all, memory)?;
        }
    }

    /// Ends the body. Returns the reason to pass through if the filter does not accept the whole body.
    pub fn finish(&mut self) -> Result<(), PassThrough> {
        if let Some(compressed) = &self.compressed {
            compressed.inflater.finish().map_err(|_| PassThrough::Gzip)?;
        }
        self.reader.finish::<PassThrough>(&self.body, &self.operations)?;
        if self.metadata_in_document().is_some() {
            return Err(PassThrough::Unrouted(Unrouted::IndexPipeline));
        }
        if self.is_unproven() {
            self.keep_together();
        }
        if self.names.are_mixed() {
            return Err(PassThrough::MixedIndex);
        }
        if self.same_id().is_some() {
            return Err(PassThrough::SameId);
        }
        self.pending = self.shares.len();
        if self.compressed.take().is_some() {
            self.recharge();
        }
        Ok(())
    }

    /// Returns the hash under which its caller is registered. It keeps the request apart from others of its caller if its
    /// lines have parameters that the query lacks and that concern a whole batch. A `_type` adds a warning to the answer.
    /// A required alias or data stream keeps the cluster from creating an index of that name.
    pub fn caller_hash(&self) -> u64 {
        let Head { caller_hash, require_alias, require_data_stream, .. } = *self.head;
        let by_lines = |required: fn(&Requirements) -> bool, by_query: bool| {
            self.requirements.is_some_and(|requirements| required(&requirements) != by_query)
        };
        let apart = [
            self.has_type,
            by_lines(|required| required.alias, require_alias),
            by_lines(|required| required.data_stream, require_data_stream == Some(true)),
        ];
        apart.into_iter().fold(0, |bits, is_apart| bits << 1 | u64::from(is_apart)) ^ caller_hash
    }

    /// Returns whether one of its operations is under a pipeline that may change where documents go. Any two of them may
    /// then write to one document.
    pub fn is_unproven(&self) -> bool {
        self.unrouted.contains_key(&Unrouted::Unproven)
    }

    /// Moves all operations into one share for the coordinating upstream, where they keep their order.
    fn keep_together(&mut self) {
        let mut share = Share::new(Destination::COORDINATOR);
        share.shards = self.shares.iter().map(|share| share.shards).collect();
        for (position, operation) in (0..).zip(&mut self.operations) {
            operation.placement.share = 0;
            share.push(position, sent_bytes(&self.splices, operation));
        }
        self.unrouted = BTreeMap::from([(Unrouted::Unproven, self.operations.len())]);
        self.shares = vec![share];
        self.share_numbers = ShareNumbers::default();
    }

    /// Returns the first operation under a pipeline whose document may replace metadata, such as the routing value, that
    /// the filter has read in its action line.
    pub fn metadata_in_document(&self) -> Option<&Operation> {
        if !self.table.applies_metadata_in_documents() {
            return None;
        }
        let mut under_pipeline = self.operations.iter().filter(|operation| operation.placement.under_pipeline);
        under_pipeline.find(|operation| may_have_metadata(self.lines(operation, &mut Vec::new())))
    }

    /// Returns an operation that has the id of another one which goes elsewhere, if they may mean one document under two
    /// names. Their order then matters. They may mean one document if only one of them is routed, or if one name is not
    /// that of an index: since the last poll, an alias may have been moved.
    pub fn same_id(&self) -> Option<&Operation> {
        let unrouted = self.share_numbers.find(&self.shares, Destination::COORDINATOR);
        if self.shares.len() < 2 || unrouted.is_none() && !self.names.may_meet() {
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
            self.read_line(operation, |line, default_index| {
                let name = line.index.as_deref().or(default_index);
                name.and_then(|name| self.table.write_target(name).ok())
                    .into_iter()
                    .for_each(|target| names.add(target));
            });
        }
        names.may_meet()
    }

    /// Returns the body as it arrived.
    pub fn into_chunks(self) -> Vec<Vec<u8>> {
        self.compressed.map_or(self.body, |compressed| compressed.arrived).into_chunks()
    }

    /// Returns the bytes of the body that have arrived: compressed or inflated, whichever is more.
    pub fn length(&self) -> u64 {
        let arrived = self.compressed.as_ref().map_or(0, |compressed| compressed.arrived.len());
        u64::from(self.body.len().max(arrived))
    }

    /// Returns the lines of an operation as one slice.
    pub fn lines<'a>(&'a self, operation: &Operation, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        self.body.contiguous(operation.range(), scratch)
    }

    /// Returns the start of the line at which reading stopped.
    pub fn line_start(&self) -> u32 {
        self.reader.line_start()
    }

    /// Returns how many lines end within a range of the body.
    pub fn line_ends(&self, part: Range<u32>) -> u32 {
        let ends = self.body.pieces(part).map(|piece| memchr::memchr_iter(b'\n', piece).count());
        ends.fold(0, |all, ends| all.saturating_add(u32::try_from(ends).unwrap_or(u32::MAX)))
    }

    /// Returns the available part of the line that starts at this position, up to `most` bytes.
    pub fn line_at(&self, start: u32, most: u32) -> Vec<u8> {
        let mut line = Vec::new();
        self.body.copy_to(start..start.saturating_add(most), &mut line);
        let end = memchr::memchr(b'\n', &line).unwrap_or(line.len());
        line.truncate(end);
        line
    }

    /// Returns the table that routes its operations.
    pub fn table(&self) -> &RoutingTable {
        &self.table
    }

    /// Returns whether an operation writes to this index, by its own name or an alias.
    pub fn writes_to(&self, operation: &Operation, index: &str) -> bool {
        let mut writes = false;
        self.read_line(operation, |line, default_index| {
            let name = line.index.as_deref().or(default_index);
            writes = name.is_some_and(|name| self.table.writes_to(name, index));
        });
        writes
    }

    /// Continues to read a body that has grown, as long as there is room for the answer to its operations.
    fn read(&mut self, ids: &mut IdGenerator, room: Room, before: u64) -> Result<(), PassThrough> {
        let read = self.read_operations(ids);
        read.and(self.check_room(room, before))
    }

    /// Updates its charge. Fails if there is no room for its growth since `before`.
    fn check_room(&mut self, room: Room, before: u64) -> Result<(), PassThrough> {
        let (memory, scratch) = (self.memory(), self.scratch());
        self.charge.set(memory);
        self.scratch.set(scratch);
        match room.fits(memory.saturating_sub(before), scratch) {
            true => Ok(()),
            false => Err(PassThrough::Memory),
        }
    }

    fn read_operations(&mut self, ids: &mut IdGenerator) -> Result<(), PassThrough> {
        let Self { reader, body, operations, shares, share_numbers, splices, items, longest_name, .. } = self;
        let mut router = OperationRouter {
            table: &self.table,
            config: &self.config,
            apart: self.apart,
            waits: self.class.waits,
            default_index: self.head.default_index.as_deref(),
            default_routing: self.head.default_routing.as_deref(),
            default_pipeline: self.head.default_pipeline.as_deref(),
            require_alias: self.head.require_alias,
            require_data_stream: self.head.require_data_stream,
            lists_pipelines: self.head.lists_pipelines,
            round_robin: self.round_robin,
            direct: &mut self.direct,
            ids,
            unrouted: &mut self.unrouted,
            unknown: &mut self.unknown,
            names: &mut self.names,
            last: None,
        };
        let before = operations.len();
        reader.read(body, operations, |line, start| -> Result<Placement, PassThrough> {
            let RoutedOperation { id_hash, place, parameter, name, under_pipeline } =
                router.place(line).map_err(PassThrough::Unrouted)?;
            let requirements = router.requirements(line);
            if *self.requirements.get_or_insert(requirements) != requirements {
                return Err(PassThrough::ActionLine);
            }
            // An item repeats the names and the id of the line, or contains those that the cluster puts in their place.
            let item = ITEM_ROOM.saturating_add(line.bytes()).saturating_add(name);
            (*items, *longest_name) = (items.saturating_add(item), (*longest_name).max(name));
            if let Some(parameter) = parameter {
                splices.push(line.splice(start, parameter));
            }
            self.has_type |= line.has_type;
            let share = match share_numbers.find(shares, place.destination) {
                Some(share) => share,
                None => {
                    let share = u16::try_from(shares.len()).map_err(|_| PassThrough::Shards)?;
                    shares.push(Share::new(place.destination));
                    share_numbers.extend(shares);
                    share
                }
            };
            shares.get_mut(usize::from(share)).into_iter().for_each(|share| share.shards.add(place.shards));
            Ok(Placement { id_hash, share, under_pipeline })
        })?;
        for (position, operation) in operations.iter().enumerate().skip(before) {
            if let Some(share) = shares.get_mut(usize::from(operation.placement.share)) {
                share.push(position as u32, sent_bytes(splices, operation));
            }
        }
        self.reserved = items.saturating_add((operations.len() as u64).saturating_mul(ITEM));
        Ok(())
    }

    /// Updates its charge to the memory that it uses now.
    pub fn recharge(&mut self) {
        self.charge.set(self.memory());
        self.scratch.set(self.scratch());
    }

    /// Returns about how many bytes it uses, including the room for the items of its answer.
    fn memory(&self) -> u64 {
        let arrived = self.compressed.as_ref().map_or(0, |compressed| compressed.arrived.memory());
        // A growing list has a capacity of up to twice its length.
        let per_operation = size_of::<Operation>().saturating_add(2 * size_of::<u32>());
        let operations = self.operations.capacity().saturating_mul(per_operation) as u64;
        let shares = self.shares.len().saturating_mul(Share::MEMORY) as u64;
        let direct = self.direct.len().saturating_mul(DIRECT) as u64;
        let inflater = if self.compressed.is_some() { Inflater::MEMORY } else { 0 };
        let least = (size_of::<Self>() as u64).saturating_add(self.head.memory()).saturating_add(inflater);
        let parts = [least, self.body.memory(), arrived, operations, shares, direct, self.splices.memory()];
        parts.into_iter().fold(self.reserved, u64::saturating_add)
    }

    /// Returns the bytes of its longest temporary copy: its lines for a batch, or its items for the reply.
    fn scratch(&self) -> u64 {
        let sent = u64::from(self.body.len()).saturating_add(self.splices.sent());
        sent.saturating_add(if self.config.dispatch.compress { sent } else { 0 })
            .max(self.room_for_items().saturating_mul(if self.head.pretty { PRETTY } else { 1 }))
    }

    /// Returns the bytes that are reserved for the items of this number of operations, each with an equal part.
    pub fn expected(&self, operations: u64) -> u64 {
        let each = self.items / (self.operations.len() as u64).max(1);
        operations.saturating_mul(each.saturating_add(ITEM))
    }

    /// Releases the reservation for operations that a node has answered, with items of `bytes` bytes. The answer's own
    /// charge counts the items from now on, and the reply needs room for the bytes beyond the reservation.
    pub fn answered(&mut self, operations: u64, bytes: u64) {
        let expected = self.expected(operations);
        let given_back = expected.min(self.reserved);
        self.reserved = self.reserved.saturating_sub(given_back);
        self.charge.set(self.charge.bytes().minus(given_back, "the reservation is a part of the charge"));
        if bytes > expected {
            self.longer = self.longer.saturating_add(bytes.minus(expected, "it is longer"));
            self.scratch.set(self.scratch());
        }
    }

    /// Returns the bytes of the longest possible reply while it is assembled.
    pub fn reply_bytes(&self) -> u64 {
        let whole = self.shares.iter().filter_map(|share| share.outcomes.last()).map(|last| last.outcome.whole_bytes());
        let reply = self.room_for_items().max(2 * whole.max().unwrap_or_default());
        reply.saturating_mul(if self.head.pretty { PRETTY } else { 1 })
    }

    /// Returns the bytes of the longest possible items for its operations.
    pub fn room_for_items(&self) -> u64 {
        self.items.saturating_add(self.longer)
    }

    /// Reserves room for the items of operations that are sent again.
    pub fn expect_again(&mut self, operations: u64) {
        self.reserved = self.reserved.saturating_add(self.expected(operations));
        self.recharge();
    }

    /// Records the outcome of some operations of a share.
    pub fn record(&mut self, share: u16, selection: Selection, outcome: Outcome) {
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
        let answer = self.longest_answer(count, found.bytes);
        let part = match begin == 0 && answer <= most {
            true => Part { selection: Selection::All, operations: count, bytes: found.bytes, answer },
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
            let sent = self.sent_bytes(operation);
            let longer = answer.saturating_add(self.longest_answer(1, sent));
            if operations > 0 && longer > most {
                break;
            }
            (operations, bytes, answer) = (operations.saturating_add(1), bytes.saturating_add(sent), longer);
        }
        let selection = Selection::Part(begin..begin.saturating_add(operations as u32));
        Part { selection, operations, bytes, answer }
    }

    /// Returns the amounts of all shares that wait for each destination, before any of them was sent.
    pub fn held(&self) -> BTreeMap<Destination, Waiting> {
        let mut held = BTreeMap::<Destination, Waiting>::new();
        for share in &self.shares {
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
                operations.map(|operation| self.sent_bytes(operation)).sum()
            }
        };
        Waiting { requests: 1, operations: u64::from(share.next), bytes }
    }

    /// Returns the bytes of the longest possible answer to operations of this number and size. Errors may quote a
    /// document twice, and the names.
    fn longest_answer(&self, operations: u64, bytes: u64) -> u64 {
        let each = ERROR_ROOM.saturating_add(self.longest_name.saturating_mul(2));
        operations.saturating_mul(each).saturating_add(bytes.saturating_mul(2))
    }

    /// Returns the selected operations of a share, in order.
    pub fn share_operations<'a>(&'a self, share: u16, selection: &'a Selection) -> impl Iterator<Item = &'a Operation> {
        let positions = self.shares.get(usize::from(share)).map(|share| share.positions(selection));
        positions.into_iter().flatten().filter_map(|position| self.operations.get(position as usize))
    }

    /// Returns the places of the operations of a part in their share.
    pub fn places<'a>(&self, held: &'a HeldShare) -> impl Iterator<Item = u32> + use<'a> {
        let count = self.shares.get(usize::from(held.share)).map_or(0, |share| share.operations.len());
        held.selection.places(count)
    }

    /// Appends the lines of the selected operations of a share.
    pub fn copy_share(&self, share: u16, selection: &Selection, to: &mut Vec<u8>) {
        for operation in self.share_operations(share, selection) {
            self.copy_operation(operation, to);
        }
    }

    /// Appends the lines of an operation, unchanged except for added parameters.
    fn copy_operation(&self, operation: &Operation, to: &mut Vec<u8>) {
        let lines = operation.range();
        match self.splices.within(&lines) {
            Some(splice) => {
                self.body.copy_to(lines.start..splice.at, to);
                splice.write(to);
                self.body.copy_to(splice.end()..lines.end, to);
            }
            None => self.body.copy_to(lines, to),
        }
    }

    /// Returns the bytes of an operation's lines as they are sent.
    pub fn sent_bytes(&self, operation: &Operation) -> u64 {
        sent_bytes(&self.splices, operation)
    }

    /// Returns the parameter that is added to an operation's action line.
    pub fn parameter(&self, operation: &Operation) -> Option<&Parameter> {
        self.splices.within(&operation.range()).map(|splice| &splice.parameter)
    }

    /// Returns the id that was generated for an operation.
    pub fn generated_id(&self, operation: &Operation) -> Option<&str> {
        self.splices.id(&operation.range())
    }
}

fn sent_bytes(splices: &Splices, operation: &Operation) -> u64 {
    let bytes = u64::from(operation.len);
    splices.within(&operation.range()).map_or(bytes, |splice| splice.sent(bytes))
}
