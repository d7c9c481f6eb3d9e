//! Bodies compressed with gzip.

use std::io::{Read, Write};

use anyhow::{Context, Result};
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use hyper::HeaderMap;

pub use flate2::Compression;

/// Compresses a body.
pub fn gzip(plain: &[u8], level: Compression) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(plain)?;
    Ok(encoder.finish()?)
}

/// Returns a body, inflated if its `content-encoding` is gzip.
pub fn plain(headers: &HeaderMap, body: &[u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    match headers.get("content-encoding").is_some_and(|encoding| encoding == "gzip") {
        true => drop(GzDecoder::new(body).read_to_end(&mut plain).context("not gzip")?),
        false => plain.extend_from_slice(body),
    }
    Ok(plain)
}
