use std::io::{self, Read};
use std::str::EncodeUtf16;

use crate::invariant::found;

/// Returns the hash by which Elasticsearch and OpenSearch choose a shard: murmur3 (x86, 32 bits, seed 0) over the
/// UTF-16 code units of the text, in little-endian order.
pub fn hash(text: &str) -> u32 {
    match text.is_ascii() {
        true => of_ascii(text.as_bytes()),
        false => {
            let hash = murmur3::murmur3_32(&mut CodeUnits(text.encode_utf16()), 0);
            found(hash.ok(), "reading from memory does not fail").unwrap_or_default()
        }
    }
}

/// Returns the same hash for ASCII text, in which each byte is a code unit, as in nearly all ids. The library reads
/// four bytes per call of [`Read`], which takes four times the instructions.
fn of_ascii(text: &[u8]) -> u32 {
    let (pairs, last) = text.as_chunks::<2>();
    let state = AsciiPrefix::of(pairs).0;
    let state = last.iter().fold(state, |state, unit| state ^ scrambled(u32::from(*unit)));
    finished(state, text.len())
}

/// The state of the hash after the first characters of an ASCII text, for texts that differ only in the last two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsciiPrefix(u32);

impl AsciiPrefix {
    /// Hashes pairs of characters.
    pub(crate) fn of(pairs: &[[u8; 2]]) -> Self {
        Self(pairs.iter().fold(0, |state, pair| mixed(state, *pair)))
    }

    /// Returns the hash of a text of this length, which ends with these characters.
    #[inline]
    pub(crate) fn hash(self, last: [u8; 2], length: usize) -> u32 {
        finished(mixed(self.0, last), length)
    }
}

#[inline]
fn mixed(state: u32, [first, second]: [u8; 2]) -> u32 {
    let block = u32::from(first) | u32::from(second) << 16;
    (state ^ scrambled(block)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

#[inline]
fn finished(state: u32, length: usize) -> u32 {
    let state = state ^ (length as u32).wrapping_mul(2);
    let state = (state ^ state >> 16).wrapping_mul(0x85eb_ca6b);
    let state = (state ^ state >> 13).wrapping_mul(0xc2b2_ae35);
    state ^ state >> 16
}

fn scrambled(block: u32) -> u32 {
    block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

/// The code units of a text, as bytes.
struct CodeUnits<'a>(EncodeUtf16<'a>);

impl Read for CodeUnits<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut length = 0_usize;
        for (to, unit) in to.chunks_exact_mut(2).zip(&mut self.0) {
            to.copy_from_slice(&unit.to_le_bytes());
            length = length.saturating_add(2);
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from Elasticsearch's own tests of its hash function, also checked on real clusters.
    #[test]
    fn known_hashes() {
        for (text, expected) in [
            ("", 0),
            ("h", 0x3fb8_ba02),
            ("he", 0xce30_a49f),
            ("hel", 0x0c7c_ee6b),
            ("hell", 0x5a0c_b7c3),
            ("hello", 0xd7c3_1989),
            ("hello w", 0x22ab_2984),
            ("hello wo", 0xdf0c_a123),
            ("hello wor", 0xe774_4d61),
            ("hello world", 0x64b2_56a4),
            ("hello world!", 0xda15_75e5),
            ("Γειά σου Κόσμε", 0x8ded_82be),
            ("Supplementary planes too 🙂", 0x8274_606c),
            ("The quick brown fox jumps over the lazy dog", 0xe07d_b09c),
            ("The quick brown fox jumps over the lazy cog", 0x4e63_d2ad),
        ] {
            assert_eq!(hash(text), expected, "{text}");
        }
    }

    #[test]
    fn the_ascii_fast_path_hashes_like_the_library() {
        for length in [0, 1, 2, 3, 4, 5, 511, 512, 513, 5000] {
            for text in ["x".repeat(length), "é".repeat(length), "🙂".repeat(length)] {
                let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
                assert_eq!(hash(&text), murmur3::murmur3_32(&mut units.as_slice(), 0).unwrap(), "{length}");
            }
        }
    }
}
