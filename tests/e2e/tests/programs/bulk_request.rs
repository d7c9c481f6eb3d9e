use std::io::Write;

use anyhow::Result;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::Request;

/// Returns a bulk request with these lines, compressed or not.
pub fn bulk_request<'a>(
    url: &str,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    lines: String,
    gzip: bool,
) -> Result<Request<Bytes>> {
    let mut request = Request::post(url);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    if !gzip {
        return Ok(request.body(lines.into())?);
    }
    let mut body = GzEncoder::new(Vec::new(), Compression::fast());
    body.write_all(lines.as_bytes())?;
    Ok(request.header("content-encoding", "gzip").body(body.finish()?.into())?)
}
