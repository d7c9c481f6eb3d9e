use crate::invariant::{Count, part};

/// A fast reader for JSON in the form that most software writes: no escapes, and at most a space after a colon or a
/// comma.
///
/// Whatever it accepts, a full JSON reader reads the same way. It rejects any other notation, which a full reader must
/// then parse. It serves what a request has thousands of, action lines and the items of answers. For action lines
/// serde_json takes more than twice as many instructions, for items four times as many.
#[derive(Debug, Clone)]
pub struct FastReader<'a> {
    rest: &'a [u8],
}

impl<'a> FastReader<'a> {
    /// Starts at the beginning of a text.
    pub fn new(text: &'a [u8]) -> Self {
        Self { rest: text }
    }

    /// Returns the rest of the text.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the text read since the rest was `begin`.
    pub fn past_since(&self, begin: &'a [u8]) -> &'a [u8] {
        let read = begin.len().minus(self.rest.len(), "the rest is a part of the text");
        part(begin, ..read, "the rest is a part of the text")
    }

    /// Skips `expected` if it comes next. Returns whether it did.
    #[inline]
    pub fn takes(&mut self, expected: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Skips `expected`. Returns `None` if something else comes next.
    #[inline]
    pub fn past(&mut self, expected: &[u8]) -> Option<()> {
        self.takes(expected).then_some(())
    }

    /// Skips the separator between a key and its value.
    pub fn colon(&mut self) -> Option<()> {
        self.past(b":")?;
        self.takes(b" ");
        Some(())
    }

    /// Skips the separator between a value and the next key.
    pub fn comma(&mut self) -> Option<()> {
        self.past(b",")?;
        self.takes(b" ");
        Some(())
    }

    /// Reads a string.
    pub fn string(&mut self) -> Option<&'a str> {
        self.past(b"\"")?;
        let (string, rest) = self.rest.split_at_checked(memchr::memchr(b'"', self.rest)?)?;
        // Without an early exit, the compiler checks many bytes at once.
        let is_plain = string.iter().fold(true, |plain, byte| plain & (*byte >= b' ') & (*byte != b'\\'));
        let string = std::str::from_utf8(string).ok().filter(|_| is_plain)?;
        self.rest = rest.get(1..)?;
        Some(string)
    }

    /// Skips `expected` and reads the number after it.
    #[inline]
    pub fn number_after(&mut self, expected: &[u8]) -> Option<u64> {
        self.past(expected)?;
        self.number()
    }

    /// Reads a number of up to 18 digits.
    pub fn number(&mut self) -> Option<u64> {
        let (mut value, mut digits) = (0_u64, 0_usize);
        while let Some(digit @ b'0'..=b'9') = self.rest.get(digits) {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            digits = digits.saturating_add(1);
        }
        let has_zeros_in_front = digits > 1 && self.rest.starts_with(b"0");
        let goes_on = matches!(self.rest.get(digits), Some(b'.' | b'e' | b'E'));
        if !(1..=18).contains(&digits) || has_zeros_in_front || goes_on {
            return None;
        }
        self.rest = self.rest.get(digits..)?;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_plain_tokens() {
        let mut plain = FastReader::new("{\"a\": \"b c\u{7f}é\",\"d\":17}".as_bytes());
        assert!(!plain.takes(b"["));
        assert_eq!((plain.past(b"{"), plain.string(), plain.colon()), (Some(()), Some("a"), Some(())));
        assert_eq!((plain.number(), plain.string(), plain.comma()), (None, Some("b c\u{7f}é"), Some(())));
        assert_eq!((plain.string(), plain.colon(), plain.number()), (Some("d"), Some(()), Some(17)));
        assert_eq!(plain.rest(), b"}");
    }

    #[test]
    fn returns_what_was_read_since_a_place() {
        let mut text = FastReader::new(b"\"a\":17,\"b\"");
        assert_eq!((text.string(), text.past_since(b"\"a\":17,\"b\"")), (Some("a"), &b"\"a\""[..]));
        let begin = text.rest();
        assert_eq!(text.past_since(begin), b"");
        assert_eq!((text.colon(), text.number(), text.past_since(begin)), (Some(()), Some(17), &b":17"[..]));
    }

    #[test]
    fn rejects_text_that_is_not_plain() {
        for string in [&b"\"a"[..], b"a\"", b"\"\\\"\"", b"\"\x1f\"", b"\"\xc3\"", b" \"a\""] {
            assert_eq!(FastReader::new(string).string(), None, "{string:?}");
        }
        for number in ["", "-1", "01", "1.5", "1e3", "1E3", "1234567890123456789", "a"] {
            assert_eq!(FastReader::new(number.as_bytes()).number(), None, "{number}");
        }
        for (number, value) in [("0", 0), ("0,", 0), ("10}", 10), ("123456789012345678", 123_456_789_012_345_678)] {
            assert_eq!(FastReader::new(number.as_bytes()).number(), Some(value));
        }
    }
}
