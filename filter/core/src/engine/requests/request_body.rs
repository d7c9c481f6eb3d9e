use std::ops::Range;

use crate::bulk::{
    ActionLine, Body, InflateError, Inflater, Operation, Parameter, Placement, ReadError, Reader, Splices,
};
use crate::engine::pass_through::PassThrough;
use crate::invariant::Count;

/// The body of a request: as it arrives, as it is read, and as its operations are sent.
#[derive(Debug, Default)]
pub struct RequestBody {
    /// The inflated body. It is kept until the answer, because error items quote it and it may have to be sent again.
    plain: Body,
    /// The compressed body, as long as the request may still pass through.
    compressed: Option<Box<Compressed>>,
    reader: Reader,
    /// The parameters that are added to its lines.
    splices: Splices,
    /// The bytes of the action line before a single document, which did not arrive.
    line: u32,
    /// Whether the newline after a single document was added.
    is_ended: bool,
}

#[derive(Debug, Default)]
struct Compressed {
    inflater: Inflater,
    arrived: Body,
}

impl RequestBody {
    /// Starts without a chunk.
    pub fn new(is_gzip: bool) -> Self {
        Self { compressed: is_gzip.then(Box::default), ..Self::default() }
    }

    /// Starts with the action line of a single document, whose source is to arrive. Security plug-ins require other
    /// rights for a script in a single update than for one in a bulk request.
    pub fn begin_with(&mut self, line: Vec<u8>) {
        self.reader = Reader::without_scripts();
        self.plain.push(line);
        self.line = self.plain.len();
    }

    /// Returns the bytes of a single document that have arrived, inflated.
    pub fn document(&self) -> u32 {
        let own = self.line.saturating_add(u32::from(self.is_ended));
        self.plain.len().minus(own, "the body begins with the line")
    }

    /// Returns whether a newline has arrived in a single document. `was_read`: whether its first line was read, without
    /// success.
    pub fn has_newline(&self, was_read: bool) -> bool {
        !self.is_ended && (was_read || self.reader.line_start() > self.line)
    }

    /// Ends the line of a single document. Returns whether it is one: a cluster would cut a carriage return off.
    pub fn end_document(&mut self) -> bool {
        let last = self.plain.pieces(self.plain.len().saturating_sub(1)..self.plain.len()).next();
        let is_line = self.document() > 0 && last != Some(b"\r");
        self.plain.push(vec![b'\n']);
        self.is_ended = true;
        is_line
    }

    /// Appends a single document.
    pub fn copy_document(&self, to: &mut Vec<u8>) {
        self.plain.copy_to(self.line..self.line.saturating_add(self.document()), to);
    }

    /// Returns whether it arrives compressed.
    pub fn is_compressed(&self) -> bool {
        self.compressed.is_some()
    }

    /// Appends a chunk as it arrives.
    pub fn push(&mut self, chunk: Vec<u8>) {
        match &mut self.compressed {
            Some(compressed) => compressed.arrived.push(chunk),
            None => self.plain.push(chunk),
        }
    }

    /// Inflates more of a compressed chunk, by at most `most` bytes. Returns whether there was any more.
    pub fn inflate(&mut self, rest: &mut &[u8], most: u64) -> Result<bool, InflateError> {
        let Some(compressed) = &mut self.compressed else { return Ok(false) };
        let more = compressed.inflater.inflate(rest, most as usize)?;
        let is_more = !more.is_empty();
        self.plain.push(more);
        Ok(is_more)
    }

