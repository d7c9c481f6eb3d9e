use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use hashbrown::{HashMap, HashSet};

use super::PassThrough;
use super::caller::CallerId;
use super::destination::Destination;
use super::head::Head;
use super::ids::Ids;
use super::memory::Charge;
use super::placer::{Place, Placer};
use super::share::{Selection, Share};
use super::share_numbers::ShareNumbers;
use crate::Time;
use crate::bulk::{Body, InflateError, Inflater, Operation, Parameter, Placement, Reader, Splices};
use crate::config::Config;
use crate::routing::{RoutingTable, Unrouted};

/// A bulk request that is here: being read, held, or on its way to the nodes.
#[derive(Debug)]
pub struct Request {
    /// Whose batches it may share.
    pub caller: CallerId,
    /// Inflated. Kept until the answer: error items are written from it, and it may have to be sent again.
    body: Body,
    /// What arrived, as long as it may have to be handed back.
    compressed: Option<Box<Compressed>>,
    /// In the order of the request.
    pub operations: Vec<Operation>,
    /// One for each destination that has an operation of it.
    pub shares: Vec<Share>,
    /// Shares without an outcome.
    pub pending: usize,
    /// Whether any share has left.
    pub dispatched: bool,
    /// How long the share was held that was held longest.
    pub held: Time,
    /// Whether the client has gone; what is on its way goes on, and nobody is told.
    pub abandoned: bool,
    /// What its headers say.
    pub head: Rc<Head>,
    reader: Reader,
    /// One table from the first operation to the last: operations on one document never part.
    table: Rc<RoutingTable>,
    share_numbers: ShareNumbers,
    config: Rc<Config>,
    /// Whose turn it is to take its operations without an id.
    turn: usize,
    /// What such operations on an index get in `direct` mode, once it is worked out: see [`RoutingTable::direct`].
    direct: HashMap<Box<str>, Option<(u32, Destination)>>,
    /// How many operations go to the coordinating upstream, and why.
    pub unrouted: BTreeMap<Unrouted, usize>,
    /// A name that the table does not know, because of which it is not split.
    pub unknown: Option<String>,
    /// What is added to its lines on the way.
    splices: Splices,
    charge: Charge,
}

/// A body that arrives compressed.
#[derive(Debug)]
struct Compressed {
    inflater: Inflater,
    arrived: Body,
}

/// How much more of a request there is room for, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Up to `limits.max_request`.
    pub of_request: u64,
    /// Up to `limits.memory`.
    pub of_memory: u64,
}

impl Room {
    /// How much more of its body may come.
    pub fn bytes(self) -> u64 {
        self.of_request.min(self.of_memory)
    }

    /// Why not more.
    pub fn beyond(self) -> PassThrough {
        match self.of_request <= self.of_memory {
            true => PassThrough::TooLarge,
            false => PassThrough::Memory,
        }
    }

    /// What is left when so much of the body came, and took so much.
    fn less(self, bytes: u64, memory: u64) -> Self {
        Self {
            of_request: self.of_request.saturating_sub(bytes),
            of_memory: self.of_memory.saturating_sub(memory.max(bytes)),
        }
    }
}

impl Request {
    /// A request of which the headers are read. Its operations without an id go to those whose turn it is.
    pub fn new(
        head: Rc<Head>,
        caller: CallerId,
        table: Rc<RoutingTable>,
        config: Rc<Config>,
        turn: usize,
        charge: Charge,
    ) -> Self {
        let mut request = Self {
            caller,
            body: Body::default(),
            compressed: head
                .gzip
                .then(|| Box::new(Compressed { inflater: Inflater::default(), arrived: Body::default() })),
            operations: Vec::new(),
            // A push would make room for four, of which a small request needs one.
            shares: Vec::with_capacity(1),
            pending: 0,
            dispatched: false,
            held: Time::ZERO,
            abandoned: false,
            head,
            reader: Reader::default(),
            table,
            share_numbers: ShareNumbers::default(),
            config,
            turn,
            direct: HashMap::new(),
            unrouted: BTreeMap::new(),
            unknown: None,
            splices: Splices::default(),
            charge,
        };
        request.recharge();
        request
    }

