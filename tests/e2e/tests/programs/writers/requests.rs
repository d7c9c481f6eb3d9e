use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use bulk_reshuffle_stack::Client;
use hyper::Request;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bulk_request::bulk_request;

/// The number of operations in a run.
pub const OPERATIONS: u64 = 600;

/// The number of operations in each request.
const IN_A_REQUEST: usize = 50;

/// The number of requests in flight, as of a writer with several workers.
const IN_FLIGHT: usize = 4;

/// Bulk requests, with the lines that a writer's source produces.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// The files of the writer's source that produce the lines.
    pub source: String,
    /// The path and the query.
    #[serde(default = "bulk")]
    path: String,
    #[serde(default = "ndjson")]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    gzip: bool,
    /// The lines of each operation, with placeholders: see [`filled`].
    lines: String,
    /// The lines of each operation from number 450 on, if they differ.
    lines_from_450: Option<String>,
}

fn bulk() -> String {
    "/_bulk".to_owned()
}

fn ndjson() -> BTreeMap<String, String> {
    BTreeMap::from([("content-type".to_owned(), "application/x-ndjson".to_owned())])
}

impl Requests {
    /// Sends all requests to a URL, and returns the answers in the order of the requests.
    pub async fn send(&self, client: &Client, url: &str) -> Result<Vec<Value>> {
        let firsts: Vec<u64> = (0..OPERATIONS).step_by(IN_A_REQUEST).collect();
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

    fn request(&self, url: &str, first: u64) -> Result<Request<bytes::Bytes>> {
        let lines: String = (first..OPERATIONS.min(first + IN_A_REQUEST as u64))
            .map(|n| match &self.lines_from_450 {
                Some(lines) if n >= 450 => filled(lines, n),
                _ => filled(&self.lines, n),
            })
            .collect::<Result<_>>()?;
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        bulk_request(&format!("{url}{}", self.path), headers, lines, self.gzip)
    }
}

/// Returns lines with the values of their placeholders: `<n>` is the operation's number, `<n+1>` and `<n-450>` are
/// others relative to it, and `<n:08x>` is the number in eight hexadecimal digits. `<entry>` is a log entry.
fn filled(lines: &str, n: u64) -> Result<String> {
    let mut filled = String::new();
    let mut parts = lines.split('<');
    filled += parts.next().unwrap_or_default();
    for part in parts {
        let (name, rest) = part.split_once('>').with_context(|| lines.to_owned())?;
        filled += &match name.split_at(1) {
            ("e", "ntry") => entry(n).to_string(),
            ("n", "") => n.to_string(),
            ("n", ":04x") => format!("{n:04x}"),
            ("n", ":08x") => format!("{n:08x}"),
            ("n", ":016x") => format!("{n:016x}"),
            ("n", offset) => n.checked_add_signed(offset.parse()?).context("a negative number")?.to_string(),
            _ => bail!("unknown placeholder {name}"),
        };
        filled += rest;
    }
    Ok(filled)
}

/// Returns a log entry.
fn entry(n: u64) -> Value {
    json!({
        "@timestamp": format!("2026-11-23T12:{:02}:{:02}.000Z", n / 60 % 60, n % 60),
        "message": format!("GET /books/{n} 200"), "host": {"name": format!("host-{}", n % 5)},
    })
}
