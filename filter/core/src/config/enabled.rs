use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Whether the filter splits requests: `true`, `false` or `"observe"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Enabled {
    /// It does.
    #[default]
    Yes,
    /// Requests pass through unchanged.
    No,
    /// Requests pass through unchanged, and the filter counts what it would have done with them.
    Observe,
}

/// The text for [`Enabled::Observe`].
const OBSERVE: &str = "observe";

const EXPECTED: &str = "a boolean or \"observe\"";

impl Enabled {
    /// Reads a value as a cluster reports it, which may be a text.
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "true" => Some(Self::Yes),
            "false" => Some(Self::No),
            OBSERVE => Some(Self::Observe),
            _ => None,
        }
    }
}

impl fmt::Display for Enabled {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Yes => "true",
            Self::No => "false",
            Self::Observe => "\"observe\"",
        })
    }
}

impl Serialize for Enabled {
    /// Writes the form that users write, or a number in a form that is not for people.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            _ if !to.is_human_readable() => to.serialize_u8(*self as u8),
            Self::Yes => to.serialize_bool(true),
            Self::No => to.serialize_bool(false),
            Self::Observe => to.serialize_str(OBSERVE),
        }
    }
}

impl<'de> Deserialize<'de> for Enabled {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() {
            return from.deserialize_any(EnabledVisitor);
        }
        let number = u8::deserialize(from)?;
        let found = [Self::Yes, Self::No, Self::Observe].into_iter().find(|enabled| *enabled as u8 == number);
        found.ok_or_else(|| D::Error::custom(EXPECTED))
    }
}

struct EnabledVisitor;

impl Visitor<'_> for EnabledVisitor {
    type Value = Enabled;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(EXPECTED)
    }

    fn visit_bool<E: Error>(self, enabled: bool) -> Result<Enabled, E> {
        Ok(if enabled { Enabled::Yes } else { Enabled::No })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Enabled, E> {
        // A configuration has no booleans as text.
        if text == OBSERVE {
            return Ok(Enabled::Observe);
        }
        Err(E::custom(format!("expected {EXPECTED}, found {text:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_written_as_it_is_read() {
        for (text, enabled) in [("true", Enabled::Yes), ("false", Enabled::No), ("\"observe\"", Enabled::Observe)] {
            assert_eq!(serde_json::from_str::<Enabled>(text).unwrap(), enabled);
            assert_eq!(serde_json::to_string(&enabled).unwrap(), text);
            let bytes = postcard::to_allocvec(&enabled).unwrap();
            assert_eq!(postcard::from_bytes::<Enabled>(&bytes), Ok(enabled));
        }
        for wrong in ["\"false\"", "\"yes\"", "0", "null", "{}"] {
            let error = serde_json::from_str::<Enabled>(wrong).unwrap_err().to_string();
            assert!(error.contains("a boolean or \"observe\""), "{error}");
        }
        assert!(postcard::from_bytes::<Enabled>(&[3]).is_err());
    }
}
