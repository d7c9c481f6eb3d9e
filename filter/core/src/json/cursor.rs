use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// Goes through a JSON object key by key, and into those of its objects that matter, so that a large one can be read
/// in steps.
///
/// After each [`key`](Self::key) take its [`value`](Self::value) or [`enter`](Self::enter) it.
#[derive(Debug)]
pub struct JsonCursor {
    body: Vec<u8>,
    at: usize,
    /// The keys of the objects in which it is.
    path: Vec<String>,
    /// The key whose value comes next.
    key: String,
    /// Whether the object in which it is has just begun, so that no comma parts it from the next key.
    begins: bool,
}

/// The text is not the JSON that is expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {problem}")]
pub struct CursorError {
    /// Where, about.
    pub at: usize,
    /// What is wrong.
    pub problem: String,
}

impl JsonCursor {
    /// Begins in front of the first key of an object.
    pub fn new(body: Vec<u8>) -> Result<Self, CursorError> {
        let mut cursor = Self { body, at: 0, path: Vec::new(), key: String::new(), begins: true };
        cursor.expect(b'{')?;
        Ok(cursor)
    }

    /// How many bytes of it are behind.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next key: of the object in which it is, or else of the one around it. `None` at the end of all.
    pub fn key(&mut self) -> Result<Option<&str>, CursorError> {
        while self.takes(b'}') {
            self.begins = false;
            if self.path.pop().is_none() {
                return self.end().map(|()| None);
            }
        }
        if !std::mem::take(&mut self.begins) {
            self.expect(b',')?;
        }
        self.key = self.read()?;
        self.expect(b':')?;
        Ok(Some(&self.key))
    }

    /// Whether the object in which it is stands under these keys.
    pub fn is_in(&self, path: &[&str]) -> bool {
        self.path.iter().map(String::as_str).eq(path.iter().copied())
    }

    /// Goes into the object that is the value of the last key.
    pub fn enter(&mut self) -> Result<(), CursorError> {
        self.expect(b'{')?;
        self.path.push(std::mem::take(&mut self.key));
        self.begins = true;
        Ok(())
    }

    /// The value of the last key.
    pub fn value<'a, T: Deserialize<'a>>(&'a mut self) -> Result<T, CursorError> {
        self.read()
    }

    /// The value of the last key; `None` if it is JSON, but another than expected.
    pub fn value_if_fits<T: DeserializeOwned>(&mut self) -> Result<Option<T>, CursorError> {
        let begin = self.at;
        let value = self.read().ok();
        if value.is_none() {
            self.at = begin;
            self.skip()?;
        }
        Ok(value)
    }

    /// Passes over the value of the last key.
    pub fn skip(&mut self) -> Result<(), CursorError> {
        self.read::<IgnoredAny>().map(|_| ())
    }

    fn read<'a, T: Deserialize<'a>>(&'a mut self) -> Result<T, CursorError> {
        let begin = self.at;
        let rest = self.body.get(begin..).unwrap_or_default();
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter();
        let value = values.next();
        self.at = begin.saturating_add(values.byte_offset());
        let problem = match value {
            Some(Ok(value)) => return Ok(value),
            Some(Err(error)) => error.to_string(),
            None => "the text ends too early".to_owned(),
        };
        Err(CursorError { at: begin, problem })
    }

    fn next_byte(&mut self) -> Option<u8> {
        let rest = self.body.get(self.at..).unwrap_or_default();
        let blank = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count();
        self.at = self.at.saturating_add(blank);
        rest.get(blank).copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let found = self.next_byte() == Some(byte);
        if found {
            self.at = self.at.saturating_add(1);
        }
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), CursorError> {
        match self.takes(byte) {
            true => Ok(()),
            false => Err(CursorError { at: self.at, problem: format!("expected `{}`", char::from(byte)) }),
        }
    }

    fn end(&mut self) -> Result<(), CursorError> {
        match self.next_byte() {
            None => Ok(()),
            Some(_) => Err(CursorError { at: self.at, problem: "expected the end".to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(text: &str) -> Result<JsonCursor, CursorError> {
        JsonCursor::new(text.as_bytes().to_vec())
    }

    /// All numbers with their paths; goes into every object.
    fn numbers(text: &str) -> Result<Vec<(String, u64)>, CursorError> {
        let (mut cursor, mut found) = (cursor(text)?, Vec::new());
        while let Some(key) = cursor.key()?.map(str::to_owned) {
            match cursor.enter() {
                Ok(()) => {}
                Err(_) => match cursor.value_if_fits::<u64>()? {
                    Some(number) => found.push((cursor.path.join(".") + "/" + &key, number)),
                    None => found.push((key, 0)),
                },
            }
        }
        Ok(found)
    }

    #[test]
    fn goes_through_objects_in_objects() {
        let text = " {\"a\" : 1, \"b\":{ \"c\":{} ,\"d\\u0065\":{\"e\":2}},\n\"f\":[{\"x\":1}],\"g\":{\"h\":3}} ";
        let expected = [("/a", 1), ("b.de/e", 2), ("f", 0), ("g/h", 3)];
        assert_eq!(numbers(text).unwrap(), expected.map(|(path, number)| (path.to_owned(), number)));
        assert_eq!(numbers("{}").unwrap(), []);
    }

    #[test]
    fn knows_where_it_is() {
        let mut cursor = cursor(r#"{"a":{"b":{"c":1}},"d":"text"}"#).unwrap();
        assert_eq!(cursor.key().unwrap(), Some("a"));
        assert!(cursor.is_in(&[]));
        cursor.enter().unwrap();
        cursor.key().unwrap();
        cursor.enter().unwrap();
        assert!(cursor.is_in(&["a", "b"]) && !cursor.is_in(&["a"]));
        assert_eq!(cursor.key().unwrap(), Some("c"));
        cursor.skip().unwrap();
        assert_eq!(cursor.key().unwrap(), Some("d"));
        assert!(cursor.is_in(&[]));
        assert_eq!(cursor.value::<&str>().unwrap(), "text");
        assert_eq!(cursor.key().unwrap(), None);
    }

    #[test]
    fn what_is_no_object_or_breaks_off_is_an_error() {
        for text in ["", "[]", "7", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,}", "{\"a\" 1}", "{a:1}", "{}x"] {
            assert!(numbers(text).is_err(), "{text}");
        }
        assert_eq!(numbers(r#"{"a":{};"b":2}"#).unwrap_err().to_string(), "byte 7: expected `,`");
    }
}
