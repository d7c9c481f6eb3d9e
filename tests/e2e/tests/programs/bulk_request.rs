use anyhow::Result;
use bulk_reshuffle_e2e::gzip::{Compression, gzip};
use bytes::Bytes;
use hyper::Request;

/// Returns a bulk request with these lines, compressed or not.
pub fn bulk_request<'a>(
    url: &str,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    lines: String,
    is_compressed: bool,
) -> Result<Request<Bytes>> {
    let mut headers: Vec<_> = headers.into_iter().collect();
    if !is_compressed {
        return bulk_reshuffle_e2e::bulk_request(url, &headers, lines);
    }
    headers.push(("content-encoding", "gzip"));
    bulk_reshuffle_e2e::bulk_request(url, &headers, gzip(lines.as_bytes(), Compression::fast())?)
}
