use std::io::Write;

use anyhow::{Result, ensure};
use bulk_reshuffle_stack::Client;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::Request;
use serde_json::Value;

/// The number of requests in flight, as of a writer with several workers.
const IN_FLIGHT: usize = 4;

/// Bulk requests, with the lines that a writer's source produces.
#[derive(Debug, Clone, Copy)]
pub struct Requests {
    /// The path and the query.
    pub path: &'static str,
    pub headers: &'static [(&'static str, &'static str)],
    pub gzip: bool,
    /// The lines of each operation, by its number.
    pub lines: fn(u64) -> String,
    pub operations: u64,
    pub in_a_request: u64,
}

/// Requests of 50 operations, 600 in total.
pub const REQUESTS: Requests = Requests {
    path: "/_bulk",
    headers: &[("content-type", "application/x-ndjson")],
    gzip: false,
    lines: |_| String::new(),
    operations: 600,
    in_a_request: 50,
};

impl Requests {
    /// Sends all requests to a URL, and returns the answers in the order of the requests.
    pub async fn send(&self, client: &Client, url: &str) -> Result<Vec<Value>> {
        let firsts: Vec<u64> = (0..self.operations).step_by(usize::try_from(self.in_a_request)?).collect();
        let mut answers = Vec::new();
        for wave in firsts.chunks(IN_FLIGHT) {
            let mut sent = Vec::new();
            for first in wave {
                let (client, request) = (client.clone(), self.request(url, *first)?);
                sent.push(tokio::spawn(async move { client.send(request).await }));
            }
            for answer in sent {
                answers.push(answer.await??.ok()?.json()?);
            }
        }
        ensure!(!answers.is_empty(), "no request was sent");
        Ok(answers)
    }

    fn request(&self, url: &str, first: u64) -> Result<Request<Bytes>> {
        let lines: String = (first..self.operations.min(first + self.in_a_request)).map(self.lines).collect();
        let mut request = Request::post(format!("{url}{}", self.path));
        for (name, value) in self.headers {
            request = request.header(*name, *value);
        }
        if !self.gzip {
            return Ok(request.body(lines.into())?);
        }
        let mut body = GzEncoder::new(Vec::new(), Compression::fast());
        body.write_all(lines.as_bytes())?;
        Ok(request.header("content-encoding", "gzip").body(body.finish()?.into())?)
    }
}
