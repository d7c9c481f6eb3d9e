use super::caller::{Caller, caller};
use super::cluster_timeout::is_too_long;
use crate::bulk::FilterPath;
use crate::config::Config;
use crate::engine::pass_through::PassThrough;
use crate::routing::Unrouted;

/// The parsed headers of a bulk request.
#[derive(Debug, Default)]
pub struct Head {
    /// The caller.
    pub caller: Caller,
    /// The hash of the caller, once it is computed. Each request needs it to look up its caller.
    pub caller_hash: u64,
    /// The index in the path, for action lines without an index.
    pub default_index: Option<String>,
    /// The routing value in the query, for action lines without a routing value.
    pub default_routing: Option<String>,
    /// The ingest pipeline in the query, for action lines that name none.
    pub default_pipeline: Option<String>,
    /// The query's `require_alias`, for action lines that do not specify it.
    pub require_alias: bool,
    /// The query's `require_data_stream`, for action lines that do not specify it; `None` if the query does not either.
    pub require_data_stream: Option<bool>,
    /// The query's `list_executed_pipelines`: whether each item lists the pipelines that the cluster has run.
    pub lists_pipelines: bool,
    /// Whether the cluster refreshes the shards that the request has changed, and says so in their items.
    pub refreshes: bool,
    /// The parts of the answer that the client requests. It is not forwarded to the nodes.
    pub filter_path: FilterPath,
    /// Whether the client requests an indented answer. This is not forwarded either.
    pub pretty: bool,
    /// Whether the body is compressed.
    pub gzip: bool,
    /// About how many bytes it uses.
    pub memory: u64,
}

/// The memory overhead of a header: two strings, and the allocator's overhead.
const PER_HEADER: u64 = 80;

/// Returns whether a request may be a bulk request, judging by its path. A quick check before all headers are read.
pub fn may_be_bulk(path: &[u8]) -> bool {
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    path.strip_suffix(b"/").unwrap_or(path).ends_with(b"/_bulk")
}

impl Head {
    /// Reads the headers of a request. Returns `None` if it is not a bulk request.
    pub fn read(headers: Vec<(String, Vec<u8>)>, config: &Config) -> Option<Result<Self, PassThrough>> {
        Self::is_bulk(&headers).then(|| Self::read_bulk(headers, config))
    }

    /// Returns whether a request is a bulk request.
    pub fn is_bulk(headers: &[(String, Vec<u8>)]) -> bool {
        let is_writing = value(headers, ":method").is_some_and(|method| matches!(method, b"POST" | b"PUT"));
        is_writing && value(headers, ":path").is_some_and(may_be_bulk)
    }

    /// Returns the index in the path of a bulk request, if there is one.
    pub fn index_in_path(headers: &[(String, Vec<u8>)]) -> Option<String> {
        let path = std::str::from_utf8(value(headers, ":path")?).ok()?;
        default_index(path.split('?').next()?).ok()?
    }

    fn read_bulk(mut headers: Vec<(String, Vec<u8>)>, config: &Config) -> Result<Self, PassThrough> {
        let path = value(&headers, ":path").and_then(|path| std::str::from_utf8(path).ok()).ok_or(PassThrough::Path)?;
        let length = path.len() as u64;
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut head = Self { default_index: default_index(path)?, ..Self::default() };
        let sent = head.read_query(query)?;
        let path = if sent.is_empty() { path.to_owned() } else { format!("{path}?{sent}") };
        check_media_types(&headers)?;
        if headers.iter().any(|header| authenticates_body(header, config)) {
            return Err(PassThrough::Header);
        }
        head.gzip = is_gzip(&headers)?;
        if let Some((_, value)) = headers.iter_mut().find(|(name, _)| name == ":path") {
            *value = path.into_bytes();
        }
        head.caller = caller(headers, config).ok_or(PassThrough::Header)?;
        let size = |(name, value): &(String, String)| {
            (name.len().saturating_add(value.len()) as u64).saturating_add(PER_HEADER)
        };
        // Parts of the path are stored again.
        head.memory = head.caller.iter().map(size).sum::<u64>().saturating_add(4 * length);
        Ok(head)
    }

