use crate::engine::command::Headers;

/// Headers that describe the transport of an answer, not its content.
const OWN_WAY: &[&str] = &[
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "server",
    "transfer-encoding",
    "x-envoy-upstream-service-time",
];

/// Returns the headers of a response that are forwarded to the client.
pub fn carried(headers: &Headers) -> Headers {
    headers.iter().filter(|(name, _)| !OWN_WAY.contains(&name.as_str())).cloned().collect()
}

/// Returns the headers that are forwarded if several requests share a response or a request has several responses.
/// Cookies are not among them, because they belong to one client.
pub fn shared(headers: &Headers) -> Headers {
    let is_shared = |name: &str| !OWN_WAY.contains(&name) && !matches!(name, "set-cookie" | "set-cookie2");
    headers.iter().filter(|(name, _)| is_shared(name)).cloned().collect()
}
