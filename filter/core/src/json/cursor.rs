use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::invariant::{Count, part};

/// The reason why an offset stays within bounds.
const WITHIN: &str = "an offset is within the text";

/// A reader that walks through a JSON object key by key, and into the nested objects that matter, so that a large
/// object can be read in steps.
///
/// After each [`key`](Self::key), take its [`value`](Self::value), [`skip`](Self::skip) it or [`enter`](Self::enter)
/// it.
#[derive(Debug)]
pub struct JsonCursor {
    body: Vec<u8>,
    at: usize,
    /// The keys of the enclosing objects.
    path: Vec<String>,
    /// The key of the next value.
    key: String,
    /// Whether the current object has just begun, so that no comma precedes the next key.
    begins: bool,
}

/// The error for JSON that is not as expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {problem}")]
pub struct CursorError {
    /// The approximate offset, in bytes.
    pub at: usize,
    /// What is wrong.
    pub problem: String,
}

impl JsonCursor {
    /// Starts before the first key of an object. Fails if the text is not an object.
    pub fn new(body: Vec<u8>) -> Result<Self, CursorError> {
        let mut cursor = Self { body, at: 0, path: Vec::new(), key: String::new(), begins: true };
        cursor.expect(b'{')?;
        Ok(cursor)
    }

    /// Returns how many bytes have been read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the next key of the current object, or of the enclosing one after its end. Returns `None` at the end of
    /// the text.
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

    /// Calls `read` with each of the next keys, to read, skip or enter its value, for about `bytes` more bytes. Returns
    /// whether the text has ended.
    pub fn each_key(
        &mut self,
        bytes: usize,
        mut read: impl FnMut(&mut Self, String) -> Result<(), CursorError>,
    ) -> Result<bool, CursorError> {
        let until = self.at.saturating_add(bytes);
        while self.at < until {
            let Some(key) = self.key()?.map(str::to_owned) else { return Ok(true) };
            read(self, key)?;
        }
        Ok(false)
    }

    /// Returns whether the current object is at this path of keys.
    pub fn is_in(&self, path: &[&str]) -> bool {
        self.path.iter().map(String::as_str).eq(path.iter().copied())
    }

    /// Enters the object that is the value of the last key.
    pub fn enter(&mut self) -> Result<(), CursorError> {
        self.open(b'{')
    }

    /// Enters the array that is the value of the last key. Then read its [elements](Self::element) until there are no
    /// more.
    pub fn enter_list(&mut self) -> Result<(), CursorError> {
        self.open(b'[')
    }

    fn open(&mut self, bracket: u8) -> Result<(), CursorError> {
        self.expect(bracket)?;
        self.path.push(std::mem::take(&mut self.key));
        self.begins = true;
        Ok(())
    }

    /// Reads the next element of the current array. Returns `None` at its end, and leaves it.
    pub fn element<'a, T: Deserialize<'a>>(&'a mut self) -> Result<Option<T>, CursorError> {
        if self.takes(b']') {
            self.begins = false;
            self.path.pop();
            return Ok(None);
        }
        if !std::mem::take(&mut self.begins) {
            self.expect(b',')?;
        }
        self.read().map(Some)
    }

    /// Reads the value of the last key.
    pub fn value<'a, T: Deserialize<'a>>(&'a mut self) -> Result<T, CursorError> {
        self.read()
    }

    /// Reads the value of the last key. Returns `None` if it is JSON of another type.
    pub fn value_if_fits<T: DeserializeOwned>(&mut self) -> Result<Option<T>, CursorError> {
        let begin = self.at;
        let value = self.read().ok();
        if value.is_none() {
            self.at = begin;
            self.skip()?;
        }
        Ok(value)
    }

    /// Skips the value of the last key.
    pub fn skip(&mut self) -> Result<(), CursorError> {
        self.read::<IgnoredAny>().map(|_| ())
    }

    fn read<'a, T: Deserialize<'a>>(&'a mut self) -> Result<T, CursorError> {
        let begin = self.at;
        let rest = part(&self.body, begin.., WITHIN);
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter();
        let value = values.next();
        self.at = begin.plus(values.byte_offset(), WITHIN);
        let problem = match value {
            Some(Ok(value)) => return Ok(value),
            Some(Err(error)) => error.to_string(),
            None => "the text ends too early".to_owned(),
        };
        Err(CursorError { at: begin, problem })
    }

    fn next_byte(&mut self) -> Option<u8> {
        let rest = part(&self.body, self.at.., WITHIN);
        let blank = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count();
        self.at = self.at.plus(blank, WITHIN);
        rest.get(blank).copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let found = self.next_byte() == Some(byte);
        if found {
            self.at = self.at.plus(1, WITHIN);
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

    /// Returns all numbers with their paths, from every nested object.
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
    fn walks_through_nested_objects() {
        let text = " {\"a\" : 1, \"b\":{ \"c\":{} ,\"d\\u0065\":{\"e\":2}},\n\"f\":[{\"x\":1}],\"g\":{\"h\":3}} ";
        let expected = [("/a", 1), ("b.de/e", 2), ("f", 0), ("g/h", 3)];
        assert_eq!(numbers(text).unwrap(), expected.map(|(path, number)| (path.to_owned(), number)));
        assert_eq!(numbers("{}").unwrap(), []);
    }

    #[test]
    fn reports_its_path() {
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
    fn reads_the_elements_of_an_array() {
        let mut cursor = cursor(r#"{"a":[1, 2 ,3],"b":[],"c":{"d":[4]},"e":5}"#).unwrap();
        let mut found = Vec::new();
        while let Some(key) = cursor.key().unwrap().map(str::to_owned) {
            match key.as_str() {
                "c" => cursor.enter().unwrap(),
                "e" => found.push(cursor.value::<u64>().unwrap()),
                _ => {
                    cursor.enter_list().unwrap();
                    found.extend(std::iter::from_fn(|| cursor.element::<u64>().unwrap()));
                }
            }
        }
        assert_eq!(found, [1, 2, 3, 4, 5]);
        for text in ["{\"a\":{}}", "{\"a\":[1 2]}", "{\"a\":[1", "{\"a\":[,1]}", "{\"a\":[\"x\"]}"] {
            let mut cursor = JsonCursor::new(text.as_bytes().to_vec()).unwrap();
            cursor.key().unwrap();
            let mut read = || -> Result<(), CursorError> {
                cursor.enter_list()?;
                while cursor.element::<u64>()?.is_some() {}
                Ok(())
            };
            assert!(read().is_err(), "{text}");
        }
    }

    #[test]
    fn rejects_other_values_and_truncated_objects() {
        for text in ["", "[]", "7", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,}", "{\"a\" 1}", "{a:1}", "{}x"] {
            assert!(numbers(text).is_err(), "{text}");
        }
        assert_eq!(numbers(r#"{"a":{};"b":2}"#).unwrap_err().to_string(), "byte 7: expected `,`");
    }
}
