use std::fmt;
use std::io::Write;

use anyhow::Result;
use bulk_reshuffle_e2e::gzip::{Compression, gzip};
use bulk_reshuffle_stack::Response;
use bytes::Bytes;
use fastrand::Rng;
use flate2::write::ZlibEncoder;
use hyper::Request as HttpRequest;
use tokio::task::JoinHandle;

use super::chance::Chance;
use super::operation::{Author, Body, Manner};
use super::single::Single;
use super::style::Style;
use super::template::{Numbers, Side, render};
use crate::shared_scene::SharedScene;

/// A request that is sent to both sides.
#[derive(Debug, Clone)]
pub struct Request {
    pub style: Style,
    pub body: Body,
    /// Whether it is a request for the single document of its only operation, and the choice of its form.
    single: Option<usize>,
    /// The node that gets the request directly.
    pub node: usize,
    encoding: Encoding,
    /// The sizes of the body's pieces, repeated in a cycle. If empty, the body is sent in one piece.
    pieces: Vec<usize>,
}

/// The percentage of requests for single documents.
const SINGLE: u32 = 33;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    Gzip,
    Deflate,
}

impl Request {
    pub fn random(rng: &mut Rng, style: &Style, manner: Manner, author: &mut Author, node: usize) -> Self {
        let encoding = match rng.usize(0..40) {
            0..4 => Encoding::Gzip,
            4 if manner == Manner::Special => Encoding::Deflate,
            _ => Encoding::Plain,
        };
        let pieces = match rng.percent(15) {
            true => (0..rng.usize(1..4)).map(|_| rng.one_of(&[1, 7, 100, 1_000, 16_384]) + rng.usize(0..7)).collect(),
            false => Vec::new(),
        };
        if rng.percent(SINGLE) {
            let body = author.operation_alone(rng, manner, style);
            return Self { style: style.clone(), body, single: Some(rng.usize(..)), node, encoding, pieces };
        }
        Self { style: style.clone(), body: author.body(rng, manner, style), single: None, node, encoding, pieces }
    }

    /// Returns whether the request names the index `late`.
    pub fn names_late(&self) -> bool {
        self.to_string().contains("late")
    }

    /// Sends the request to one side, in a new task.
    pub fn send(&self, scene: &SharedScene, side: Side, numbers: &Numbers) -> JoinHandle<Result<Response>> {
        let request = self.for_side(scene, side, numbers).unwrap();
        let client = scene.client.clone();
        let chunked = !self.pieces.is_empty();
        tokio::spawn(async move {
            match chunked {
                true => client.send_chunked(request).await,
                false => client.send(request.map(|mut pieces| pieces.pop().unwrap_or_default())).await,
            }
        })
    }

    fn for_side(&self, scene: &SharedScene, side: Side, numbers: &Numbers) -> Result<HttpRequest<Vec<Bytes>>> {
        let text = |template: &[u8]| render(template, side, &self.body.documents, numbers);
        let (mut method, mut body) = (self.style.method, text(&self.body.template));
        let mut path = String::from_utf8(text(self.style.path_and_query().as_bytes()))?;
        if let Some(choice) = self.single {
            let of_bulk = String::from_utf8(text(self.style.path.as_bytes()))?;
            let single = Single::of(&body, &self.style, &of_bulk, choice);
            (method, path, body) = (single.method, single.path_and_query, single.body);
        }
        let url = match side {
            Side::Direct => scene.direct(self.node, &path),
            Side::Filtered => scene.envoy.url(&path),
        };
        let mut request = HttpRequest::builder().method(method).uri(url);
        for (name, value) in &self.style.headers {
            let value = if self.single.is_some() { value.replace("x-ndjson", "json") } else { value.clone() };
            request = match self.single.is_some() && *name == "content-type" && body.is_empty() {
                true => request,
                false => request.header(*name, value.as_bytes()),
            };
        }
        let (encoding, body) = if body.is_empty() { (None, body) } else { self.encoding.encode(body)? };
        if let Some(encoding) = encoding {
            request = request.header("content-encoding", encoding);
        }
        let body = match self.pieces.as_slice() {
            [] => vec![Bytes::from(body)],
            sizes => pieces(&body, sizes),
        };
        Ok(request.body(body)?)
    }
}

impl Encoding {
    fn encode(self, plain: Vec<u8>) -> Result<(Option<&'static str>, Vec<u8>)> {
        Ok(match self {
            Self::Plain => (None, plain),
            Self::Gzip => (Some("gzip"), gzip(&plain, Compression::fast())?),
            Self::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(&plain)?;
                (Some("deflate"), encoder.finish()?)
            }
        })
    }
}

fn pieces(mut body: &[u8], sizes: &[usize]) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        if body.is_empty() {
            break;
        }
        // Limit the number of pieces to what a busy machine can handle.
        let (piece, rest) = body.split_at((*size).max(sizes.len() * body.len() / 500).clamp(1, body.len()));
        pieces.push(Bytes::copy_from_slice(piece));
        body = rest;
    }
    pieces
}

impl fmt::Display for Request {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { style, body, single, node, encoding, pieces } = self;
        let (method, path) = (style.method, style.path_and_query());
        writeln!(to, "{method} {path} to node {node}, {encoding:?}, pieces of {pieces:?}, single: {single:?}")?;
        for (name, value) in &style.headers {
            writeln!(to, "{name}: {value}")?;
        }
        let text = body.template.escape_ascii().to_string().replace("\\n", "\n").replace("\\\"", "\"");
        // Shorten long values.
        write!(to, "\n{}", text.replace(&"x".repeat(100), ""))?;
        body.documents.iter().enumerate().try_for_each(|(number, document)| write!(to, "\n~{number}~: {document:?}"))
    }
}
