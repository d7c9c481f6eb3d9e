use std::rc::Rc;

use hashbrown::HashMap;
use serde_json::value::RawValue;

use super::caller::CallerId;
use super::head::Head;
use super::{PassThrough, Response};
use crate::bulk::{ActionLine, Answer, Body, FilterPath, InflateError, Inflater, Operation, Placement, Reader};
use crate::routing::{Route, RoutingTable, Unrouted, UpstreamId, hash};

/// A bulk request that is here: being read, held, or on its way to the nodes.
#[derive(Debug)]
pub struct Request {
    /// Whose batches it may share.
    pub caller: CallerId,
    /// Inflated. Kept until the answer: error items are written from it, and it may have to be sent again.
    body: Body,
    /// What arrived, as long as it may have to be handed back.
    compressed: Option<Compressed>,
    /// In the order of the request.
    pub operations: Vec<Operation>,
    /// One for each upstream that has an operation of it.
    pub shares: Vec<Share>,
    /// Shares without an outcome.
    pub pending: usize,
    /// Whether any share has left.
    pub dispatched: bool,
    /// Whether the client has gone; what is on its way goes on, and nobody is told.
    pub abandoned: bool,
    /// For action lines that name no index.
    pub default_index: Option<String>,
    /// What the client wants to see of the answer.
    pub filter_path: FilterPath,
    default_routing: Option<String>,
    reader: Reader,
    /// One table from the first operation to the last: operations on one document never part.
    table: Rc<RoutingTable>,
    share_of: HashMap<UpstreamId, u16>,
    /// Where its operations without an id go.
    any_node: Option<UpstreamId>,
}

/// A body that arrives compressed.
#[derive(Debug)]
struct Compressed {
    inflater: Inflater,
    arrived: Body,
}

/// How much more of a request there is room for.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Bytes of its body.
    pub bytes: u64,
    /// Why not more.
    pub beyond: PassThrough,
}

/// What one upstream gets of a request: it travels in one batch.
#[derive(Debug)]
pub struct Share {
    /// Whose.
    pub upstream: UpstreamId,
    /// By their position in the request.
    pub operations: Vec<u32>,
    /// Bytes of their lines.
    pub bytes: u64,
    /// What became of it.
    pub outcome: Option<Outcome>,
}

/// What became of a share.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The node answered: the share's items stand in a row.
    Items {
        /// The answer to the batch.
        answer: Rc<NodeAnswer>,
        /// Where the share's first item is.
        first: usize,
    },
    /// One response for all of the share: a refusal, or the answer to a request that travelled alone and unsplit.
    Whole(Rc<Response>),
    /// Nobody knows whether it was carried out.
    Unknown {
        /// The status for its items.
        status: u16,
        /// The error for its items.
        error: Rc<RawValue>,
    },
}

/// A node's answer to a batch, shared by the requests in it.
#[derive(Debug)]
pub struct NodeAnswer {
    /// The response's headers.
    pub headers: Vec<(String, String)>,
    /// Its body, with the items cut apart.
    pub answer: Answer,
}

impl Request {
    /// A request of which the headers are read. `any_node` takes its operations without an id.
    pub fn new(head: Head, caller: CallerId, table: Rc<RoutingTable>, any_node: Option<UpstreamId>) -> Self {
        let Head { default_index, default_routing, filter_path, gzip, .. } = head;
        Self {
            caller,
            body: Body::default(),
            compressed: gzip.then(|| Compressed { inflater: Inflater::default(), arrived: Body::default() }),
            operations: Vec::new(),
            shares: Vec::new(),
            pending: 0,
            dispatched: false,
            abandoned: false,
            default_index,
            filter_path,
            default_routing,
            reader: Reader::default(),
            table,
            share_of: HashMap::new(),
            any_node,
        }
    }

