use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Splits off the first line of an input. Each of its bytes is the size of a piece, repeated as needed, into which the
/// rest is cut. Without any sizes the rest stays whole.
pub fn cut(input: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let (sizes, rest) = line(input);
    let mut sizes = sizes.iter().cycle();
    let mut left = rest;
    let mut pieces = Vec::new();
    while !left.is_empty() {
        // A newline cannot be a size, but a zero may occur.
        let size = sizes.next().map_or(left.len(), |size| usize::from(*size).clamp(1, left.len()));
        let (piece, after) = left.split_at(size);
        pieces.push(piece);
        left = after;
    }
    (pieces, rest)
}

/// Splits an input after its first line, and returns the line without its end.
pub fn line(input: &[u8]) -> (&[u8], &[u8]) {
    match input.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (input, &[]),
    }
}

/// Compresses a body, independently of the filter.
pub fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain).and_then(|()| encoder.finish()).expect("writing to memory failed")
}
