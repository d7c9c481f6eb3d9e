use serde_json::value::RawValue;

use crate::invariant::Count;
use crate::json::{end_of_string, shallow_value};

/// The maximum growth of a printed JSON text. A cluster's answer grows 2.4 times. A text of brackets only would grow
/// two hundred times, which no client needs.
const MAX_GROWTH: usize = 4;

/// The printed length, in bytes, that is always allowed: short texts may grow more.
const ALLOWED_BYTES: usize = 4096;

/// Formats a JSON text as a cluster does for `pretty`, like Jackson: two spaces a level, spaces around colons, and one
/// space inside empty brackets. Strings and numbers stay unchanged, including escapes. Returns `None` if the text is
/// not JSON, is nested too deeply, or would grow beyond the limit.
pub fn pretty(text: &[u8]) -> Option<Vec<u8>> {
    shallow_value(text)?;
    let text: &RawValue = serde_json::from_slice(text).ok()?;
    let text = text.get().as_bytes();
    let mut length = 0_usize;
    print(text, |part| length = length.plus(part.len(), "a depth bounds what is added to a byte"));
    if length > text.len().saturating_mul(MAX_GROWTH).max(ALLOWED_BYTES) {
        return None;
    }
    let mut to = Vec::with_capacity(length);
    print(text, |part| to.extend_from_slice(part));
    Some(to)
}

/// Calls `put` with each part of the output. The text must be JSON.
fn print(text: &[u8], mut put: impl FnMut(&[u8])) {
    let (mut rest, mut depth) = (text, 0_usize);
    while let Some((token, after)) = next_token(rest) {
        rest = after;
        match token {
            b"{" | b"[" => {
                put(token);
                depth = depth.plus(1, "a bracket is a byte of the text");
                match next_token(rest) {
                    Some((close @ (b"}" | b"]"), after)) => {
                        depth = depth.minus(1, "every closing bracket of JSON was opened");
                        rest = after;
                        put(b" ");
                        put(close);
                    }
                    _ => new_line(depth, &mut put),
                }
            }
            b"}" | b"]" => {
                depth = depth.minus(1, "every closing bracket of JSON was opened");
                new_line(depth, &mut put);
                put(token);
            }
            b"," => {
                put(token);
                new_line(depth, &mut put);
            }
            b":" => put(b" : "),
            _ => put(token),
        }
    }
    put(b"\n");
}

fn new_line(depth: usize, put: &mut impl FnMut(&[u8])) {
    put(b"\n");
    (0..depth).for_each(|_| put(b"  "));
}

/// Splits off the next bracket, comma, colon, string, number or word.
fn next_token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let end = match text.first()? {
        b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
        b'"' => end_of_string(text.get(1..)?).map_or(text.len(), |end| end.saturating_add(2)),
        _ => text.iter().position(|byte| b",:]} \t\r\n".contains(byte)).unwrap_or(text.len()),
    };
    text.split_at_checked(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> String {
        String::from_utf8(pretty(text.as_bytes()).unwrap()).unwrap()
    }

    /// The output of OpenSearch 2.19.
    #[test]
    fn prints_as_a_cluster_does() {
        let answer = concat!(
            r#"{"took":33,"errors":true,"items":[{"index":{"_id":"b","_shards":{"total":1},"status":200}},"#,
            r#"{"delete":{"_id":"z","error":{},"more":[],"list":[1,[2,null]]}}]}"#
        );
        let expected = r#"{
  "took" : 33,
  "errors" : true,
  "items" : [
    {
      "index" : {
        "_id" : "b",
        "_shards" : {
          "total" : 1
        },
        "status" : 200
      }
    },
    {
      "delete" : {
        "_id" : "z",
        "error" : { },
        "more" : [ ],
        "list" : [
          1,
          [
            2,
            null
          ]
        ]
      }
    }
  ]
}
"#;
        assert_eq!(printed(answer), expected);
        assert_eq!(printed("{}"), "{ }\n");
        assert_eq!(printed(" [ ] "), "[ ]\n");
        assert_eq!(printed(expected), expected);
    }

    #[test]
    fn strings_and_numbers_stay_unchanged() {
        let values = [
            "\"\\u0001\\/\\uD83D\\uDE42\u{7f}é\u{2028}\\\"\"",
            "1.0E10",
            "-0",
            "123456789012345678901234567890",
            "true",
        ];
        for value in values {
            assert_eq!(
                printed(&format!("{{\"a\":{value},\"a\":1}}")),
                format!("{{\n  \"a\" : {value},\n  \"a\" : 1\n}}\n")
            );
        }
    }

    #[test]
    fn text_that_is_not_json_is_not_printed() {
        for text in ["", "Unauthorized", "{\"a\":}", "{\"a\":1", "{} x"] {
            assert_eq!(pretty(text.as_bytes()), None, "{text}");
        }
        assert_eq!(pretty(b"\"\xff\""), None);
    }

    #[test]
    fn json_that_would_grow_many_times_is_not_printed() {
        let brackets = format!("{}{}", "[".repeat(30), "]".repeat(30));
        let printed = pretty(brackets.as_bytes()).unwrap();
        assert_eq!(printed.capacity(), printed.len());
        let many = format!("[{}]", vec![brackets; 1000].join(","));
        assert_eq!(pretty(many.as_bytes()), None);
    }

    #[test]
    fn deeply_nested_json_is_not_printed() {
        let nested = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(pretty(nested.as_bytes()), None);
    }
}
