use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};

use super::HarmlessHeaders;
use super::field::header_name_problem;

/// Request headers that tell on whose behalf a request comes. The value of the first one that a request has is its
/// identity; requests that have none of them share one identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<HeaderName>")]
pub struct IdentityHeaders(Vec<String>);

/// Credentials that the cluster checks, the certificate that Envoy checked, and the address of the client.
const DEFAULT: &[&str] = &["authorization", "x-forwarded-client-cert", "x-forwarded-for"];

impl IdentityHeaders {
    /// Their names, the most telling first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns one that can tell nothing, because requests share batches whatever its value. The default may have such
    /// a one: the others of it count.
    pub(super) fn find_harmless(&self, harmless: &HarmlessHeaders) -> Option<&str> {
        self.names().filter(|_| *self != Self::default()).find(|name| harmless.contains(name))
    }
}

impl Default for IdentityHeaders {
    fn default() -> Self {
        Self(DEFAULT.iter().map(|name| (*name).to_owned()).collect())
    }
}

impl From<Vec<HeaderName>> for IdentityHeaders {
    fn from(names: Vec<HeaderName>) -> Self {
        Self(names.into_iter().map(|HeaderName(name)| name).collect())
    }
}

/// The name of one of them.
struct HeaderName(String);

impl<'de> Deserialize<'de> for HeaderName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        match header_name_problem(&name) {
            Some(problem) => Err(D::Error::custom(format!("{name:?} {problem}"))),
            None => Ok(Self(name)),
        }
    }
}
