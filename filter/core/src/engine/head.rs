use super::PassThrough;
use super::caller::{Caller, caller};

/// What a bulk request's headers say.
#[derive(Debug)]
pub struct Head {
    /// Who asks, and for what.
    pub caller: Caller,
    /// The index in the path, for action lines that name none.
    pub default_index: Option<String>,
    /// The routing value in the query, for action lines that have none.
    pub default_routing: Option<String>,
    /// Bytes of the body, where the client says it beforehand.
    pub content_length: Option<u64>,
    /// Whether the body is compressed.
    pub gzip: bool,
}

/// Whether a request may be a bulk request, as far as its path tells. A quick look before all headers are read.
pub fn may_be_bulk(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'?').next().is_some_and(|path| path.ends_with(b"/_bulk"))
}

impl Head {
    /// Reads the headers of a request. `None` if it is not a bulk request.
    pub fn read(headers: Vec<(String, Vec<u8>)>) -> Option<Result<Self, PassThrough>> {
        let method = value(&headers, ":method")?;
        let path = value(&headers, ":path")?;
        if !matches!(method, b"POST" | b"PUT") || !may_be_bulk(path) {
            return None;
        }
        Some(Self::read_bulk(headers))
    }

    fn read_bulk(headers: Vec<(String, Vec<u8>)>) -> Result<Self, PassThrough> {
        let path = value(&headers, ":path").and_then(|path| std::str::from_utf8(path).ok()).ok_or(PassThrough::Path)?;
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let default_index = default_index(path)?;
        let default_routing = default_routing(query)?;
        check_media_types(&headers)?;
        let gzip = is_gzip(&headers)?;
        let content_length = match value(&headers, "content-length") {
            Some(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
            None => None,
        };
        let caller = caller(headers).ok_or(PassThrough::Header)?;
        Ok(Self { caller, default_index, default_routing, content_length, gzip })
    }
}

fn value<'a>(headers: &'a [(String, Vec<u8>)], name: &str) -> Option<&'a [u8]> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_slice())
}

/// `/_bulk` or `/{index}/_bulk`.
fn default_index(path: &str) -> Result<Option<String>, PassThrough> {
    match path.strip_suffix("/_bulk") {
        Some("") => Ok(None),
        Some(index) => match index.strip_prefix('/') {
            Some(index) if !index.is_empty() && !index.contains(['/', '%', '+']) => Ok(Some(index.to_owned())),
            _ => Err(PassThrough::Path),
        },
        None => Err(PassThrough::Path),
    }
}

/// Parameters that say nothing about single operations may be anything; the nodes check them. `routing` is for all
/// operations that have none. Whatever else there may be is not vouched for.
fn default_routing(query: &str) -> Result<Option<String>, PassThrough> {
    let mut routing = None;
    let mut seen: Vec<&str> = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if parameter.contains(['%', '+', ';']) || seen.contains(&name) {
            return Err(PassThrough::Parameter);
        }
        match name {
            "refresh" | "timeout" | "wait_for_active_shards" => {}
            "routing" if !value.is_empty() => routing = Some(value.to_owned()),
            _ => return Err(PassThrough::Parameter),
        }
        seen.push(name);
    }
    Ok(routing)
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
    let accepts = |value: &[u8]| value.split(|byte| *byte == b',').all(|one| is_one_of(one, ANSWER));
    if !value(headers, "accept").is_none_or(accepts) {
        return Err(PassThrough::Accept);
    }
    Ok(())
}

fn is_gzip(headers: &[(String, Vec<u8>)]) -> Result<bool, PassThrough> {
    match value(headers, "content-encoding").map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"identity") => Ok(false),
        Some(b"gzip") => Ok(true),
        Some(_) => Err(PassThrough::ContentEncoding),
    }
}

/// Whether a media type is one of these, with no parameters but those that change nothing here.
fn is_one_of(value: &[u8], types: &[&str]) -> bool {
    let Ok(value) = std::str::from_utf8(value) else { return false };
    let mut parts = value.split(';').map(|part| part.trim().to_ascii_lowercase());
    let known = parts.next().is_some_and(|essence| types.contains(&essence.as_str()));
    known && parts.all(|part| part == "charset=utf-8" || part.starts_with("compatible-with="))
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
        Head::read(headers.into_iter().map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).collect())
    }

    fn reason(path: &str, more: &[(&str, &str)]) -> PassThrough {
        head(path, more).unwrap().unwrap_err()
    }

    #[test]
    fn reads_index_and_parameters() {
        let bare = head("/_bulk", &[("content-length", "17")]).unwrap().unwrap();
        assert_eq!((bare.default_index, bare.default_routing, bare.content_length), (None, None, Some(17)));
        let full = head("/books/_bulk?refresh=wait_for&routing=jane&timeout=1m", &[]).unwrap().unwrap();
        assert_eq!((full.default_index.as_deref(), full.default_routing.as_deref()), (Some("books"), Some("jane")));
    }

    #[test]
    fn other_requests_are_no_bulk_requests() {
        for path in
            ["/", "/_search", "/_bulk/", "/books/_bulk/stream", "/books/_doc/_bulk_", "/_bulkx?/_bulk", "/x_bulk"]
        {
            assert!(head(path, &[]).is_none(), "{path}");
        }
        assert!(Head::read(vec![(":method".into(), b"GET".to_vec()), (":path".into(), b"/_bulk".to_vec())]).is_none());
        assert!(Head::read(vec![]).is_none());
    }

    #[test]
    fn what_is_not_vouched_for_has_a_reason() {
        for path in ["/books/_doc/_bulk", "//_bulk", "/a%2Cb/_bulk", "/a+b/_bulk"] {
            assert_eq!(reason(path, &[]), PassThrough::Path, "{path}");
        }
        for query in [
            "pipeline=p",
            "filter_path=errors",
            "pretty",
            "unknown=1",
            "require_alias=true",
            "routing=",
            "routing=a&routing=b",
            "timeout=1%6d",
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
    fn a_compressed_body_makes_no_other_caller() {
        let head = |headers| head("/_bulk", headers).unwrap().unwrap();
        let (plain, gzip) = (head(&[]), head(&[("content-encoding", "GZIP")]));
        assert_eq!((plain.gzip, gzip.gzip, head(&[("content-encoding", "identity")]).gzip), (false, true, false));
        assert_eq!(plain.caller, gzip.caller);
    }

    #[test]
    fn media_types_as_clients_send_them() {
        for media_type in [
            "application/json",
            "Application/JSON; charset=UTF-8",
            "application/vnd.elasticsearch+x-ndjson; compatible-with=8",
        ] {
            assert!(head("/_bulk", &[("content-type", media_type)]).unwrap().is_ok(), "{media_type}");
        }
        for accept in ["*/*", "application/json, */*", "application/vnd.elasticsearch+json;compatible-with=9"] {
            assert!(head("/_bulk", &[("accept", accept)]).unwrap().is_ok(), "{accept}");
        }
    }
}
