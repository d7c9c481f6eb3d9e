use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::gzip_head;
use super::inflaters::Inflaters;

/// Inflates a gzip body while it arrives, within a bound on what comes out.
///
/// Takes one gzip member, as clusters do; whatever follows it is malformed.
#[derive(Debug)]
pub struct Inflater {
    /// What arrived of a head that did not arrive at once.
    head: Vec<u8>,
    stage: Stage,
    crc: Crc,
    /// What arrived of checksum and length, with which it ends, and how much that is.
    tail: [u8; TAIL],
    tail_length: usize,
    /// There until it is dropped, and goes back then.
    workspace: Option<Workspace>,
    inflaters: Inflaters,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Head,
    Deflated,
    Tail,
}

/// The large part of it, which is used again for other bodies.
#[derive(Debug)]
pub struct Workspace {
    decompress: Decompress,
    /// Into which it inflates.
    piece: Box<[u8]>,
}

/// Why a body cannot be inflated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InflateError {
    /// It is not gzip, or is cut off.
    #[error("the body is not gzip")]
    Malformed,
    /// More comes out of it than there is room for.
    #[error("the body inflates to more than there is room for")]
    TooLarge,
}

/// The most bytes that come out at a time.
const PIECE: usize = 32 << 10;

/// Bytes of checksum and length.
const TAIL: usize = 8;

impl Default for Workspace {
    fn default() -> Self {
        Self { decompress: Decompress::new(false), piece: vec![0; PIECE].into() }
    }
}

impl Default for Inflater {
    fn default() -> Self {
        Inflaters::default().take()
    }
}

impl Inflater {
    /// About what it takes, beside what comes out: a window and a piece, of 32 KiB each, and tables.
    pub const MEMORY: u64 = 76 << 10;

    /// One that inflates in this workspace.
    pub(super) fn new(workspace: Workspace, inflaters: Inflaters) -> Self {
        Self {
            head: Vec::new(),
            stage: Stage::Head,
            crc: Crc::new(),
            tail: [0; TAIL],
            tail_length: 0,
            workspace: Some(workspace),
            inflaters,
        }
    }

    /// Takes as much of what has arrived as makes a piece, and returns that, which is at most `room` bytes; an empty
    /// one when there is nothing left to take.
    pub fn inflate(&mut self, arrived: &mut &[u8], room: usize) -> Result<Vec<u8>, InflateError> {
        if self.stage == Stage::Head {
            self.read_head(arrived)?;
        }
        let piece = match self.stage {
            Stage::Deflated => self.read_deflated(arrived, room)?,
            _ => Vec::new(),
        };
        if self.stage == Stage::Tail {
            for byte in std::mem::take(arrived) {
                *self.tail.get_mut(self.tail_length).ok_or(InflateError::Malformed)? = *byte;
                self.tail_length = self.tail_length.saturating_add(1);
            }
        }
        Ok(piece)
    }

    /// Checks length and checksum, now that all of it has arrived.
    pub fn finish(&self) -> Result<(), InflateError> {
        let expected = [self.crc.sum().to_le_bytes(), self.crc.amount().to_le_bytes()];
        match self.tail_length == TAIL && self.tail == expected.as_flattened() {
            true => Ok(()),
            false => Err(InflateError::Malformed),
        }
    }

    fn read_head(&mut self, arrived: &mut &[u8]) -> Result<(), InflateError> {
        let before = self.head.len();
        let mut length = if before == 0 { gzip_head::length(arrived)? } else { None };
        if length.is_none() {
            self.head.extend_from_slice(arrived.get(..gzip_head::LONGEST).unwrap_or(arrived));
            length = gzip_head::length(&self.head)?;
        }
        if length.is_some() {
            self.stage = Stage::Deflated;
        }
        let taken = length.unwrap_or(self.head.len()).saturating_sub(before);
        *arrived = arrived.get(taken..).unwrap_or_default();
        Ok(())
    }

    fn read_deflated(&mut self, arrived: &mut &[u8], room: usize) -> Result<Vec<u8>, InflateError> {
        let Workspace { decompress, piece } = self.workspace.get_or_insert_default();
        let (taken, made) = (decompress.total_in(), decompress.total_out());
        let status = decompress.decompress(arrived, piece, FlushDecompress::None);
        let taken = decompress.total_in().saturating_sub(taken) as usize;
        let made = decompress.total_out().saturating_sub(made) as usize;
        let is_stuck = taken == 0 && made == 0 && !arrived.is_empty();
        *arrived = arrived.get(taken..).unwrap_or_default();
        match status {
            Ok(Status::StreamEnd) => self.stage = Stage::Tail,
            Ok(_) if !is_stuck => {}
            _ => return Err(InflateError::Malformed),
        }
        if made > room {
            return Err(InflateError::TooLarge);
        }
        let piece = piece.get(..made).unwrap_or_default();
        self.crc.update(piece);
        Ok(piece.to_vec())
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        if let Some(workspace) = self.workspace.take() {
            self.inflaters.keep(workspace);
        }
    }
}

impl Workspace {
    /// Makes it ready for another body, of which it tells nothing of the last.
    pub fn reset(&mut self) {
        self.decompress.reset(false);
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

    /// Inflates in pieces of this size, with this much room in all.
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
                assert!(more.len() <= PIECE && more.capacity() == more.len());
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
    fn gives_back_what_was_zipped_however_it_arrives() {
        let plain: Vec<u8> = (0..200_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let zipped = gzip(&plain);
        for size in [1, 7, 1000, zipped.len()] {
            assert_eq!(inflate(&zipped, size, plain.len()).as_deref(), Ok(plain.as_slice()), "{size}");
        }
        assert_eq!(inflate(&gzip(b""), 3, 0).as_deref(), Ok(&b""[..]));
    }

    #[test]
    fn the_head_may_have_all_that_heads_have() {
        let head = || GzBuilder::new().extra(vec![7; 300]).filename("a.ndjson").comment("of no use").mtime(1);
        for size in [1, 50, 10_000] {
            assert_eq!(inflate(&gzip_with(head(), b"lines"), size, 5).as_deref(), Ok(&b"lines"[..]), "{size}");
        }
    }

    #[test]
    fn the_next_body_is_inflated_in_the_workspace_of_the_last_one() {
        let inflaters = Inflaters::default();
        let texts: [Vec<u8>; 3] = [b"abc".repeat(50_000), b"x".to_vec(), b"abc".repeat(9)];
        for plain in &texts {
            let zipped = gzip(plain);
            assert_eq!(inflate_with(&mut inflaters.take(), &zipped, 1000, plain.len()).as_ref(), Ok(plain));
            let cut_off = inflate_with(&mut inflaters.take(), &zipped[..zipped.len() / 2], 1000, plain.len());
            assert_eq!(cut_off, Err(InflateError::Malformed));
        }
        assert_eq!(inflaters.idle(), 1);
    }

    #[test]
    fn a_bomb_is_stopped_at_the_bound() {
        let bomb = gzip(&vec![0; 100 << 20]);
        assert_eq!(inflate(&bomb, bomb.len(), 1 << 20), Err(InflateError::TooLarge));
    }

    #[test]
    fn what_is_cut_off_damaged_or_followed_by_more_is_malformed() {
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
