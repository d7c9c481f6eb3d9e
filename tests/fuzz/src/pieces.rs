/// Takes the first line off an input: each of its bytes is the size of a piece, over and over, into which the rest
/// is cut. Without any it stays whole.
pub fn cut(input: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let (sizes, rest) = line(input);
    let mut sizes = sizes.iter().cycle();
    let mut left = rest;
    let mut pieces = Vec::new();
    while !left.is_empty() {
        // A newline is no size, but there may well be a zero.
        let size = sizes.next().map_or(left.len(), |size| usize::from(*size).clamp(1, left.len()));
        let (piece, after) = left.split_at(size);
        pieces.push(piece);
        left = after;
    }
    (pieces, rest)
}

/// The first line of an input, without its end, and what follows.
pub fn line(input: &[u8]) -> (&[u8], &[u8]) {
    match input.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (input, &[]),
    }
}
