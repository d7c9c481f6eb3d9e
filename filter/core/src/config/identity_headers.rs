use serde::{Deserialize, Serialize};

use super::HarmlessHeaders;
#[cfg(feature = "schema")]
use super::field::HeaderNameText;
use super::field::header_name;

/// The request headers that identify on whose behalf a request comes. The value of the first one that a request has is
/// its identity. Requests without any of them share one identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdentityHeaders(Vec<HeaderName>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct HeaderName(
    #[serde(deserialize_with = "header_name")]
    #[cfg_attr(feature = "schema", schemars(with = "HeaderNameText"))]
    String,
);

/// The credentials that the cluster checks, the certificate that Envoy checked, and the address of the client.
const DEFAULT: &[&str] = &["authorization", "x-forwarded-client-cert", "x-forwarded-for"];

impl IdentityHeaders {
    /// Returns their names, in order of precedence.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|HeaderName(name)| name.as_str())
    }

    /// Returns a header that cannot identify requests because they share batches whatever its value. The default may
    /// include such a header, because its other headers still apply.
    pub(super) fn find_harmless(&self, harmless: &HarmlessHeaders) -> Option<&str> {
        self.names().filter(|_| *self != Self::default()).find(|name| harmless.contains(name))
    }
}

impl Default for IdentityHeaders {
    fn default() -> Self {
        Self(DEFAULT.iter().map(|name| HeaderName((*name).to_owned())).collect())
    }
}
