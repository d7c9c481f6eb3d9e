use std::collections::BTreeSet;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};

use super::field::header_name_problem;

/// Request headers on which no server acts. They do not keep requests apart, and are left out of batches, so that
/// no server acts on the value of another request.
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
/// Or they sign the request, so that no batch can carry it.
///
/// Elasticsearch and OpenSearch take further names from their configuration, for JSON web tokens and for proxies; these
/// are the names that their documentation gives and that they have by default.
const NEVER_HARMLESS: &[&str] = &[
    "accept",
    "authorization",
    "cf-access-jwt-assertion",
    "content-type",
    "cookie",
    "es-client-authentication",
    "es-security-runas-user",
    "forwarded",
    "host",
    "jwt",
    "opendistro_security_impersonate_as",
    "opensearch_security_impersonate_as",
    "proxy-authorization",
    "security_tenant",
    "securitytenant",
    "sg_impersonate_as",
    "sg_tenant",
    "sgtenant",
    "signature",
    "signature-input",
    "x-amz-content-sha256",
    "x-amz-security-token",
    "x-api-key",
    "x-client-authentication",
    "x-elastic-internal-origin",
    "x-elastic-product-origin",
    "x-forwarded-client-cert",
    "x-forwarded-email",
    "x-forwarded-for",
    "x-forwarded-groups",
    "x-forwarded-preferred-username",
    "x-forwarded-user",
    "x-goog-iap-jwt-assertion",
    "x-hub-signature",
    "x-hub-signature-256",
    "x-jwt-assertion",
    "x-remote-group",
    "x-remote-user",
];

/// All headers whose names begin like this say who asks too: those of Elasticsearch's secondary authentication, of
/// proxies that authenticate, of security plug-ins, and what OpenSearch's keeps in headers of its own.
const NEVER_HARMLESS_BEGIN: &[&str] = &[
    "_opendistro_security_",
    "_opensearch_security_",
    "_sg_",
    "_xpack_security_",
    "es-secondary-",
    "x-amzn-oidc-",
    "x-auth-request-",
    "x-opensearch-security-",
    "x-proxy-",
    "x-ror-",
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
    if let Some(problem) = header_name_problem(name) {
        return Some(problem);
    }
    let is_acted_on =
        NEVER_HARMLESS.contains(&name) || NEVER_HARMLESS_BEGIN.iter().any(|begin| name.starts_with(begin));
    is_acted_on.then_some("is never harmless: servers act on it")
}