    /// Reads the operations that are complete by now. `locate` locates the operation of a line, which has this offset, and
    /// may add a parameter to the line.
    pub fn read(
        &mut self,
        operations: &mut Vec<Operation>,
        mut locate: impl FnMut(&ActionLine<'_>, u32) -> Result<(Placement, Option<Parameter>), PassThrough>,
    ) -> Result<(), ReadError<PassThrough>> {
        let Self { plain, reader, splices, .. } = self;
        reader.read(plain, operations, |line, start| {
            let (placement, parameter) = locate(line, start)?;
            if let Some(parameter) = parameter {
                splices.push(line.splice(start, parameter));
            }
            Ok(placement)
        })
    }

    /// Checks that the body ends here.
    pub fn finish(&self, operations: &[Operation]) -> Result<(), PassThrough> {
        if let Some(compressed) = &self.compressed {
            compressed.inflater.finish().map_err(|_| PassThrough::Gzip)?;
        }
        Ok(self.reader.finish::<PassThrough>(&self.plain, operations)?)
    }

    /// Forgets the compressed body of a request that does not pass through. Returns whether there was one.
    pub fn forget_compressed(&mut self) -> bool {
        self.compressed.take().is_some()
    }

    /// Returns the body as it arrived.
    pub fn into_chunks(self) -> Vec<Vec<u8>> {
        if let Some(compressed) = self.compressed {
            return compressed.arrived.into_chunks();
        }
        let mut chunks = self.plain.into_chunks();
        if self.is_ended {
            chunks.pop();
        }
        if self.line > 0 {
            chunks.remove(0);
        }
        chunks
    }

    /// Returns the bytes that have arrived: compressed or inflated, whichever is more.
    pub fn length(&self) -> u64 {
        let arrived = self.compressed.as_ref().map_or(0, |compressed| compressed.arrived.len());
        u64::from(self.document().max(arrived))
    }

    /// Returns the inflated bytes.
    pub fn plain_length(&self) -> u64 {
        u64::from(self.plain.len())
    }

    /// Returns the approximate memory use, in bytes.
    pub fn memory(&self) -> u64 {
        let compressed = self
            .compressed
            .as_ref()
            .map_or(0, |compressed| compressed.arrived.memory().saturating_add(Inflater::MEMORY));
        self.plain.memory().saturating_add(self.splices.memory()).saturating_add(compressed)
    }

    /// Returns the bytes of all operations as they are sent.
    pub fn sent(&self) -> u64 {
        self.plain_length().saturating_add(self.splices.sent())
    }

    /// Returns the bytes of an operation's lines as they are sent.
    pub fn sent_bytes(&self, operation: &Operation) -> u64 {
        let bytes = u64::from(operation.len);
        self.splices.within(&operation.range()).map_or(bytes, |splice| splice.sent(bytes))
    }

    /// Returns the lines of an operation as one slice.
    pub fn lines<'a>(&'a self, operation: &Operation, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        self.plain.contiguous(operation.range(), scratch)
    }

    /// Appends the lines of an operation, unchanged except for added parameters.
    pub fn copy_operation(&self, operation: &Operation, to: &mut Vec<u8>) {
        let lines = operation.range();
        match self.splices.within(&lines) {
            Some(splice) => {
                self.plain.copy_to(lines.start..splice.at, to);
                splice.write(to);
                self.plain.copy_to(splice.end()..lines.end, to);
            }
            None => self.plain.copy_to(lines, to),
        }
    }

    /// Returns the parameter that is added to an operation's action line.
    pub fn parameter(&self, operation: &Operation) -> Option<&Parameter> {
        self.splices.within(&operation.range()).map(|splice| &splice.parameter)
    }

    /// Returns the id that was generated for an operation.
    pub fn generated_id(&self, operation: &Operation) -> Option<&str> {
        self.splices.id(&operation.range())
    }

    /// Returns the start of the line at which reading stopped.
    pub fn line_start(&self) -> u32 {
        self.reader.line_start()
    }

    /// Returns how many lines end within a range of the body.
    pub fn line_ends(&self, part: Range<u32>) -> u32 {
        let ends = self.plain.pieces(part).map(|piece| memchr::memchr_iter(b'\n', piece).count());
        ends.fold(0, |all, ends| all.saturating_add(u32::try_from(ends).unwrap_or(u32::MAX)))
    }

    /// Returns the available part of the line that starts at this position, up to `most` bytes.
    pub fn line_at(&self, start: u32, most: u32) -> Vec<u8> {
        let mut line = Vec::new();
        self.plain.copy_to(start..start.saturating_add(most), &mut line);
        let end = memchr::memchr(b'\n', &line).unwrap_or(line.len());
        line.truncate(end);
        line
    }
}
