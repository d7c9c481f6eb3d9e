use std::fmt;
use std::marker::PhantomData;

use hashbrown::HashSet;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use siphasher::sip::SipHasher13;

/// A JSON object, read as `T`. A derived reader alone would also accept an array with the fields in their order.
#[derive(Debug, Clone)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Reads a value if the field is present. Its type decides whether `null` is a value.
pub fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// Reads a field whose value must be an object.
pub fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Object::deserialize(from).map(|Object(value)| value)
}

/// The longest key that all versions of Elasticsearch and OpenSearch accept, in bytes of UTF-8. OpenSearch 3 refuses longer
/// ones.
pub const MAX_KEY: usize = 50_000;

/// A JSON object whose keys differ, with values that can be read as `V`.
#[derive(Debug, PartialEq)]
pub struct Distinct<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Distinct<V> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Self(PhantomData))
    }
}

impl<'de, V: Deserialize<'de>> Visitor<'de> for Distinct<V> {
    type Value = Self;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object, each key a different one")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        // Of 64 bits, two keys can have the same hash. Then the object counts as one with a duplicate, which is safe. Copies
        // of the keys would take ten times as much memory as a body of short ones.
        let mut hashes = HashSet::new();
        while let Some((key, _)) = map.next_entry::<String, V>()? {
            if key.len() > MAX_KEY || !hashes.insert(SipHasher13::new().hash(key.as_bytes())) {
                return Err(A::Error::custom("duplicate or too long key"));
            }
        }
        Ok(self)
    }
}
