use std::collections::BTreeSet;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};

/// Request headers on which no server acts. They do not keep requests apart, and are left out of batches, so that
/// nobody ever acts under another's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<HeaderName>")]
pub struct HarmlessHeaders(BTreeSet<String>);

/// They tell one request from another in logs and traces, or which client software is used.
const DEFAULT: &[&str] = &[
    "b3",
    "grpc-trace-bin",
    "traceparent",
    "tracestate",
    "uber-trace-id",
    "user-agent",
    "x-amzn-trace-id",
    "x-b3-flags",
    "x-b3-parentspanid",
    "x-b3-sampled",
    "x-b3-spanid",
    "x-b3-traceid",
    "x-client-trace-id",
    "x-cloud-trace-context",
    "x-datadog-parent-id",
    "x-datadog-sampling-priority",
    "x-datadog-trace-id",
    "x-elastic-client-meta",
    "x-ot-span-context",
    "x-request-id",
];

/// They say who asks, of whom, and in which language: without them a server answers something else, to somebody else.
const NEVER_HARMLESS: &[&str] = &[
    "accept",
    "authorization",
    "content-type",
    "cookie",
    "es-secondary-authorization",
    "es-security-runas-user",
    "host",
    "proxy-authorization",
    "securitytenant",
    "x-forwarded-client-cert",
];

impl HarmlessHeaders {
    /// Whether the header of this name, in lower case, is one of them.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

impl Default for HarmlessHeaders {
    fn default() -> Self {
        Self(DEFAULT.iter().map(|name| (*name).to_owned()).collect())
    }
}

impl From<Vec<HeaderName>> for HarmlessHeaders {
    fn from(names: Vec<HeaderName>) -> Self {
        Self(names.into_iter().map(|HeaderName(name)| name).collect())
    }
}

/// The name of a header that may be left out.
struct HeaderName(String);

impl<'de> Deserialize<'de> for HeaderName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        match problem(&name) {
            Some(problem) => Err(D::Error::custom(format!("{name:?} {problem}"))),
            None => Ok(Self(name)),
        }
    }
}

fn problem(name: &str) -> Option<&'static str> {
    if name.starts_with(':') {
        return Some("is a pseudo-header, and part of the request itself");
    }
    // What HTTP calls a token.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(plain) {
        return Some("is not a header name");
    }
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Some("is not in lower case, as header names are in Envoy");
    }
    NEVER_HARMLESS.contains(&name).then_some("is never harmless: servers act on it")
}
