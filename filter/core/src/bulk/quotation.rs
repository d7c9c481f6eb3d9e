//! What errors quote of a batch.
//!
//! Elasticsearch 7 tells where it could not read a document by quoting the first 500 bytes of what it had before it,
//! which may be the whole batch with its headers: other clients' documents. Later versions quote nothing.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// How a quotation begins.
const START: &str = "[Source: (byte[])";
static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(START));
/// What follows it.
const END: &str = "; line: ";
/// What stands for it, in the words of later versions.
const REDACTED: &str = "[Source: REDACTED";

/// Whether a text quotes something.
pub(super) fn is_in(text: &[u8]) -> bool {
    FINDER.find(text).is_some()
}

/// A text that does not quote anything, whatever it is: JSON or not.
pub fn unquoted(text: Vec<u8>) -> Vec<u8> {
    if !is_in(&text) {
        return text;
    }
    let mut made = Vec::with_capacity(text.len());
    write_unquoted(&String::from_utf8_lossy(&text), &mut made);
    made
}

/// Writes JSON without what its strings quote.
pub(super) fn write_unquoted(json: &str, to: &mut Vec<u8>) {
    let mut rest = json;
    while let Some((before, quotation)) = rest.split_once(START) {
        to.extend_from_slice(before.as_bytes());
        to.extend_from_slice(REDACTED.as_bytes());
        // What is quoted may itself contain what follows a quotation, but not the string's end.
        let (string, _) = quotation.split_at_checked(end_of_string(quotation)).unwrap_or((quotation, ""));
        let end = string.rfind(END).unwrap_or(string.len());
        rest = quotation.get(end..).unwrap_or_default();
    }
    to.extend_from_slice(rest.as_bytes());
}

/// Where the string ends in which the text begins.
fn end_of_string(text: &str) -> usize {
    let mut bytes = text.bytes().enumerate();
    while let Some((place, byte)) = bytes.next() {
        match byte {
            b'"' => return place,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unquoted(json: &str) -> String {
        let mut made = Vec::new();
        write_unquoted(json, &mut made);
        String::from_utf8(made).unwrap()
    }

    #[test]
    fn leaves_the_place_and_nothing_that_is_quoted() {
        let quoting =
            r#"{"reason":"no\n at [Source: (byte[])\"POST /\r\n; line: é\\\"; line: 7, column: 2]","type":"x"}"#;
        let expected = r#"{"reason":"no\n at [Source: REDACTED; line: 7, column: 2]","type":"x"}"#;
        assert_eq!(unquoted(quoting), expected);
        assert_eq!(unquoted(&[quoting, quoting].join(",")), [expected, expected].join(","));
        assert_eq!(unquoted(r#"{"reason":"[Source: (byte[])\"cut"}"#), r#"{"reason":"[Source: REDACTED"}"#);
        assert_eq!(unquoted(expected), expected);
    }
}