    /// About how many bytes it takes before anything of its body is here.
    pub fn least_memory(gzip: bool) -> u64 {
        let inflater = if gzip { Inflater::MEMORY } else { 0 };
        inflater.saturating_add(size_of::<Self>() as u64)
    }

    /// Takes the next chunk of the body, and finds the operations in it.
    pub fn take(&mut self, chunk: Vec<u8>, room: Room, ids: &mut Ids) -> Result<(), PassThrough> {
        let fits = chunk.len() as u64 <= room.bytes();
        match &mut self.compressed {
            None => {
                self.body.push(chunk);
                if fits { self.read(ids) } else { Err(room.beyond()) }
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

    fn inflate(&mut self, chunk: &[u8], room: Room, ids: &mut Ids) -> Result<(), PassThrough> {
        let (length, memory) = (self.body.len(), self.memory());
        let mut rest = chunk;
        loop {
            let inflated = u64::from(self.body.len().saturating_sub(length));
            let room = room.less(inflated, self.memory().saturating_sub(memory));
            let Some(compressed) = &mut self.compressed else { return Ok(()) };
            let more = compressed.inflater.inflate(&mut rest, room.bytes() as usize);
            let more = more.map_err(|error| match error {
                InflateError::Malformed => PassThrough::Gzip,
                InflateError::TooLarge => room.beyond(),
            })?;
            if more.is_empty() {
                return Ok(());
            }
            self.body.push(more);
            self.read(ids)?;
        }
    }

    /// Says whether the whole body was vouched for, now that it has ended.
    pub fn finish(&mut self) -> Result<(), PassThrough> {
        if let Some(compressed) = &self.compressed {
            compressed.inflater.finish().map_err(|_| PassThrough::Gzip)?;
        }
        self.reader.finish::<PassThrough>(&self.body, &self.operations)?;
        if self.same_id().is_some() {
            return Err(PassThrough::SameId);
        }
        self.compressed = None;
        self.pending = self.shares.len();
        Ok(())
    }

    /// The first routed operation that has the id of an unrouted one. They may mean the same document under two names,
    /// and then their order counts.
    pub fn same_id(&self) -> Option<&Operation> {
        let unrouted = self.share_numbers.find(&self.shares, Destination::COORDINATOR)?;
        let side = |routed: bool| {
            self.operations.iter().filter(move |operation| (operation.placement.share != unrouted) == routed)
        };
        let of_unrouted: HashSet<u32> = side(false).filter_map(|operation| operation.placement.id_hash).collect();
        if of_unrouted.is_empty() {
            return None;
        }
        side(true).find(|operation| operation.placement.id_hash.is_some_and(|id| of_unrouted.contains(&id)))
    }

    /// The body as it arrived.
    pub fn into_chunks(self) -> Vec<Vec<u8>> {
        self.compressed.map_or(self.body, |compressed| compressed.arrived).into_chunks()
    }

    /// Bytes of the body that are here; of a compressed one, either form.
    pub fn length(&self) -> u64 {
        let arrived = self.compressed.as_ref().map_or(0, |compressed| compressed.arrived.len());
        u64::from(self.body.len().max(arrived))
    }

    /// The lines of an operation, as one slice.
    pub fn lines<'a>(&'a self, operation: &Operation, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        self.body.contiguous(operation.range(), scratch)
    }

    /// Where the line starts at which reading has stopped.
    pub fn line_start(&self) -> u32 {
        self.reader.line_start()
    }

    /// How many lines end within a part of the body.
    pub fn line_ends(&self, part: Range<u32>) -> u32 {
        let ends = self.body.pieces(part).map(|piece| memchr::memchr_iter(b'\n', piece).count());
        ends.fold(0, |all, ends| all.saturating_add(u32::try_from(ends).unwrap_or(u32::MAX)))
    }

    /// The line that starts there, as far as it is here, up to so many bytes.
    pub fn line_at(&self, start: u32, most: u32) -> Vec<u8> {
        let mut line = Vec::new();
        self.body.copy_to(start..start.saturating_add(most), &mut line);
        let end = memchr::memchr(b'\n', &line).unwrap_or(line.len());
        line.truncate(end);
        line
    }

    /// The table by which its operations are placed.
    pub fn table(&self) -> &RoutingTable {
        &self.table
    }

    /// Whether an operation writes to this index, by its own name or an alias.
    pub fn writes_to(&self, operation: &Operation, index: &str) -> bool {
        let mut writes = false;
        self.read_line(operation, |line, default_index| {
            let name = line.index.as_deref().or(default_index);
            writes = name.is_some_and(|name| self.table.writes_to(name, index));
        });
        writes
    }

    /// Reads on in a body that has grown.
    fn read(&mut self, ids: &mut Ids) -> Result<(), PassThrough> {
        let Self { reader, body, operations, shares, share_numbers, splices, .. } = self;
        let mut placer = Placer {
            table: &self.table,
            config: &self.config,
            default_index: self.head.default_index.as_deref(),
            default_routing: self.head.default_routing.as_deref(),
            require_alias: self.head.require_alias,
            require_data_stream: self.head.require_data_stream,
            turn: self.turn,
            direct: &mut self.direct,
            ids,
            unrouted: &mut self.unrouted,
            unknown: &mut self.unknown,
            last: None,
        };
        let before = operations.len();
        reader.read(body, operations, |line, start| -> Result<Placement, PassThrough> {
            let Place { id_hash, destination, parameter } = placer.place(line).map_err(PassThrough::Unrouted)?;
            if let Some(parameter) = parameter {
                splices.push(line.splice(start, parameter));
            }
            let share = match share_numbers.find(shares, destination) {
                Some(share) => share,
                None => {
                    let share = u16::try_from(shares.len()).map_err(|_| PassThrough::Shards)?;
                    shares.push(Share::new(destination));
                    share_numbers.extend(shares);
                    share
                }
            };
            Ok(Placement { id_hash, share })
        })?;
        for (position, operation) in operations.iter().enumerate().skip(before) {
            if let Some(share) = shares.get_mut(usize::from(operation.placement.share)) {
                share.push(position as u32, sent_bytes(splices, operation));
            }
        }
        Ok(())
    }

    /// Counts the memory that it takes now.
    pub fn recharge(&mut self) {
        self.charge.set(self.memory());
    }

    /// About how many bytes it takes.
    fn memory(&self) -> u64 {
        let per_operation = size_of::<Operation>().saturating_add(size_of::<u32>());
        let arrived = self.compressed.as_ref().map_or(0, |compressed| compressed.arrived.memory());
        let operations = self.operations.len().saturating_mul(per_operation) as u64;
        let shares = self.shares.len().saturating_mul(Share::MEMORY) as u64;
        let least = Self::least_memory(self.compressed.is_some());
        let parts = [least, self.body.memory(), arrived, operations, shares, self.splices.memory()];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    /// The selected operations of a share, in order.
    pub fn share_operations<'a>(&'a self, share: u16, selection: &'a Selection) -> impl Iterator<Item = &'a Operation> {
        let positions = self.shares.get(usize::from(share)).map(|share| share.positions(selection));
        positions.into_iter().flatten().filter_map(|position| self.operations.get(position as usize))
    }

    /// Appends the lines of the selected operations of a share.
    pub fn copy_share(&self, share: u16, selection: &Selection, to: &mut Vec<u8>) {
        for operation in self.share_operations(share, selection) {
            self.copy_operation(operation, to);
        }
    }

    /// Appends the lines of an operation, as they came but for what is added to them.
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

    /// Bytes of an operation's lines as they are sent.
    pub fn sent_bytes(&self, operation: &Operation) -> u64 {
        sent_bytes(&self.splices, operation)
    }

    /// What is added to an operation's action line.
    pub fn parameter(&self, operation: &Operation) -> Option<&Parameter> {
        self.splices.within(&operation.range()).map(|splice| &splice.parameter)
    }

    /// The id that was made for an operation.
    pub fn generated_id(&self, operation: &Operation) -> Option<&str> {
        self.splices.id(&operation.range())
    }
}

fn sent_bytes(splices: &Splices, operation: &Operation) -> u64 {
    let bytes = u64::from(operation.len);
    splices.within(&operation.range()).map_or(bytes, |splice| splice.sent(bytes))
}
