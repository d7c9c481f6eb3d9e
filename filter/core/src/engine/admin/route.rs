use super::asset::Asset;

/// A resource below the admin path.
#[derive(Debug, PartialEq, Eq)]
pub enum Resource {
    /// The live page, or another file of it.
    Asset(&'static Asset),
    /// The live page, requested without the slash that its relative addresses need.
    Slash,
    /// The status.
    Status,
    /// The routing table.
    State {
        /// The pattern of the indices to include.
        pattern: String,
        /// The maximum number of indices.
        most: usize,
    },
    /// The operations of the next bulk request.
    Sample,
    /// An explanation of how the bulk request in the body would be handled.
    Explain {
        /// The rest of the path after `explain`.
        rest: String,
    },
}

/// The reason why an admin request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The resource does not exist.
    Unknown,
    /// The resource requires this method.
    Method(&'static str),
    /// A query parameter is invalid.
    Parameter,
}

/// The maximum and default number of indices of the routing table in a response. Each takes about a kilobyte, and they
/// are written in one callback, while the worker does nothing else.
const MAX_INDICES: usize = 1000;

impl Resource {
    /// Parses the rest of the path after the admin path.
    pub fn read(method: &[u8], rest: &[u8]) -> Result<Self, Refusal> {
        let rest = std::str::from_utf8(rest).map_err(|_| Refusal::Unknown)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if let Some(behind) =
            path.strip_prefix("/explain").filter(|behind| behind.is_empty() || behind.starts_with('/'))
        {
            let query = if query.is_empty() { String::new() } else { format!("?{query}") };
            return expect(method, "POST").map(|()| Self::Explain { rest: format!("{behind}{query}") });
        }
        let route = match path {
            "" => Self::Slash,
            "/status" => Self::Status,
            "/sample" => Self::Sample,
            "/state" => Self::state(query)?,
            _ => Self::Asset(Asset::at(path).ok_or(Refusal::Unknown)?),
        };
        expect(method, "GET").map(|()| route)
    }

    /// Returns whether it is the live page or redirects to it. Such responses are small and immediate.
    pub fn is_page(&self) -> bool {
        matches!(self, Self::Asset(_) | Self::Slash)
    }

    fn state(query: &str) -> Result<Self, Refusal> {
        let (mut pattern, mut most) = ("*".to_owned(), MAX_INDICES);
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("indices", value)) => {
                    let value = percent_encoding::percent_decode_str(value).decode_utf8();
                    pattern = value.map_err(|_| Refusal::Parameter)?.into_owned();
                }
                Some(("most", value)) => {
                    let value = value.parse().ok().filter(|most| (1..=MAX_INDICES).contains(most));
                    most = value.ok_or(Refusal::Parameter)?;
                }
                _ => return Err(Refusal::Parameter),
            }
        }
        Ok(Self::State { pattern, most })
    }
}

fn expect(method: &[u8], expected: &'static str) -> Result<(), Refusal> {
    if method == expected.as_bytes() { Ok(()) } else { Err(Refusal::Method(expected)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_resource() {
        let get = |rest: &str| Resource::read(b"GET", rest.as_bytes());
        assert_eq!(get(""), Ok(Resource::Slash));
        assert!(matches!(get("/"), Ok(Resource::Asset(page)) if page.content_type.starts_with("text/html")));
        assert_eq!(get("/status?any"), Ok(Resource::Status));
        assert_eq!(get("/state"), Ok(Resource::State { pattern: "*".into(), most: 1000 }));
        assert_eq!(get("/state?indices=logs%2Da*&most=7"), Ok(Resource::State { pattern: "logs-a*".into(), most: 7 }));
        let post = |rest: &str| Resource::read(b"POST", rest.as_bytes());
        for (rest, explained) in [("/explain", ""), ("/explain?x", "?x"), ("/explain/a/_bulk?x=1", "/a/_bulk?x=1")] {
            assert_eq!(post(rest), Ok(Resource::Explain { rest: explained.into() }), "{rest}");
        }
    }

    #[test]
    fn refuses_unknown_resources_methods_and_parameters() {
        let get = |rest: &str| Resource::read(b"GET", rest.as_bytes());
        for rest in ["/stat", "/status/", "//", "/..", "/explained", "/\u{e4}"] {
            assert_eq!(get(rest), Err(Refusal::Unknown), "{rest}");
        }
        assert_eq!(Resource::read(b"GET", b"/\xff"), Err(Refusal::Unknown));
        assert_eq!(get("/explain"), Err(Refusal::Method("POST")));
        for rest in ["", "/", "/status", "/state"] {
            assert_eq!(Resource::read(b"POST", rest.as_bytes()), Err(Refusal::Method("GET")), "{rest}");
        }
        for query in ["most=0", "most=1001", "most=x", "indices", "a=b", "indices=%ff"] {
            assert_eq!(get(&format!("/state?{query}")), Err(Refusal::Parameter), "{query}");
        }
    }
}