    /// Parses a query. Parameters that affect neither single operations nor the answer may have any value, because the
    /// nodes check them. `routing` and `pipeline` are for all operations without one, `filter_path` and `pretty` are for
    /// the merged answer. The filter accepts no other parameters. Returns the part that is forwarded to the nodes.
    fn read_query(&mut self, query: &str) -> Result<String, PassThrough> {
        let (mut sent, mut seen) = (String::new(), Vec::new());
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let coded = !parameter.is_ascii()
                || parameter.contains(['+', ';'])
                || (name != "filter_path" && parameter.contains('%'));
            if coded || seen.contains(&name) {
                return Err(PassThrough::Parameter);
            }
            seen.push(name);
            match (name, value) {
                ("timeout", value) if is_too_long(value) => return Err(PassThrough::Parameter),
                ("refresh", value) => self.refreshes = value != "false",
                ("timeout" | "wait_for_active_shards", _) => {}
                // A cluster does not answer at all if one of these values is neither true nor false.
                ("human" | "error_trace" | "include_source_on_error", "" | "true" | "false") | ("format", "json") => {}
                ("list_executed_pipelines", "" | "true" | "false") => self.lists_pipelines = value != "false",
                ("require_alias", "" | "true" | "false") => self.require_alias = value != "false",
                ("require_data_stream", "" | "true" | "false") => self.require_data_stream = Some(value != "false"),
                ("routing", value) if !value.is_empty() => self.default_routing = Some(value.to_owned()),
                ("pipeline", value) if !value.is_empty() => self.default_pipeline = Some(value.to_owned()),
                ("pretty", "" | "true" | "false") => {
                    self.pretty = value != "false";
                    continue;
                }
                ("filter_path", value) => {
                    self.filter_path =
                        FilterPath::parse(value).filter(FilterPath::is_quick).ok_or(PassThrough::Parameter)?;
                    continue;
                }
                _ => return Err(PassThrough::Parameter),
            }
            if !sent.is_empty() {
                sent.push('&');
            }
            sent.push_str(parameter);
        }
        Ok(sent)
    }
}

/// Returns the bytes of a request's body, if the client declares them.
pub fn content_length(headers: &[(String, Vec<u8>)]) -> Option<u64> {
    std::str::from_utf8(value(headers, "content-length")?).ok()?.parse().ok()
}

/// Returns the value of a header.
pub fn value<'a>(headers: &'a [(String, Vec<u8>)], name: &str) -> Option<&'a [u8]> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_slice())
}

/// Returns the index of a path: `/_bulk` or `/{index}/_bulk`, with an optional slash at the end.
fn default_index(path: &str) -> Result<Option<String>, PassThrough> {
    match path.strip_suffix('/').unwrap_or(path).strip_suffix("/_bulk") {
        Some("") => Ok(None),
        Some(index) => match index.strip_prefix('/') {
            Some(index) if ["<", "%3c", "%3C"].iter().any(|bracket| index.starts_with(bracket)) => {
                Err(PassThrough::Unrouted(Unrouted::DateMath))
            }
            // Clusters read each byte of an unencoded character as a character.
            Some(index) if !index.is_empty() && index.is_ascii() && !index.contains(['/', '%', '+']) => {
                Ok(Some(index.to_owned()))
            }
            _ => Err(PassThrough::Path),
        },
        None => Err(PassThrough::Path),
    }
}

/// The media types of a JSON document.
const JSON: &[&str] = &["application/json", "application/vnd.elasticsearch+json"];

/// Returns whether a request's body is a JSON document.
pub fn is_json(headers: &[(String, Vec<u8>)]) -> bool {
    value(headers, "content-type").is_some_and(|value| is_one_of(value, JSON))
}

fn check_media_types(headers: &[(String, Vec<u8>)]) -> Result<(), PassThrough> {
    const BODY: &[&str] = &[
        "application/json",
        "application/x-ndjson",
        "application/vnd.elasticsearch+json",
        "application/vnd.elasticsearch+x-ndjson",
    ];
    const ANSWER: &[&str] = &["*/*", "application/*", "application/json", "application/vnd.elasticsearch+json"];
    if !value(headers, "content-type").is_some_and(|value| is_one_of(value, BODY)) {
        return Err(PassThrough::ContentType);
    }
    // Elastic's client for JavaScript adds `text/plain` to requests without a body. The first type counts.
    let accepts = |value: &[u8]| {
        let mut types = value.split(|byte| *byte == b',');
        types.next().is_some_and(|first| is_one_of(first, ANSWER))
            && types.all(|one| is_one_of(one, ANSWER) || is_one_of(one, &["text/plain"]))
    };
    if !value(headers, "accept").is_none_or(accepts) {
        return Err(PassThrough::Accept);
    }
    Ok(())
}

