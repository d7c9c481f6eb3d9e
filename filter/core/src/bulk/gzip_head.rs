//! What stands before the compressed bytes of a gzip member: RFC 1952, section 2.3.

use flate2::Crc;

use super::InflateError;

/// Longer ones are not read: nobody sends them.
pub const LONGEST: usize = 4 << 10;

/// Magic number and method.
const START: [u8; 3] = [0x1f, 0x8b, 8];

const CHECKSUM: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// The length of the head with which this begins; `None` if not all of it is there.
pub fn length(bytes: &[u8]) -> Result<Option<usize>, InflateError> {
    let start = bytes.get(..START.len()).unwrap_or(bytes);
    let is_reserved = bytes.get(3).is_some_and(|flags| flags & RESERVED != 0);
    if !START.starts_with(start) || is_reserved {
        return Err(InflateError::Malformed);
    }
    match end(bytes) {
        Some((end, checksum)) if checksum.is_none_or(|checksum| checksum == checksum_of(bytes, end)) => {
            Ok(Some(end.saturating_add(if checksum.is_some() { 2 } else { 0 })))
        }
        None if bytes.len() < LONGEST => Ok(None),
        _ => Err(InflateError::Malformed),
    }
}

/// Where it ends but for its checksum, and the checksum if it has one.
fn end(bytes: &[u8]) -> Option<(usize, Option<u16>)> {
    let flags = *bytes.get(3)?;
    let mut end = 10_usize;
    if flags & EXTRA != 0 {
        end = end.saturating_add(2).saturating_add(usize::from(number(bytes, end)?));
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            end = end.saturating_add(memchr::memchr(0, bytes.get(end..)?)?).saturating_add(1);
        }
    }
    let checksum = match flags & CHECKSUM != 0 {
        true => Some(number(bytes, end)?),
        false => None,
    };
    (end <= bytes.len()).then_some((end, checksum))
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_le_bytes)
}

/// The lower half of the CRC-32 of what stands before it.
fn checksum_of(bytes: &[u8], end: usize) -> u16 {
    let mut crc = Crc::new();
    crc.update(bytes.get(..end).unwrap_or_default());
    (crc.sum() & 0xffff) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(flags: u8, more: &[u8]) -> Vec<u8> {
        [&[0x1f, 0x8b, 8, flags, 1, 2, 3, 4, 0, 255], more].concat()
    }

    #[test]
    fn is_measured_with_all_that_it_may_have() {
        let checked = head(CHECKSUM | NAME, b"name\0");
        let checksum = checksum_of(&checked, checked.len()).to_le_bytes();
        for head in [
            head(0, b""),
            head(1, b""),
            head(EXTRA, &[3, 0, 0, 0, 0]),
            head(NAME, b"name\0"),
            head(COMMENT, b"\0"),
            head(EXTRA | NAME | COMMENT, b"\x01\0xname\0comment\0"),
            [checked.as_slice(), &checksum].concat(),
        ] {
            assert_eq!(length(&[head.as_slice(), b"deflated"].concat()), Ok(Some(head.len())), "{head:?}");
            for cut in 0..head.len() {
                assert_eq!(length(&head[..cut]), Ok(None), "{head:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn is_refused_if_it_is_none_or_damaged_or_too_long() {
        let checked = [head(CHECKSUM, b""), vec![0, 0]].concat();
        let long = head(NAME, &[b'x'; LONGEST]);
        let method = [0x1f, 0x8b, 7];
        for bytes in [b"no gzip".as_slice(), b"\x1f\x8c", &method, &head(RESERVED, b""), &checked, &long] {
            assert_eq!(length(bytes), Err(InflateError::Malformed), "{bytes:?}");
        }
    }
}
