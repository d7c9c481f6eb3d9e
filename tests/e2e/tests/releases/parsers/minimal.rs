use anyhow::Result;

use super::grammar::Body;

/// Removes from a body whatever is not needed for a property: lines first, then ever fewer bytes, until nothing more
/// can go.
pub fn minimal(body: &Body, mut holds: impl FnMut(&Body) -> Result<bool>) -> Result<Body> {
    let mut smallest = body.clone();
    loop {
        let before = smallest.bytes.len();
        for lines in 1..=2 {
            remove(&mut smallest, |bytes, start| end_of_lines(bytes, start, lines), &mut holds)?;
        }
        let sizes = std::iter::successors(Some(before.next_power_of_two()), |size| Some(size / 2));
        for size in sizes.take_while(|size| *size > 0) {
            remove(&mut smallest, |bytes, start| (start + size).min(bytes.len()), &mut holds)?;
        }
        if smallest.bytes.len() == before {
            return Ok(smallest);
        }
    }
}

/// Removes one part after the other, if the property still holds without it.
fn remove(
    body: &mut Body,
    end: impl Fn(&[u8], usize) -> usize,
    mut holds: impl FnMut(&Body) -> Result<bool>,
) -> Result<()> {
    let mut start = 0;
    while start < body.bytes.len() {
        let end = end(&body.bytes, start);
        let mut smaller = body.clone();
        smaller.bytes.drain(start..end);
        match holds(&smaller)? {
            true => *body = smaller,
            false => start = end,
        }
    }
    Ok(())
}

fn end_of_lines(bytes: &[u8], start: usize, lines: usize) -> usize {
    let newlines = bytes.iter().enumerate().skip(start).filter(|(_, byte)| **byte == b'\n');
    newlines.map(|(at, _)| at + 1).nth(lines - 1).unwrap_or(bytes.len())
}
