//! What errors quote from a batch.
//!
//! When Elasticsearch 7 cannot parse a document, its error quotes the first 500 bytes of the parser's input. That input
//! may be the whole batch with its headers, and so contain other clients' documents. Later versions quote nothing.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::invariant::found;
use crate::json::end_of_string;

/// The beginning of a quotation.
const START: &str = "[Source: (byte[])";
static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(START));
/// The text after a quotation.
const END: &str = "; line: ";
/// The replacement for a quotation, in the words of later versions.
const REDACTED: &str = "[Source: REDACTED";

/// Returns whether a text contains a quotation.
pub(super) fn is_in(text: &[u8]) -> bool {
    FINDER.find(text).is_some()
}

/// Returns a text without quotations. The text need not be JSON.
pub fn unquoted(text: Vec<u8>) -> Vec<u8> {
    if !is_in(&text) {
        return text;
    }
    let mut made = Vec::with_capacity(text.len());
    write_unquoted(&String::from_utf8_lossy(&text), &mut made);
    made
}

/// Appends JSON without what its strings quote.
pub(super) fn write_unquoted(json: &str, to: &mut Vec<u8>) {
    let mut rest = json;
    while let Some((before, quotation)) = rest.split_once(START) {
        to.extend_from_slice(before.as_bytes());
        to.extend_from_slice(REDACTED.as_bytes());
        // The quoted text may itself contain the end marker, but not the end of the string.
        let end = end_of_string(quotation.as_bytes());
        let (string, _) = end.and_then(|end| quotation.split_at_checked(end)).unwrap_or((quotation, ""));
        let end = string.rfind(END).unwrap_or(string.len());
        rest = found(quotation.get(end..), "a string ends within its text").unwrap_or_default();
    }
    to.extend_from_slice(rest.as_bytes());
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
    fn keeps_the_position_and_removes_the_quotation() {
        let quoting =
            r#"{"reason":"no\n at [Source: (byte[])\"POST /\r\n; line: é\\\"; line: 7, column: 2]","type":"x"}"#;
        let expected = r#"{"reason":"no\n at [Source: REDACTED; line: 7, column: 2]","type":"x"}"#;
        assert_eq!(unquoted(quoting), expected);
        assert_eq!(unquoted(&[quoting, quoting].join(",")), [expected, expected].join(","));
        assert_eq!(unquoted(r#"{"reason":"[Source: (byte[])\"cut"}"#), r#"{"reason":"[Source: REDACTED"}"#);
        assert_eq!(unquoted(expected), expected);
    }
}
