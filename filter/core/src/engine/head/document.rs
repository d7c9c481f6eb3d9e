use std::rc::Rc;

use super::bulk_head::{is_json, value};
use super::caller::Caller;
use crate::bulk::MAX_ACTION_LINE;
use crate::config::Config;
use crate::document::{Target, Write};
use crate::engine::command::Headers;
use crate::engine::pass_through::PassThrough;
use crate::routing::RoutingTable;

/// A request for a single document, which is handled as a bulk request of one operation.
#[derive(Debug)]
pub struct Document {
    /// The operation.
    pub write: Write,
    /// The hash of what decides whether it is likely to be refused: the caller, the index and the action.
    pub writer: u64,
    method: String,
    path: String,
    /// Whether the request itself has no content type.
    has_no_type: bool,
}

/// What a request's headers say, and the single document that it writes, unless it is a bulk request.
pub type WithDocument<H> = (H, Option<Box<Document>>);

impl Document {
    /// Returns whether a request writes a single document, and such requests join batches.
    pub fn is_in(headers: &[(String, Vec<u8>)], config: &Config, table: Option<&RoutingTable>) -> bool {
        let path = value(headers, ":path").unwrap_or_default();
        // A quick check for most requests.
        if path.ends_with(b"_bulk") {
            return false;
        }
        let method = value(headers, ":method").unwrap_or_default();
        Self::joins(path, config, table)
            && std::str::from_utf8(path).is_ok_and(|path| Target::read(method, path).is_some())
    }

    /// Returns whether a request with this path joins batches if it writes a single document: by the settings of its
    /// index.
    pub fn joins(path: &[u8], config: &Config, table: Option<&RoutingTable>) -> bool {
        let Some(index) = Target::index_in(path) else { return false };
        let target = table.and_then(|table| table.write_target(&index).ok());
        let own = target.and_then(|target| target.overrides().single_documents);
        own.unwrap_or_else(|| config.single_documents(&index))
    }

    /// Reads the headers of a request that writes a single document, and changes them to those of a bulk request.
    pub fn read(headers: &mut Vec<(String, Vec<u8>)>) -> Result<Self, PassThrough> {
        let text = |name| value(headers, name).and_then(|value| String::from_utf8(value.to_vec()).ok());
        let (method, path) = text(":method").zip(text(":path")).ok_or(PassThrough::Path)?;
        let target = Target::read(method.as_bytes(), &path).ok_or(PassThrough::Path)??;
        let write = target.into_write()?;
        if write.line.len() > MAX_ACTION_LINE as usize {
            return Err(PassThrough::ActionLine);
        }
        let has_no_type = value(headers, "content-type").is_none();
        if !is_json(headers) && (write.action.has_source() || !has_no_type) {
            return Err(PassThrough::ContentType);
        }
        if has_no_type {
            // A request without a body needs no type, but a batch does: with the version that the client accepts.
            let accepted = text("accept").filter(|accepted| accepted.contains("compatible-with"));
            let first = accepted.as_deref().and_then(|accepted| accepted.split(',').next());
            let content_type = first.unwrap_or("application/json").to_owned();
            headers.push(("content-type".to_owned(), content_type.into_bytes()));
        }
        for (name, value) in headers.iter_mut() {
            match name.as_str() {
                ":method" => *value = b"POST".to_vec(),
                ":path" if write.query.is_empty() => *value = b"/_bulk".to_vec(),
                ":path" => *value = format!("/_bulk?{}", write.query).into_bytes(),
                _ => {}
            }
        }
        Ok(Self { write, writer: 0, method, path, has_no_type })
    }

    /// Returns about how many bytes it uses.
    pub fn memory(&self) -> u64 {
        let Write { index, line, query, routing, .. } = &self.write;
        let routing = routing.as_ref().map_or(0, String::len);
        let texts = [index.len(), line.len(), query.len(), routing, self.method.len(), self.path.len()];
        texts.into_iter().fold(size_of::<Self>(), usize::saturating_add) as u64
    }

    /// Takes the action line out, with which the body begins.
    pub fn take_line(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.write.line)
    }

    /// Returns the headers of the request itself, given those of its batches.
    pub fn headers(&self, caller: &Caller) -> Headers {
        let own = |(name, value): &(String, String)| match name.as_str() {
            ":method" => Some((name.clone(), self.method.clone())),
            ":path" => Some((name.clone(), self.path.clone())),
            "content-type" if self.has_no_type => None,
            _ => Some((name.clone(), value.clone())),
        };
        Rc::from_iter(caller.iter().filter_map(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pairs<'a> = &'a [(&'a str, &'a str)];

    fn read(headers: Pairs<'_>) -> Result<(Document, Vec<(String, String)>), PassThrough> {
        let mut headers =
            headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect::<Vec<_>>();
        let document = Document::read(&mut headers)?;
        let text = |(name, value): (String, Vec<u8>)| (name, String::from_utf8(value).unwrap());
        Ok((document, headers.into_iter().map(text).collect()))
    }

    #[test]
    fn the_headers_become_those_of_a_bulk_request_and_back() {
        let own: &[(Pairs<'_>, Pairs<'_>)] = &[
            (
                &[(":method", "PUT"), (":path", "/a/_doc/1?routing=x&refresh"), ("content-type", "application/json")],
                &[(":method", "POST"), (":path", "/_bulk?refresh"), ("content-type", "application/json")],
            ),
            (
                &[(":method", "DELETE"), (":path", "/a/_doc/1"), ("accept", "*/*")],
                &[(":method", "POST"), (":path", "/_bulk"), ("accept", "*/*"), ("content-type", "application/json")],
            ),
            (
                &[
                    (":method", "DELETE"),
                    (":path", "/a/_doc/1"),
                    ("accept", "application/vnd.elasticsearch+json; compatible-with=9,text/plain"),
                ],
                &[
                    (":method", "POST"),
                    (":path", "/_bulk"),
                    ("accept", "application/vnd.elasticsearch+json; compatible-with=9,text/plain"),
                    ("content-type", "application/vnd.elasticsearch+json; compatible-with=9"),
                ],
            ),
        ];
        for (own, of_bulk) in own {
            let owned = |pairs: Pairs<'_>| {
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
            };
            let (document, changed) = read(own).unwrap();
            assert_eq!(changed, owned(of_bulk));
            assert_eq!(document.headers(&changed.into()).to_vec(), owned(own));
        }
    }

    #[test]
    fn a_body_that_is_not_json_has_a_reason() {
        let with = |method, content_type| {
            let path = (":path", "/a/_doc/1");
            read(&[(":method", method), path, ("content-type", content_type)]).map(|_| ())
        };
        for content_type in ["application/json; charset=utf-8", "application/vnd.elasticsearch+json;compatible-with=8"]
        {
            assert_eq!(with("PUT", content_type), Ok(()));
        }
        for content_type in ["application/x-ndjson", "application/yaml", "text/plain", ""] {
            assert_eq!(with("PUT", content_type), Err(PassThrough::ContentType));
            assert_eq!(with("DELETE", content_type), Err(PassThrough::ContentType));
        }
        assert_eq!(read(&[(":method", "PUT"), (":path", "/a/_doc/1")]).unwrap_err(), PassThrough::ContentType);
    }
}
