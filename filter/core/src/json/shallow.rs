use crate::invariant::{Count, part};

/// The maximum depth of nesting. A cluster's answers never reach it. A JSON reader takes memory for each level, and
/// some take stack.
const MAX_DEPTH: usize = 100;

/// Splits a text after its first value. Returns `None` if the value does not end, or is nested too deeply.
///
/// It does not validate the JSON, but prevents a reader from allocating memory for nested brackets.
pub fn shallow_value(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut depth, mut past) = (0_usize, 0_usize);
    if !matches!(text.trim_ascii_start().first()?, b'{' | b'[') {
        return Some((text, &[]));
    }
    loop {
        let byte = text.get(past)?;
        past = past.plus(1, "a position is within the text");
        match byte {
            b'"' => {
                let string = part(text, past.., "a position is within the text");
                past = past.plus(end_of_string(string)?, "a string ends within the text").plus(1, "so does its quote");
            }
            b'{' | b'[' => {
                depth = depth.plus(1, "the depth is bounded");
                if depth > MAX_DEPTH {
                    return None;
                }
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return text.split_at_checked(past);
                }
            }
            _ => {}
        }
    }
}

/// Returns the position of the quote that ends a string, in a text that begins inside the string.
pub fn end_of_string(text: &[u8]) -> Option<usize> {
    let mut escaped = None;
    memchr::memchr2_iter(b'"', b'\\', text).find(|position| {
        let is_escaped = escaped == Some(*position);
        let is_quote = text.get(*position) == Some(&b'"');
        if !is_escaped && !is_quote {
            escaped = Some(position.plus(1, "a position is within the text"));
        }
        is_quote && !is_escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_after_the_first_value() {
        for (value, rest) in [
            (r#" {"a":[1,{"}":"]\""}]}"#, r#","b"#),
            ("[]", "]"),
            (r#"{"\\":"\\"}"#, "{"),
            (r#"{"\\\"}\u007b":"\\\\"}"#, "}"),
            (&format!("{}{}", "[".repeat(100), "]".repeat(100)), ""),
            ("7", ""),
            (r#""{""#, ""),
        ] {
            let text = format!("{value}{rest}");
            assert_eq!(shallow_value(text.as_bytes()), Some((value.as_bytes(), rest.as_bytes())), "{text}");
        }
    }

    #[test]
    fn rejects_unfinished_and_deeply_nested_values() {
        for text in ["", " ", "{", r#"{"a":"}"#, r#"{"a\"}"#, r#"{"a\"#, "[[]"] {
            assert_eq!(shallow_value(text.as_bytes()), None, "{text}");
        }
        let deep = format!("{}{}", "[".repeat(101), "]".repeat(101));
        assert_eq!(shallow_value(deep.as_bytes()), None);
    }
}
