use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::invariant::found;

/// A document id that the filter generated: 15 bytes as 20 URL-safe characters, as clusters write theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DocumentId([u8; 20]);

impl DocumentId {
    /// Encodes these bytes as an id.
    pub fn new(bytes: [u8; 15]) -> Self {
        let mut text = [0; 20];
        found(URL_SAFE_NO_PAD.encode_slice(bytes, &mut text).ok(), "15 bytes make exactly 20 characters");
        Self(text)
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
}
