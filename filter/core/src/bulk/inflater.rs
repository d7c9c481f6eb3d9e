use std::io::{self, Write};

use flate2::write::GzDecoder;

/// Inflates a gzip body while it arrives, within a bound on what comes out.
///
/// Takes one gzip member, as clusters do; whatever follows it is malformed.
#[derive(Debug)]
pub struct Inflater {
    decoder: GzDecoder<Sink>,
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

impl Default for Inflater {
    fn default() -> Self {
        Self { decoder: GzDecoder::new(Sink::default()) }
    }
}

impl Inflater {
    /// About what it takes, beside what comes out: a window and a buffer, of 32 KiB each, and tables.
    pub const MEMORY: u64 = 96 << 10;

    /// Takes the next piece. Returns what comes out, at most `room` bytes; some of it may come with the next piece.
    pub fn inflate(&mut self, piece: &[u8], room: usize) -> Result<Vec<u8>, InflateError> {
        self.run(room, |decoder| decoder.write_all(piece))
    }

    /// Returns what is left, at most `room` bytes, and checks length and checksum.
    pub fn finish(&mut self, room: usize) -> Result<Vec<u8>, InflateError> {
        self.run(room, GzDecoder::try_finish)
    }

    fn run(
        &mut self,
        room: usize,
        act: impl FnOnce(&mut GzDecoder<Sink>) -> io::Result<()>,
    ) -> Result<Vec<u8>, InflateError> {
        self.decoder.get_mut().room = room;
        let result = act(&mut self.decoder);
        let sink = self.decoder.get_mut();
        match (sink.overflowed, result) {
            (true, _) => Err(InflateError::TooLarge),
            (false, Err(_)) => Err(InflateError::Malformed),
            (false, Ok(())) => Ok(std::mem::take(&mut sink.bytes)),
        }
    }
}

/// Takes as many bytes as there is room for.
#[derive(Debug, Default)]
struct Sink {
    bytes: Vec<u8>,
    room: usize,
    overflowed: bool,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(room) = self.room.checked_sub(bytes.len()) else {
            self.overflowed = true;
            return Err(io::ErrorKind::StorageFull.into());
        };
        self.room = room;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    /// Inflates in pieces of this size, with this much room in all.
    fn inflate(zipped: &[u8], size: usize, mut room: usize) -> Result<Vec<u8>, InflateError> {
        let mut inflater = Inflater::default();
        let mut plain = Vec::new();
        for piece in zipped.chunks(size) {
            let more = inflater.inflate(piece, room)?;
            room -= more.len();
            plain.extend(more);
        }
        plain.extend(inflater.finish(room)?);
        Ok(plain)
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
    fn a_bomb_is_stopped_at_the_bound() {
        let bomb = gzip(&vec![0; 100 << 20]);
        let mut inflater = Inflater::default();
        assert_eq!(inflater.inflate(&bomb, 1 << 20), Err(InflateError::TooLarge));
        assert!(inflater.decoder.get_ref().bytes.len() <= 1 << 20);
    }

    #[test]
    fn what_is_cut_off_damaged_or_followed_by_more_is_malformed() {
        let zipped = gzip(b"{\"index\":{}}\n{}\n");
        let mut damaged = zipped.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let twice = [zipped.as_slice(), &zipped].concat();
        let cases: [&[u8]; 6] = [b"", b"no gzip", &zipped[..5], &zipped[..zipped.len() - 1], &damaged, &twice];
        for (n, case) in cases.into_iter().enumerate() {
            for size in [1, 100] {
                assert_eq!(inflate(case, size, 1000), Err(InflateError::Malformed), "case {n}");
            }
        }
    }
}
