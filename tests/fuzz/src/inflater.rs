use std::io::Read;

use bulk_reshuffle::bulk::{InflateError, Inflater};
use flate2::bufread::GzDecoder;

use crate::pieces::{cut, gzip};

/// The maximum output for an input, in bytes.
const ROOM: usize = 1 << 15;

/// Checks a gzip body, after a line with the sizes of its pieces.
///
/// The output must be the same for any pieces, must equal that of another reader, and must never exceed the room. As
/// plain text, the input must survive compression.
pub fn inflater(input: &[u8]) {
    let (pieces, whole) = cut(input);
    let inflated = inflate(&pieces, ROOM).ok();
    assert_eq!(inflated, inflate(&[whole], ROOM).ok(), "the pieces make a difference");
    assert_eq!(inflated, reference(whole), "another reader does not agree");
    let zipped = gzip(whole);
    let zipped: Vec<_> = zipped.chunks(pieces.first().map_or(1, |piece| piece.len())).collect();
    assert_eq!(inflate(&zipped, whole.len()).as_deref(), Ok(whole), "compression changes the text");
    if let Some(room) = whole.len().checked_sub(1) {
        assert_eq!(inflate(&zipped, room), Err(InflateError::TooLarge));
    }
}

fn inflate(pieces: &[&[u8]], room: usize) -> Result<Vec<u8>, InflateError> {
    let mut inflater = Inflater::default();
    let mut plain = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let more = inflater.inflate(&mut rest, room - plain.len())?;
            if more.is_empty() {
                assert!(rest.is_empty(), "input is left over");
                break;
            }
            plain.extend(more);
            assert!(plain.len() <= room, "the output exceeds the room");
        }
    }
    inflater.finish().map(|()| plain)
}

/// Returns the content of a body that is exactly one gzip member.
fn reference(whole: &[u8]) -> Option<Vec<u8>> {
    let mut decoder = GzDecoder::new(whole);
    let mut plain = Vec::new();
    decoder.by_ref().take(ROOM as u64 + 1).read_to_end(&mut plain).ok()?;
    (plain.len() <= ROOM && decoder.into_inner().is_empty()).then_some(plain)
}
