//! Parsers for values as users write them.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serializer};

/// Reads the name of an Envoy cluster.
pub fn upstream_name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    match String::deserialize(from)? {
        name if name.is_empty() => {
            Err(D::Error::custom("expected the name of an Envoy cluster, found an empty string"))
        }
        name => Ok(name),
    }
}

/// Reads a list of names of Envoy clusters.
pub fn upstream_names<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<UpstreamName>::deserialize(from)?;
    Ok(names.into_iter().map(|UpstreamName(name)| name).collect())
}

#[derive(Deserialize)]
struct UpstreamName(#[serde(deserialize_with = "upstream_name")] String);

/// Reads a number from 1 to 65535.
pub fn count<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    match u16::deserialize(from)? {
        0 => Err(D::Error::custom("expected a number from 1 to 65535, found 0")),
        count => Ok(usize::from(count)),
    }
}

/// A duration of 1 ms to 1 h as users write it: "50ms", "5s", "1m 30s".
pub enum DurationText {}

impl DurationText {
    pub const EXPECTED: &str = "a duration of 1ms to 1h such as \"50ms\" or \"5s\"";

    /// Reads such a text.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        duration_from(1, Self::EXPECTED, from)
    }

    /// Writes such a text.
    pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&humantime::format_duration(*duration))
    }
}

/// A duration as in [`DurationText`], or "0ms".
pub enum DurationOrZeroText {}

impl DurationOrZeroText {
    pub const EXPECTED: &str = "a duration of 0ms to 1h such as \"2ms\" or \"0ms\"";

    /// Reads such a text.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        duration_from(0, Self::EXPECTED, from)
    }

    /// Writes such a text.
    pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        DurationText::serialize(duration, to)
    }
}

fn duration_from<'de, D: Deserializer<'de>>(
    least: u128,
    expected: &'static str,
    from: D,
) -> Result<Duration, D::Error> {
    let text = from.deserialize_str(TextVisitor(expected))?;
    match humantime::parse_duration(&text) {
        Ok(duration) if (least..=3_600_000).contains(&duration.as_millis()) => Ok(duration),
        _ => Err(D::Error::custom(format!("expected {expected}, found {text:?}"))),
    }
}

/// A size as users write it: "1mb", "512kb", "100b". As in Elasticsearch, 1kb is 1,024 bytes.
pub enum SizeText {}

impl SizeText {
    pub const EXPECTED: &str = "a size of at least 1b such as \"1mb\" or \"512kb\"";

    /// Reads such a text.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = from.deserialize_str(TextVisitor(Self::EXPECTED))?;
        match parse_size::Config::new().with_binary().parse_size(&text) {
            Ok(size) if size > 0 => Ok(size),
            _ => Err(D::Error::custom(format!("expected {}, found {text:?}", Self::EXPECTED))),
        }
    }

    /// Writes such a text, in the largest unit that divides the size.
    pub fn serialize<S: Serializer>(size: &u64, to: S) -> Result<S::Ok, S::Error> {
        let units = [("gb", 30), ("mb", 20), ("kb", 10)];
        let fits = |(_, bits): &(&str, u32)| *size > 0 && size.trailing_zeros() >= *bits;
        match units.into_iter().find(fits) {
            Some((unit, bits)) => to.collect_str(&format_args!("{}{unit}", size >> bits)),
            None => to.collect_str(&format_args!("{size}b")),
        }
    }
}

/// The name of a request header, for the schema.
#[cfg(feature = "schema")]
pub enum HeaderNameText {}

/// Reads the name of a request header.
pub fn header_name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    // HTTP calls this a token.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let problem = if name.starts_with(':') {
        "is a pseudo-header, and part of the request itself"
    } else if name.is_empty() || !name.bytes().all(plain) {
        "is not a header name"
    } else if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        "is not in lower case, as header names are in Envoy"
    } else {
        return Ok(name);
    };
    Err(D::Error::custom(format!("{name:?} {problem}")))
}

struct TextVisitor(&'static str);

impl Visitor<'_> for TextVisitor {
    type Value = String;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}
