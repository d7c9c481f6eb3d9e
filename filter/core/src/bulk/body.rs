use std::ops::Range;

use crate::invariant::Count;

/// A request's body, stored in the chunks in which it arrived and addressed as one piece.
///
/// Offsets are 32 bits wide: the configuration limits a body to less than 4 GiB.
#[derive(Debug, Default)]
pub struct Body {
    chunks: Vec<Chunk>,
    len: u32,
}

#[derive(Debug)]
struct Chunk {
    /// The offset in the body.
    start: u32,
    bytes: Vec<u8>,
}

/// The memory that a chunk takes in addition to its bytes: its entry in the list, which has room to grow, and the
/// allocator's overhead.
const PER_CHUNK: u64 = 64;

impl Body {
    /// Appends the next chunk. A body has less than 4 GiB: a VM has no more, and a request of more than
    /// `limits.max_request` passes through.
    pub fn push(&mut self, chunk: Vec<u8>) {
        if chunk.is_empty() {
            return;
        }
        // Many bodies are a single chunk.
        if self.chunks.is_empty() {
            self.chunks.reserve_exact(1);
        }
        let (start, len) = (self.len, chunk.len() as u32);
        self.chunks.push(Chunk { start, bytes: chunk });
        self.len = start.plus(len, "a body has less than 4 GiB");
    }

    /// Returns the length of the body, in bytes.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns the approximate memory use, in bytes. A body in tiny chunks takes many times its length.
    pub fn memory(&self) -> u64 {
        u64::from(self.len).saturating_add((self.chunks.len() as u64).saturating_mul(PER_CHUNK))
    }

    /// Returns the approximate memory use of a chunk of this length, in bytes.
    pub fn chunk_memory(len: usize) -> u64 {
        PER_CHUNK.saturating_add(len as u64)
    }

    /// Returns whether nothing has arrived.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the chunks as they arrived.
    pub fn into_chunks(self) -> Vec<Vec<u8>> {
        self.chunks.into_iter().map(|chunk| chunk.bytes).collect()
    }

    /// Returns the slices that make up a range, in order. The part of the range beyond the end is left out.
    pub fn pieces(&self, range: Range<u32>) -> impl Iterator<Item = &[u8]> {
        let first = self.chunks.partition_point(|chunk| chunk.start <= range.start).saturating_sub(1);
        let chunks = self.chunks.iter().skip(first).take_while(move |chunk| chunk.start < range.end);
        chunks.filter_map(move |Chunk { start, bytes }| {
            let from = range.start.saturating_sub(*start) as usize;
            let to = (range.end.saturating_sub(*start) as usize).min(bytes.len());
            bytes.get(from..to)
        })
    }

    /// Returns the range as one slice. It is borrowed if it lies within one chunk, and otherwise copied into `scratch`.
    pub fn contiguous<'a>(&'a self, range: Range<u32>, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let mut pieces = self.pieces(range.clone());
        let Some(first) = pieces.next() else { return &[] };
        if first.len() == range.len() {
            return first;
        }
        scratch.clear();
        scratch.reserve_exact(range.len());
        scratch.extend_from_slice(first);
        pieces.for_each(|piece| scratch.extend_from_slice(piece));
        scratch
    }

    /// Appends the range to `to`.
    pub fn copy_to(&self, range: Range<u32>, to: &mut Vec<u8>) {
        self.pieces(range).for_each(|piece| to.extend_from_slice(piece));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(chunks: &[&str]) -> Body {
        let mut body = Body::default();
        for chunk in chunks {
            body.push(chunk.as_bytes().to_vec());
        }
        body
    }

    #[test]
    fn every_range_reads_the_same_for_any_chunk_boundaries() {
        let whole = "abcdefghij";
        for chunks in [&["abcdefghij"][..], &["a", "bcd", "", "efghi", "j"], &["abcde", "fghij"]] {
            let body = body(chunks);
            for start in 0..=10u32 {
                for end in start..=10 {
                    let expected = &whole.as_bytes()[start as usize..end as usize];
                    let mut scratch = Vec::new();
                    assert_eq!(body.contiguous(start..end, &mut scratch), expected);
                    let mut copy = b"x".to_vec();
                    body.copy_to(start..end, &mut copy);
                    assert_eq!(&copy[1..], expected);
                }
            }
        }
    }

    #[test]
    fn a_range_beyond_the_end_is_cut_off() {
        let mut scratch = Vec::new();
        assert_eq!(body(&["abc"]).contiguous(2..9, &mut scratch), b"c");
        assert_eq!(body(&[]).contiguous(0..9, &mut scratch), b"");
    }

    #[test]
    fn tiny_chunks_use_more_memory_than_their_bytes() {
        let memory = |count: usize| body(&vec!["a"; count]).memory();
        assert_eq!(memory(1), Body::chunk_memory(1));
        assert_eq!(memory(100), 100 * Body::chunk_memory(1));
        assert!(Body::chunk_memory(1) > size_of::<Chunk>() as u64);
    }

    #[test]
    fn returns_the_chunks_unchanged() {
        assert!(body(&["", ""]).is_empty() && !body(&["ab"]).is_empty());
        assert_eq!(body(&["ab", "", "c"]).into_chunks(), [b"ab".to_vec(), b"c".to_vec()]);
    }
}
