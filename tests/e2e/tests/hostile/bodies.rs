//! What hostile clients send.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Result;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

pub const MIB: usize = 1 << 20;

/// Lines of operations, and the ids in them.
#[derive(Debug, Clone)]
pub struct Operations {
    pub body: Bytes,
    pub ids: Ids,
}

/// The ids of operations, with JSON's escapes.
#[derive(Debug, Clone)]
pub struct Ids {
    /// They come again and again, in this order.
    cycle: Vec<String>,
    /// How many there are.
    pub number: usize,
}

impl Ids {
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.cycle.iter().map(String::as_str).cycle().take(self.number)
    }
}

impl Operations {
    /// So many deletes of these ids, in turn.
    pub fn deletes(number: usize, ids: impl IntoIterator<Item = String>) -> Self {
        Self::new(number, ids, |id| format!("{{\"delete\":{{\"_id\":\"{id}\"}}}}\n"))
    }

    /// So many lines for these ids, in turn.
    pub fn new(number: usize, ids: impl IntoIterator<Item = String>, line: impl Fn(&str) -> String) -> Self {
        let cycle: Vec<String> = ids.into_iter().collect();
        let lines: Vec<String> = cycle.iter().map(|id| line(id)).collect();
        let body: Vec<u8> = lines.iter().cycle().take(number).flat_map(|line| line.bytes()).collect();
        Self { body: body.into(), ids: Ids { cycle, number } }
    }

    /// Deletes of ten documents with the shortest ids, of this many bytes.
    pub fn tiny_deletes(bytes: usize) -> Self {
        /// `{"delete":{"_id":"0"}}`, and the line's end.
        const LINE: usize = 23;
        Self::deletes(bytes / LINE, (0..10).map(|id| id.to_string()))
    }

    /// Documents of about so many bytes each.
    pub fn documents(number: usize, bytes: usize) -> Self {
        let text = "x".repeat(bytes);
        let ids = (0..number).map(|id| id.to_string());
        Self::new(number, ids, |id| format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{{\"text\":\"{text}\"}}\n"))
    }

    /// The body as gzip.
    pub fn gzip(&self) -> Result<Bytes> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&self.body)?;
        Ok(encoder.finish()?.into())
    }
}

/// So many documents without ids.
pub fn without_ids(number: usize) -> Bytes {
    "{\"index\":{}}\n{}\n".repeat(number).into()
}

/// So many bytes of headers that differ with the number.
pub fn large_headers(number: usize, bytes: usize) -> Vec<(String, String)> {
    const VALUE: usize = 4_000;
    let value = |header: usize| {
        let mut value = String::with_capacity(VALUE);
        write!(value, "{number}-{header}-").ok();
        value.extend(std::iter::repeat_n('h', VALUE.min(bytes).saturating_sub(value.len())));
        value
    };
    (0..bytes.div_ceil(VALUE)).map(|header| (format!("x-hostile-{header}"), value(header))).collect()
}
