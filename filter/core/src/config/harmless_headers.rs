use std::collections::BTreeSet;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};

use super::field::header_name;

/// Request headers on which no server acts. They do not keep requests apart. Batches leave them out, so that a server
/// never sees the value of another request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "Vec<HarmlessName>")]
pub struct HarmlessHeaders(BTreeSet<String>);

/// Headers that tell requests apart in logs and traces, or that name the client software.
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

/// Headers that identify the user, the tenant or the language. Without them, a server answers differently or for
/// another user. Some of them sign the request, so a batch cannot carry it.
///
/// Elasticsearch and OpenSearch can be configured to read further names, for JSON web tokens and for proxies. These are
/// the documented names and the defaults.
pub(super) const NEVER_HARMLESS: &[&str] = &[
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

/// The prefixes of further headers that identify the user: those of Elasticsearch's secondary authentication, of
/// authenticating proxies, of security plug-ins, and the internal headers of OpenSearch's security plug-in.
pub(super) const NEVER_HARMLESS_BEGIN: &[&str] = &[
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
    /// Returns whether these headers include the one with this lower-case name.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

impl Default for HarmlessHeaders {
    fn default() -> Self {
        Self(DEFAULT.iter().map(|name| (*name).to_owned()).collect())
    }
}

impl From<Vec<HarmlessName>> for HarmlessHeaders {
    fn from(names: Vec<HarmlessName>) -> Self {
        Self(names.into_iter().map(|HarmlessName(name)| name).collect())
    }
}

#[derive(Deserialize)]
pub(super) struct HarmlessName(#[serde(deserialize_with = "harmless_name")] String);

/// Reads the name of a header that may be left out.
fn harmless_name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = header_name(from)?;
    let is_acted_on =
        NEVER_HARMLESS.contains(&name.as_str()) || NEVER_HARMLESS_BEGIN.iter().any(|begin| name.starts_with(begin));
    match is_acted_on {
        true => Err(D::Error::custom(format!("{name:?} is never harmless: servers act on it"))),
        false => Ok(name),
    }
}
