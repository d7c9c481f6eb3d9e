/// The hash by which Elasticsearch and OpenSearch choose a shard: murmur3 (x86, 32 bits, seed 0) over the UTF-16
/// code units of the text, in little-endian order.
pub fn hash(text: &str) -> u32 {
    // A text has at most as many code units as bytes. Most ids are short, and clearing a large buffer takes longer
    // than hashing one; ids have at most 512 bytes, and only a routing value can be longer.
    match text.len() {
        0..=32 => on_stack::<64>(text),
        33..=512 => on_stack::<1024>(text),
        _ => murmur3(&text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>()),
    }
}

/// The hash of a text whose code units fit into so many bytes.
fn on_stack<const BYTES: usize>(text: &str) -> u32 {
    let mut buffer = [0_u8; BYTES];
    let mut used = 0_usize;
    for (unit, to) in text.encode_utf16().zip(buffer.chunks_exact_mut(2)) {
        to.copy_from_slice(&unit.to_le_bytes());
        used = used.saturating_add(2);
    }
    murmur3(buffer.get(..used).unwrap_or_default())
}

fn murmur3(mut bytes: &[u8]) -> u32 {
    // Reading from memory cannot fail.
    murmur3::murmur3_32(&mut bytes, 0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Elasticsearch's own tests of its hash function, and checked on real clusters.
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
    fn long_texts_hash_like_short_ones() {
        for length in [1, 8, 16, 31, 32, 33, 511, 512, 513, 600, 1024, 1025, 5000] {
            for text in ["x".repeat(length), "é".repeat(length), "🙂".repeat(length)] {
                let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
                assert_eq!(hash(&text), murmur3(&units), "{length}");
            }
        }
    }
}
