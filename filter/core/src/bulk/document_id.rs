use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::invariant::found;

/// A document id that the filter generated: 15 bytes as 20 URL-safe characters, as clusters write theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DocumentId([u8; DocumentId::LENGTH]);

/// The URL-safe characters, by the six bits that each stands for.
const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl DocumentId {
    /// The number of characters.
    pub const LENGTH: usize = 20;

    /// Encodes these bytes as an id.
    pub fn new(bytes: [u8; 15]) -> Self {
        let mut text = [0; 20];
        found(URL_SAFE_NO_PAD.encode_slice(bytes, &mut text).ok(), "15 bytes make exactly 20 characters");
        Self(text)
    }

    /// Returns an id that differs only in its last 12 bits.
    pub fn with_end(mut self, bits: u16) -> Self {
        let [.., first, second] = &mut self.0;
        [*first, *second] = Self::end(bits);
        self
    }

    /// Returns the last two characters of an id with these last 12 bits.
    #[inline]
    pub fn end(bits: u16) -> [u8; 2] {
        [bits >> 6, bits].map(|bits| CHARACTERS.get(usize::from(bits % 64)).copied().unwrap_or_default())
    }

    /// Returns all other characters, in pairs.
    pub fn beginning(&self) -> &[[u8; 2]] {
        let (pairs, _) = self.0.as_chunks::<2>();
        pairs.split_last().map_or(&[], |(_, pairs)| pairs)
    }

    /// Returns the id's characters.
    pub fn as_str(&self) -> &str {
        found(std::str::from_utf8(&self.0).ok(), "they are ASCII").unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_twenty_url_safe_characters() {
        assert_eq!(DocumentId::new([0; 15]).as_str(), "A".repeat(20));
        assert_eq!(DocumentId::new([0xfb; 15]).as_str(), "-_v7".repeat(5));
    }

    #[test]
    fn ends_with_the_last_twelve_bits() {
        for bits in 0..1 << 12 {
            let [high, low] = u16::to_be_bytes(bits);
            let bytes = |end| [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0x50 | end, low];
            let id = DocumentId::new(bytes(high));
            assert_eq!(DocumentId::new([7; 15]).with_end(bits).as_str()[18..], id.as_str()[18..]);
            assert_eq!(id.beginning().concat(), id.as_str().as_bytes()[..18]);
        }
    }
}
