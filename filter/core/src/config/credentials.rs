use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

/// The text shown in place of a value.
const HIDDEN: &str = "***";

/// Header names and values. The values are never shown.
#[derive(Clone, Default)]
pub struct Credentials(BTreeMap<String, String>);

impl Credentials {
    /// Returns the names and values of the headers.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_map().entries(self.0.keys().map(|name| (name, HIDDEN))).finish()
    }
}

impl Serialize for Credentials {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.keys().map(|name| (name, HIDDEN)))
    }
}

impl<'de> Deserialize<'de> for Credentials {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // The parser's own errors would show the value.
        let headers: Option<BTreeMap<String, String>> = match serde_json::Value::deserialize(from)? {
            serde_json::Value::Object(headers) => {
                headers.into_iter().map(|(name, value)| Some((name, value.as_str()?.to_owned()))).collect()
            }
            _ => None,
        };
        let headers = headers.ok_or_else(|| D::Error::custom("expected an object of header names and strings"))?;
        for (name, value) in &headers {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            if name.is_empty() || !name.bytes().all(plain) {
                return Err(D::Error::custom(format!("{name:?} is not a header name")));
            }
            if value.chars().any(char::is_control) {
                return Err(D::Error::custom(format!("the value of {name:?} holds a control character")));
            }
        }
        Ok(Self(headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()))
    }
}
