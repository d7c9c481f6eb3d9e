use std::fmt;

use zlib_rs::{Inflate, InflateFlush, Status};

use crate::invariant::{Count, part};

/// Inflates a gzip body while it arrives, and limits the size of its output.
///
/// Accepts one gzip member, as clusters do. Anything after it is malformed.
pub struct Inflater {
    stream: Inflate,
    has_ended: bool,
}

/// The reason why a body cannot be inflated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InflateError {
    /// The body is not gzip, is damaged or is truncated.
    #[error("the body is not gzip")]
    Malformed,
    /// The body inflates to more bytes than there is room for.
    #[error("the body inflates to more than there is room for")]
    TooLarge,
}

/// The maximum number of bytes that one call returns.
const MAX_PIECE_BYTES: usize = 32 << 10;

/// The initial room for a small body, as a multiple of its length. Bulk lines inflate to about four times their length.
const INITIAL_RATIO: usize = 8;

/// The largest window, of 2^15 bytes, with a gzip header. zlib-rs creates its state in a third of the instructions that
/// miniz_oxide takes, which matters for small bodies: 87,000 instead of 252,000 for a request of one document.
const GZIP_WINDOW: u8 = 16 + 15;

impl Default for Inflater {
    fn default() -> Self {
        Self { stream: Inflate::new(true, GZIP_WINDOW), has_ended: false }
    }
}

impl fmt::Debug for Inflater {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Inflater").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}

impl Inflater {
    /// The approximate memory use in bytes, without the output: a window of 32 KiB, tables, and a piece.
    pub const MEMORY: u64 = 76 << 10;

    /// Consumes input until there is a piece of output, and returns that piece of at most `room` bytes. Returns an
    /// empty piece if all input is consumed. Fails if the input is malformed or a piece exceeds `room`.
    pub fn inflate(&mut self, arrived: &mut &[u8], room: usize) -> Result<Vec<u8>, InflateError> {
        let mut piece =
            vec![0; arrived.len().saturating_mul(INITIAL_RATIO).clamp(MAX_PIECE_BYTES / 32, MAX_PIECE_BYTES)];
        loop {
            if self.has_ended {
                return if arrived.is_empty() { Ok(Vec::new()) } else { Err(InflateError::Malformed) };
            }
            let (taken, made) = self.decompress(arrived, &mut piece)?;
            if made > room {
                return Err(InflateError::TooLarge);
            }
            if made > 0 {
                return Ok(part(&piece, ..made, "output fits its buffer").to_vec());
            }
            if arrived.is_empty() {
                return Ok(Vec::new());
            }
            if taken == 0 {
                return Err(InflateError::Malformed);
            }
        }
    }

    /// Succeeds if the whole body has arrived; its length and checksum are correct then. Fails if it is incomplete.
    pub fn finish(&self) -> Result<(), InflateError> {
        if self.has_ended { Ok(()) } else { Err(InflateError::Malformed) }
    }

    /// Returns how many bytes were consumed and how many were produced.
    fn decompress(&mut self, arrived: &mut &[u8], piece: &mut [u8]) -> Result<(usize, usize), InflateError> {
        let (taken, made) = (self.stream.total_in(), self.stream.total_out());
        match self.stream.decompress(arrived, piece, InflateFlush::NoFlush) {
            Ok(Status::StreamEnd) => self.has_ended = true,
            Ok(Status::Ok | Status::BufError) => {}
            Err(_) => return Err(InflateError::Malformed),
        }
        let taken = self.stream.total_in().minus(taken, "totals grow") as usize;
        let made = self.stream.total_out().minus(made, "totals grow") as usize;
        *arrived = part(arrived, taken.., "no more is taken than arrived");
        Ok((taken, made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, GzBuilder};
    use std::io::Write;

    fn gzip(plain: &[u8]) -> Vec<u8> {
        gzip_with(GzBuilder::new(), plain)
    }

    fn gzip_with(head: GzBuilder, plain: &[u8]) -> Vec<u8> {
        let mut encoder = head.write(Vec::new(), Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    /// Inflates in chunks of `size` bytes, with `room` bytes of room in total.
    fn inflate_with(
        inflater: &mut Inflater,
        zipped: &[u8],
        size: usize,
        mut room: usize,
    ) -> Result<Vec<u8>, InflateError> {
        let mut plain = Vec::new();
        for mut arrived in zipped.chunks(size) {
            loop {
                let more = inflater.inflate(&mut arrived, room)?;
                if more.is_empty() {
                    assert!(arrived.is_empty());
                    break;
                }
                assert!(more.len() <= MAX_PIECE_BYTES && more.capacity() == more.len());
                room -= more.len();
                plain.extend(more);
            }
        }
        inflater.finish().map(|()| plain)
    }

    fn inflate(zipped: &[u8], size: usize, room: usize) -> Result<Vec<u8>, InflateError> {
        inflate_with(&mut Inflater::default(), zipped, size, room)
    }

    #[test]
    fn inflates_to_the_original_for_any_chunk_size() {
        let plain: Vec<u8> = (0..200_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let zipped = gzip(&plain);
        for size in [1, 7, 1000, zipped.len()] {
            assert_eq!(inflate(&zipped, size, plain.len()).as_deref(), Ok(plain.as_slice()), "{size}");
        }
        assert_eq!(inflate(&gzip(b""), 3, 0).as_deref(), Ok(&b""[..]));
    }

    #[test]
    fn accepts_every_optional_header_field() {
        let head = || GzBuilder::new().extra(vec![7; 300]).filename("a.ndjson").comment("of no use").mtime(1);
        for size in [1, 50, 10_000] {
            assert_eq!(inflate(&gzip_with(head(), b"lines"), size, 5).as_deref(), Ok(&b"lines"[..]), "{size}");
        }
    }

    #[test]
    fn a_compression_bomb_stops_at_the_limit() {
        let bomb = gzip(&vec![0; 100 << 20]);
        assert_eq!(inflate(&bomb, bomb.len(), 1 << 20), Err(InflateError::TooLarge));
    }

    #[test]
    fn truncated_damaged_or_trailing_data_is_malformed() {
        let zipped = gzip(b"{\"index\":{}}\n{}\n");
        let mut damaged = zipped.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let mut other = zipped.clone();
        other[zipped.len() - 8] ^= 1;
        let twice = [zipped.as_slice(), &zipped].concat();
        let cases: [&[u8]; 7] = [b"", b"no gzip", &zipped[..5], &zipped[..zipped.len() - 1], &damaged, &other, &twice];
        for (n, case) in cases.into_iter().enumerate() {
            for size in [1, 100] {
                assert_eq!(inflate(case, size, 1000), Err(InflateError::Malformed), "case {n}");
            }
        }
    }
}