fn is_gzip(headers: &[(String, Vec<u8>)]) -> Result<bool, PassThrough> {
    match value(headers, "content-encoding") {
        None => Ok(false),
        Some(coding) if coding.eq_ignore_ascii_case(b"identity") => Ok(false),
        Some(coding) if coding.eq_ignore_ascii_case(b"gzip") => Ok(true),
        Some(_) => Err(PassThrough::ContentEncoding),
    }
}

/// Digests of the body. If nothing checks them, they may be listed in `harmless_headers`: then batches do not have
/// them.
const DIGESTS: &[&str] =
    &["content-digest", "content-md5", "digest", "repr-digest", "x-content-sha256", "x-ms-content-sha256"];

/// Headers of a signature over the body or over the request.
const SIGNATURES: &[&str] =
    &["signature", "signature-input", "x-amz-content-sha256", "x-hub-signature", "x-hub-signature-256"];

/// Returns whether a header is valid only for this body, or only for the unchanged request, so that no batch can carry
/// it.
fn authenticates_body((name, value): &(String, Vec<u8>), config: &Config) -> bool {
    let name = name.as_str();
    match name.as_bytes().first() {
        Some(b'a') => name == "authorization" && is_signing_scheme(value),
        // All other names begin with one of these.
        Some(b'c' | b'd' | b'r' | b's' | b'x') => {
            SIGNATURES.contains(&name) || (DIGESTS.contains(&name) && !config.harmless_headers.contains(name))
        }
        _ => false,
    }
}

/// Returns whether credentials of this scheme are computed from the request: those of AWS (`AWS4-HMAC-SHA256`), of
/// other clouds with similar schemes (`GOOG4-RSA-SHA256`, `TC3-HMAC-SHA256`), of HTTP signatures, and of HTTP digest
/// authentication.
fn is_signing_scheme(authorization: &[u8]) -> bool {
    let scheme = authorization.split(|byte| *byte == b' ').next().unwrap_or_default().to_ascii_lowercase();
    scheme.starts_with(b"aws")
        || [b"hmac".as_slice(), b"sha256"].iter().any(|part| memchr::memmem::find(&scheme, part).is_some())
        || matches!(scheme.as_slice(), b"signature" | b"digest" | b"hawk")
}

