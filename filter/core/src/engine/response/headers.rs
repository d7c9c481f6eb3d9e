use crate::engine::command::Headers;

/// Headers that say how an answer travelled to here, not what it says.
const OWN_WAY: &[&str] = &[
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "server",
    "transfer-encoding",
    "x-envoy-upstream-service-time",
];

/// What goes on to the client of a response's headers.
pub fn carried(headers: &Headers) -> Headers {
    headers.iter().filter(|(name, _)| !OWN_WAY.contains(&name.as_str())).cloned().collect()
}

/// The same where several requests share a response, or a request has several: without cookies, which are one client's
/// own.
pub fn shared(headers: &Headers) -> Headers {
    let is_shared = |name: &str| !OWN_WAY.contains(&name) && !matches!(name, "set-cookie" | "set-cookie2");
    headers.iter().filter(|(name, _)| is_shared(name)).cloned().collect()
}
