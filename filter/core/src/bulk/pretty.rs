use std::io::{self, Write};

use serde::ser::{Error, Serialize, SerializeMap, Serializer};
use serde_json::ser::Formatter;
use serde_json::value::RawValue;

use super::filtered::{Fields, MAX_DEPTH, Name};

/// A JSON text as a cluster prints it for `pretty`. Strings and numbers stay as they stand, escapes and all. `None`
/// if it is not JSON.
pub fn pretty(text: &[u8]) -> Option<Vec<u8>> {
    let text: &RawValue = serde_json::from_slice(text).ok()?;
    let mut to = Vec::with_capacity(text.get().len().saturating_mul(2));
    let mut serializer = serde_json::Serializer::with_formatter(&mut to, Printer::default());
    Value { text, depth: 0 }.serialize(&mut serializer).ok()?;
    to.push(b'\n');
    Some(to)
}

/// A value as it stands in a text, and how deep inside.
struct Value<'a> {
    text: &'a RawValue,
    depth: usize,
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let text = self.text.get();
        let depth = self.depth.saturating_add(1);
        match text.as_bytes().first() {
            // No answer is nested more deeply; so none exhausts the stack.
            _ if self.depth >= MAX_DEPTH => self.text.serialize(to),
            Some(b'{') => {
                let Fields(fields) = serde_json::from_str(text).map_err(S::Error::custom)?;
                let mut map = to.serialize_map(None)?;
                for (key, text) in fields {
                    let Name(name) = serde_json::from_str(key.get()).map_err(S::Error::custom)?;
                    map.serialize_entry(&name, &Value { text, depth })?;
                }
                map.end()
            }
            Some(b'[') => {
                let elements: Vec<&RawValue> = serde_json::from_str(text).map_err(S::Error::custom)?;
                to.collect_seq(elements.into_iter().map(|text| Value { text, depth }))
            }
            _ => self.text.serialize(to),
        }
    }
}

/// Prints as Jackson does, by which clusters print: two spaces a level, spaces around colons, and one in what is
/// empty.
#[derive(Default)]
struct Printer {
    depth: usize,
    /// Whether the innermost object or array has anything in it.
    any: bool,
}

impl Printer {
    fn begin<W: ?Sized + Write>(&mut self, to: &mut W, with: &[u8]) -> io::Result<()> {
        self.depth = self.depth.saturating_add(1);
        self.any = false;
        to.write_all(with)
    }

    fn separate<W: ?Sized + Write>(&self, to: &mut W, first: bool) -> io::Result<()> {
        if !first {
            to.write_all(b",")?;
        }
        self.new_line(to)
    }

    fn end<W: ?Sized + Write>(&mut self, to: &mut W, with: &[u8]) -> io::Result<()> {
        self.depth = self.depth.saturating_sub(1);
        if self.any {
            self.new_line(to)?;
        } else {
            to.write_all(b" ")?;
        }
        self.any = true;
        to.write_all(with)
    }

    fn new_line<W: ?Sized + Write>(&self, to: &mut W) -> io::Result<()> {
        to.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| to.write_all(b"  "))
    }
}

impl Formatter for Printer {
    fn begin_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.begin(to, b"[")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.separate(to, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _to: &mut W) -> io::Result<()> {
        self.any = true;
        Ok(())
    }

    fn end_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.end(to, b"]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.begin(to, b"{")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.separate(to, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b" : ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _to: &mut W) -> io::Result<()> {
        self.any = true;
        Ok(())
    }

    fn end_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.end(to, b"}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> String {
        String::from_utf8(pretty(text.as_bytes()).unwrap()).unwrap()
    }

    /// As OpenSearch 2.19 prints.
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
    fn strings_and_numbers_stay_as_they_stand() {
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
    fn what_is_not_json_is_not_printed() {
        for text in ["", "Unauthorized", "{\"a\":}", "{\"a\":1", "{} x"] {
            assert_eq!(pretty(text.as_bytes()), None, "{text}");
        }
        assert_eq!(pretty(b"\"\xff\""), None);
    }

    #[test]
    fn what_is_nested_too_deeply_stays_as_it_stands() {
        let nested = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let printed = printed(&nested);
        assert!(printed.contains(&format!("{}{}", "[".repeat(9_900), "]".repeat(9_900))));
    }
}