/// Returns whether a media type is one of these, without parameters except those that make no difference here.
fn is_one_of(value: &[u8], types: &[&str]) -> bool {
    let Ok(value) = std::str::from_utf8(value) else { return false };
    let mut parts = value.split(';').map(str::trim);
    let known = parts.next().is_some_and(|essence| types.iter().any(|known| essence.eq_ignore_ascii_case(known)));
    known
        && parts.all(|part| match part.split_once('=') {
            Some((name, value)) if name.eq_ignore_ascii_case("charset") => value.eq_ignore_ascii_case("utf-8"),
            Some((name, _)) => name.eq_ignore_ascii_case("compatible-with"),
            None => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(path: &str, more: &[(&str, &str)]) -> Option<Result<Head, PassThrough>> {
        let mut headers = vec![(":method", "POST"), (":path", path)];
        if !more.iter().any(|(name, _)| *name == "content-type") {
            headers.push(("content-type", "application/x-ndjson"));
        }
        headers.extend_from_slice(more);
        read(headers.into_iter().map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).collect())
    }

    fn read(headers: Vec<(String, Vec<u8>)>) -> Option<Result<Head, PassThrough>> {
        Head::read(headers, &Config::read(br#"{"coordinator":"es"}"#).unwrap())
    }

    fn reason(path: &str, more: &[(&str, &str)]) -> PassThrough {
        head(path, more).unwrap().unwrap_err()
    }

    #[test]
    fn reads_index_and_parameters() {
        let bare = head("/_bulk", &[]).unwrap().unwrap();
        assert_eq!((bare.default_index, bare.default_routing), (None, None));
        assert_eq!(head("/_bulk/", &[]).unwrap().unwrap().default_index, None);
        assert_eq!(head("/books/_bulk/?", &[]).unwrap().unwrap().default_index.as_deref(), Some("books"));
        let full = head("/books/_bulk?refresh=wait_for&routing=jane&timeout=1m", &[]).unwrap().unwrap();
        assert_eq!((full.default_index.as_deref(), full.default_routing.as_deref()), (Some("books"), Some("jane")));
    }

    /// The path is a header of the caller, and its parts are stored again.
    #[test]
    fn each_byte_of_a_path_counts_five_times() {
        let memory =
            |routing: usize| head(&format!("/_bulk?routing={}", "a".repeat(routing)), &[]).unwrap().unwrap().memory;
        assert_eq!(memory(1_001) - memory(1), 5 * 1_000);
        assert!(memory(1) > 5 * "/_bulk?routing=a".len() as u64 + 3 * PER_HEADER);
    }

    #[test]
    fn reads_the_content_length() {
        let length = |value: &str| content_length(&[("content-length".to_owned(), value.as_bytes().to_vec())]);
        assert_eq!((length("17"), length("-1"), content_length(&[])), (Some(17), None, None));
    }

    #[test]
    fn filter_path_and_pretty_are_not_forwarded_to_nodes() {
        let bare = head("/_bulk", &[]).unwrap().unwrap();
        for (query, sent) in [
            ("filter_path=errors%2Citems.*.error", ""),
            ("refresh=true&filter_path=took&&routing=a", "?refresh=true&routing=a"),
            ("pretty&filter_path=errors", ""),
            ("timeout=1m&pretty=false", "?timeout=1m"),
            ("human&error_trace=false&format=json", "?human&error_trace=false&format=json"),
        ] {
            let head = head(&format!("/_bulk?{query}"), &[]).unwrap().unwrap();
            assert_eq!(head.caller.iter().find(|(name, _)| name == ":path").unwrap().1, format!("/_bulk{sent}"));
            assert_eq!(head.caller == bare.caller, sent.is_empty(), "{query}");
        }
    }

    #[test]
    fn pretty_accepts_boolean_values() {
        for (query, expected) in
            [("", false), ("pretty", true), ("pretty=", true), ("pretty=true", true), ("pretty=false", false)]
        {
            assert_eq!(head(&format!("/_bulk?{query}"), &[]).unwrap().unwrap().pretty, expected, "{query}");
        }
    }

    #[test]
    fn other_requests_are_not_bulk_requests() {
        for path in
            ["/", "/_search", "/_bulk//", "/books/_bulk/stream", "/books/_doc/_bulk_", "/_bulkx?/_bulk", "/x_bulk"]
        {
            assert!(head(path, &[]).is_none(), "{path}");
        }
        assert!(read(vec![(":method".into(), b"GET".to_vec()), (":path".into(), b"/_bulk".to_vec())]).is_none());
        assert!(read(vec![]).is_none());
    }

    #[test]
    fn unaccepted_requests_have_a_reason() {
        for path in ["/books/_doc/_bulk", "//_bulk", "/a%2Cb/_bulk", "/a+b/_bulk", "/bücher/_bulk"] {
            assert_eq!(reason(path, &[]), PassThrough::Path, "{path}");
        }
        for path in ["/%3Clogs-%7Bnow%2Fd%7D%3E/_bulk", "/%3clogs%3e/_bulk", "/<logs-{now/d}>/_bulk"] {
            assert_eq!(reason(path, &[]), PassThrough::Unrouted(Unrouted::DateMath), "{path}");
        }
        for query in [
            "pipeline=",
            "filter_path=errors.",
            "filter_path=errors&filter_path=took",
            "filter%5fpath=errors",
            "pretty=TRUE",
            "pretty&pretty",
            "prett%79",
            "human=banana",
            "error_trace=banana",
            "format=yaml",
            "unknown=1",
            "include_source_on_error=no",
            "list_executed_pipelines=1",
            "require_alias=yes",
            "require_data_stream=1",
            "routing=",
            "routing=é",
            "routing=a&routing=b",
            "timeout=1%6d",
            "timeout=11m",
            "timeout=-1",
        ] {
            assert_eq!(reason(&format!("/_bulk?{query}"), &[]), PassThrough::Parameter, "{query}");
        }
        for media_type in ["text/plain", "application/yaml", "application/json; charset=utf-16", ""] {
            assert_eq!(reason("/_bulk", &[("content-type", media_type)]), PassThrough::ContentType, "{media_type}");
            assert_eq!(reason("/_bulk", &[("accept", media_type)]), PassThrough::Accept, "{media_type}");
        }
        for encoding in ["deflate", "gzip, gzip", "br", ""] {
            assert_eq!(reason("/_bulk", &[("content-encoding", encoding)]), PassThrough::ContentEncoding, "{encoding}");
        }
    }

    #[test]
    fn requests_with_digests_or_signatures_are_not_split() {
        for (name, value) in [
            ("content-md5", "Q2hlY2sgSW50ZWdyaXR5IQ=="),
            ("digest", "sha-256=:X48E9q:"),
            ("content-digest", "sha-256=:X48E9q:"),
            ("repr-digest", "sha-256=:X48E9q:"),
            ("signature", "sig1=:LAH8Bjc:"),
            ("signature-input", "sig1=(\"@method\");created=1618884475"),
            ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
            ("x-content-sha256", "X48E9q"),
            ("x-ms-content-sha256", "X48E9q"),
            ("x-hub-signature-256", "sha256=757107ea"),
            (
                "authorization",
                "AWS4-HMAC-SHA256 Credential=AKIA/20261122/us-east-1/es/aws4_request, SignedHeaders=host",
            ),
            ("authorization", "AWS4-ECDSA-P256-SHA256 Credential=a"),
            ("authorization", "aws4-hmac-sha256 Credential=a"),
            ("authorization", "AWS AKIA:frJIUN8DYpKDtOLCwo="),
            ("authorization", "GOOG4-RSA-SHA256 Credential=a"),
            ("authorization", "TC3-HMAC-SHA256 Credential=a"),
            ("authorization", "Signature keyId=\"a\""),
            ("authorization", "Digest username=\"a\", uri=\"/_bulk\""),
        ] {
            assert_eq!(reason("/_bulk", &[(name, value)]), PassThrough::Header, "{name}: {value}");
        }
    }

    #[test]
    fn credentials_that_are_valid_for_any_request_are_not_signatures() {
        for (name, value) in [
            ("authorization", "Basic QVdTNC1ITUFDLVNIQTI1Ng=="),
            ("authorization", "ApiKey AWS4-HMAC-SHA256"),
            ("authorization", "Bearer hmac"),
            ("authorization", "Negotiate YII"),
            ("x-digest", "1"),
            ("content-type", "application/json"),
        ] {
            assert!(head("/_bulk", &[(name, value)]).unwrap().is_ok(), "{name}: {value}");
        }
    }

    #[test]
    fn a_harmless_digest_is_left_out() {
        let config = Config::read(br#"{"coordinator":"es","harmless_headers":["content-md5"]}"#).unwrap();
        let headers = |name: &str| {
            let headers = [(":method", "POST"), (":path", "/_bulk"), ("content-type", "application/json"), (name, "x")];
            headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).to_vec()
        };
        let head = Head::read(headers("content-md5"), &config).unwrap().unwrap();
        assert!(!head.caller.iter().any(|(name, _)| name == "content-md5"));
        assert_eq!(Head::read(headers("digest"), &config).unwrap().unwrap_err(), PassThrough::Header);
    }

    #[test]
    fn a_compressed_body_does_not_change_the_caller() {
        let head = |headers| head("/_bulk", headers).unwrap().unwrap();
        let (plain, gzip) = (head(&[]), head(&[("content-encoding", "GZIP")]));
        assert_eq!((plain.gzip, gzip.gzip, head(&[("content-encoding", "identity")]).gzip), (false, true, false));
        assert_eq!(plain.caller, gzip.caller);
    }

    #[test]
    fn accepts_the_media_types_that_clients_send() {
        for media_type in [
            "application/json",
            "Application/JSON; charset=UTF-8",
            "application/vnd.elasticsearch+x-ndjson; compatible-with=8",
        ] {
            assert!(head("/_bulk", &[("content-type", media_type)]).unwrap().is_ok(), "{media_type}");
        }
        for media_type in ["application/json; charset=latin1", "application/json; compatible-with", "application/jsonp"]
        {
            assert_eq!(reason("/_bulk", &[("content-type", media_type)]), PassThrough::ContentType, "{media_type}");
        }
        for accept in ["*/*", "application/json, */*", "application/vnd.elasticsearch+json;compatible-with=9"] {
            assert!(head("/_bulk", &[("accept", accept)]).unwrap().is_ok(), "{accept}");
        }
    }
}
