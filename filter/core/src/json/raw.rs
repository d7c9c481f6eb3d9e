use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A text with its escapes resolved. It is borrowed if it has none: within an `Option` or a `Vec` a bare `Cow` is always
/// copied.
#[derive(Debug, Deserialize)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// Calls `act` with each key and value of an object, in order and unparsed, until it returns `false`. A list of them
/// would take many times the length of the text. Returns whether the text is an object and `act` got all of it.
pub fn each_field<'a>(text: &'a RawValue, act: impl FnMut(&'a RawValue, &'a RawValue) -> bool) -> bool {
    serde_json::Deserializer::from_str(text.get()).deserialize_map(Each(act)).is_ok()
}

/// Calls `act` with each element of an array, until it returns `false`. Returns whether the text is an array and `act`
/// got all of it.
pub fn each_element<'a>(text: &'a RawValue, mut act: impl FnMut(&'a RawValue) -> bool) -> bool {
    let act = |element: &'a RawValue, _: &'a RawValue| act(element);
    serde_json::Deserializer::from_str(text.get()).deserialize_seq(Each(act)).is_ok()
}

/// A callback for each field of an object, or for each element of an array, which it gets twice.
struct Each<F>(F);

impl<'de, F: FnMut(&'de RawValue, &'de RawValue) -> bool> Visitor<'de> for Each<F> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry()? {
            if !(self.0)(key, value) {
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element()? {
            if !(self.0)(element, element) {
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }
}