    /// Takes the next chunk of the body, and finds the operations in it.
    pub fn take(&mut self, chunk: Vec<u8>, room: Room) -> Result<(), PassThrough> {
        let fits = chunk.len() as u64 <= room.bytes;
        let inflated = match &mut self.compressed {
            None => {
                self.body.push(chunk);
                Ok(Vec::new())
            }
            Some(Compressed { inflater, arrived }) => {
                let inflated = inflater.inflate(&chunk, room.bytes as usize);
                arrived.push(chunk);
                inflated
            }
        };
        if !fits {
            return Err(room.beyond);
        }
        self.read(inflated, room)
    }

    /// Says whether the whole body was vouched for, now that it has ended.
    pub fn finish(&mut self, room: Room) -> Result<(), PassThrough> {
        if let Some(Compressed { inflater, .. }) = &mut self.compressed {
            let rest = inflater.finish(room.bytes as usize);
            self.read(rest, room)?;
        }
        self.reader.finish(&self.body, &self.operations).map_err(PassThrough::from)?;
        self.compressed = None;
        self.pending = self.shares.len();
        Ok(())
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

    /// Reads on, after what was inflated is added to the body.
    fn read(&mut self, inflated: Result<Vec<u8>, InflateError>, room: Room) -> Result<(), PassThrough> {
        self.body.push(inflated.map_err(|error| match error {
            InflateError::Malformed => PassThrough::Gzip,
            InflateError::TooLarge => room.beyond,
        })?);
        let Self { reader, body, operations, table, shares, share_of, .. } = self;
        let (default_index, default_routing) = (self.default_index.as_deref(), self.default_routing.as_deref());
        let any_node = self.any_node;
        let before = operations.len();
        reader.read(body, operations, |line| {
            let (id_hash, upstream) = place(table, line, default_index, default_routing, any_node)?;
            let share = *share_of.entry(upstream).or_insert_with(|| {
                shares.push(Share { upstream, operations: Vec::new(), bytes: 0, outcome: None });
                // There are at most as many shares as upstreams, whose numbers have 16 bits.
                shares.len().saturating_sub(1) as u16
            });
            Ok(Placement { id_hash, share })
        })?;
        for (position, operation) in operations.iter().enumerate().skip(before) {
            if let Some(share) = shares.get_mut(usize::from(operation.placement.share)) {
                share.operations.push(position as u32);
                share.bytes = share.bytes.saturating_add(u64::from(operation.len));
            }
        }
        Ok(())
    }

    /// About how many bytes it takes.
    pub fn memory(&self) -> u64 {
        let per_operation = size_of::<Operation>().saturating_add(size_of::<u32>());
        let compressed =
            self.compressed.as_ref().map_or(0, |body| body.arrived.memory().saturating_add(Inflater::MEMORY));
        let operations = self.operations.len().saturating_mul(per_operation) as u64;
        self.body.memory().saturating_add(compressed).saturating_add(operations)
    }

    /// The operations of a share.
    pub fn share_operations(&self, share: u16) -> impl Iterator<Item = &Operation> {
        let positions = self.shares.get(usize::from(share)).map(|share| share.operations.as_slice());
        positions.unwrap_or_default().iter().filter_map(|position| self.operations.get(*position as usize))
    }

    /// Appends the lines of a share, as they came.
    pub fn copy_share(&self, share: u16, to: &mut Vec<u8>) {
        for operation in self.share_operations(share) {
            self.body.copy_to(operation.range(), to);
        }
    }
}

/// Where an operation goes, and the hash of its id.
fn place(
    table: &RoutingTable,
    line: &ActionLine<'_>,
    default_index: Option<&str>,
    default_routing: Option<&str>,
    any_node: Option<UpstreamId>,
) -> Result<(Option<u32>, UpstreamId), Unrouted> {
    let index = line.index.as_deref().or(default_index).ok_or(Unrouted::NoIndex)?;
    let routing = line.routing.as_deref().or(default_routing);
    let id_hash = line.id.as_deref().map(hash);
    let upstream = match table.route(index, id_hash, routing)? {
        Route::Primary { upstream, .. } => upstream,
        Route::AnyNode => any_node.ok_or(Unrouted::Primary)?,
    };
    Ok((id_hash, upstream))
}
