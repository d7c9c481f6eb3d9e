use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::bulk::Action;

/// The document that a request writes, by its method and its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target<'a> {
    /// The action, unless the query has an `op_type`.
    pub action: Action,
    /// Whether the path itself demands `create`.
    pub is_create_path: bool,
    /// The index, alias or data stream.
    pub index: Cow<'a, str>,
    /// The document's id, if the path has one.
    pub id: Option<Cow<'a, str>>,
    /// The query, without its question mark.
    pub query: &'a str,
}

/// The error for a path that clusters may read in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the path may mean something else to some clusters")]
pub struct PathError;

impl<'a> Target<'a> {
    /// Returns whether a request may write a single document, judging by its path. A quick check before all headers are
    /// read.
    pub fn may_be_in(path: &[u8]) -> bool {
        let mut parts = path.split(|byte| *byte == b'/').skip(2);
        parts.next().is_some_and(|part| {
            let name = part.split(|byte| *byte == b'?').next().unwrap_or_default();
            matches!(name, b"_doc" | b"_create" | b"_update")
        })
    }

    /// Reads the method and the path of a request. Returns `None` if it does not write a single document.
    ///
    /// | method | path | action |
    /// |---|---|---|
    /// | `PUT`, `POST` | `/{index}/_doc/{id}` | `index` |
    /// | `POST` | `/{index}/_doc` | `create` |
    /// | `PUT`, `POST` | `/{index}/_create/{id}` | `create` |
    /// | `DELETE` | `/{index}/_doc/{id}` | `delete` |
    /// | `POST` | `/{index}/_update/{id}` | `update` |
    pub fn read(method: &[u8], path: &'a str) -> Option<Result<Self, PathError>> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut parts = path.strip_prefix('/')?.split('/');
        let (index, name, id) = (parts.next()?, parts.next()?, parts.next());
        let action = match (method, name, id) {
            (b"PUT" | b"POST", "_doc", Some(_)) => Action::Index,
            (b"POST", "_doc", None) | (b"PUT" | b"POST", "_create", Some(_)) => Action::Create,
            (b"DELETE", "_doc", Some(_)) => Action::Delete,
            (b"POST", "_update", Some(_)) => Action::Update,
            _ => return None,
        };
        let is_longer = parts.next().is_some();
        Some(Self::named(index, id).filter(|_| !is_longer).ok_or(PathError).map(|(index, id)| Self {
            action,
            is_create_path: name == "_create",
            index,
            id,
            query,
        }))
    }

    /// Returns the index in the path of a request that may write a single document; an empty text if it cannot be read.
    pub fn index_in(path: &[u8]) -> Option<Cow<'_, str>> {
        let index = path.split(|byte| *byte == b'/').nth(1).filter(|_| Self::may_be_in(path))?;
        Some(std::str::from_utf8(index).ok().and_then(decoded).unwrap_or_default())
    }

    /// Decodes the names of an index and of a document. A list of indices, or a pattern, is not accepted.
    /// Elasticsearch 7 has requests of its own at paths such as `/{index}/_doc/_mapping`.
    fn named(index: &'a str, id: Option<&'a str>) -> Option<(Cow<'a, str>, Option<Cow<'a, str>>)> {
        let index = decoded(index).filter(|index| !index.is_empty() && !index.contains([',', '*']))?;
        let id = match id {
            Some(id) => Some(decoded(id).filter(|id| !id.is_empty() && !id.starts_with('_'))?),
            None => None,
        };
        Some((index, id))
    }
}

/// Decodes the percent-encoded characters of a text. A plus sign stays. Returns `None` if the text is malformed, or has
/// characters that should be encoded: clusters read each of their bytes as a character.
pub fn decoded(text: &str) -> Option<Cow<'_, str>> {
    let is_code = |code: &str| code.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if !text.is_ascii() || !text.split('%').skip(1).all(is_code) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(method: &str, path: &'a str) -> Option<Result<Target<'a>, PathError>> {
        let target = Target::read(method.as_bytes(), path);
        assert!(target.is_none() || Target::may_be_in(path.as_bytes()), "{path}");
        target
    }

    #[test]
    fn reads_the_action_and_the_names() {
        for (method, path, action, id) in [
            ("PUT", "/books/_doc/1", Action::Index, Some("1")),
            ("POST", "/books/_doc/1?routing=a", Action::Index, Some("1")),
            ("POST", "/books/_doc", Action::Create, None),
            ("POST", "/books/_doc?refresh", Action::Create, None),
            ("PUT", "/books/_create/1", Action::Create, Some("1")),
            ("POST", "/books/_create/1", Action::Create, Some("1")),
            ("DELETE", "/books/_doc/1", Action::Delete, Some("1")),
            ("POST", "/books/_update/1", Action::Update, Some("1")),
            ("PUT", "/b%6foks/_doc/a%2Fb%20+c%C3%A9", Action::Index, Some("a/b +cé")),
            ("PUT", "/books/_doc/a,*", Action::Index, Some("a,*")),
        ] {
            let target = read(method, path).unwrap().unwrap();
            assert_eq!((target.action, target.index.as_ref()), (action, "books"), "{method} {path}");
            assert_eq!(target.id.as_deref(), id, "{method} {path}");
            assert_eq!(target.query, path.split_once('?').map_or("", |(_, query)| query));
        }
    }

    #[test]
    fn other_requests_write_no_single_document() {
        for (method, path) in [
            ("GET", "/books/_doc/1"),
            ("HEAD", "/books/_doc/1"),
            ("PUT", "/books/_doc"),
            ("DELETE", "/books/_doc"),
            ("DELETE", "/books/_create/1"),
            ("POST", "/books/_create"),
            ("PUT", "/books/_update/1"),
            ("DELETE", "/books/_update/1"),
            ("POST", "/books/_update"),
            ("POST", "/books/_update_by_query"),
            ("POST", "/books/_search"),
            ("POST", "/_bulk"),
            ("POST", "/books/_bulk"),
            ("PUT", "/books/type/1"),
            ("PUT", "/books/%5Fdoc/1"),
            ("POST", "/books/_docs"),
            ("PUT", "books/_doc/1"),
            ("PUT", ""),
        ] {
            assert_eq!(read(method, path), None, "{method} {path}");
        }
    }

    #[test]
    fn ambiguous_paths_have_an_error() {
        for path in [
            "/books/_doc/",
            "/books/_doc/1/",
            "/books/_doc/1/_create",
            "/books/_doc/_mapping",
            "/books/_doc/%5Fmapping",
            "/books/_doc/a%2",
            "/books/_doc/a%zz",
            "/books/_doc/a%FF",
            "/books/_doc/é",
            "/bücher/_doc/1",
            "//_doc/1",
            "/a,b/_doc/1",
            "/a%2Cb/_doc/1",
            "/a*/_doc/1",
        ] {
            assert_eq!(read("PUT", path), Some(Err(PathError)), "{path}");
        }
    }
}
