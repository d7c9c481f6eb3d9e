use std::io::Read;

use anyhow::{Context, Result};
use bytes::Bytes;
use flate2::read::GzDecoder;
use hyper::{HeaderMap, Method, Version};

use crate::received::Received;

/// A request that arrived at a fake node, read to its end.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The node's number.
    pub node: usize,
    /// The HTTP version.
    pub version: Version,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Recorded {
    /// Returns the path without the query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Returns whether this is a bulk request.
    pub fn is_bulk(&self) -> bool {
        matches!(self.method, Method::POST | Method::PUT) && self.path().ends_with("/_bulk")
    }

    /// Returns a header's value; `None` if it is missing or is not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body, inflated if its `content-encoding` is gzip.
    pub fn plain(&self) -> Result<Vec<u8>> {
        let mut plain = Vec::new();
        match self.header("content-encoding") {
            Some("gzip") => GzDecoder::new(self.body.as_ref()).read_to_end(&mut plain).context("not gzip")?,
            _ => self.body.as_ref().read_to_end(&mut plain)?,
        };
        Ok(plain)
    }

    /// Returns the operations of a bulk request.
    pub fn operations(&self) -> Result<Vec<Received>> {
        let default_index = self.path().strip_suffix("/_bulk").unwrap_or_default().trim_start_matches('/');
        Received::read_all(&self.plain()?, default_index)
    }
}
