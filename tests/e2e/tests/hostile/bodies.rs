//! Requests of hostile clients.

use std::fmt::Write as _;

use anyhow::Result;
use bulk_reshuffle_e2e::gzip::{Compression, gzip};
use bytes::Bytes;

pub const MIB: usize = 1 << 20;

/// A body of operations, and their ids.
#[derive(Debug, Clone)]
pub struct Operations {
    pub body: Bytes,
    pub ids: Ids,
}

/// The ids of operations, with JSON's escapes.
#[derive(Debug, Clone)]
pub struct Ids {
    /// The ids, which repeat in this order.
    cycle: Vec<String>,
    /// The number of operations.
    pub number: usize,
}

impl Ids {
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.cycle.iter().map(String::as_str).cycle().take(self.number)
    }
}

impl Operations {
    /// Returns this many deletes, which cycle through these ids.
    pub fn deletes(number: usize, ids: impl IntoIterator<Item = String>) -> Self {
        Self::new(number, ids, |id| format!("{{\"delete\":{{\"_id\":\"{id}\"}}}}\n"))
    }

    /// Returns this many operations, which cycle through these ids.
    pub fn new(number: usize, ids: impl IntoIterator<Item = String>, line: impl Fn(&str) -> String) -> Self {
        let cycle: Vec<String> = ids.into_iter().collect();
        let lines: Vec<String> = cycle.iter().map(|id| line(id)).collect();
        let body: Vec<u8> = lines.iter().cycle().take(number).flat_map(|line| line.bytes()).collect();
        Self { body: body.into(), ids: Ids { cycle, number } }
    }

    /// Returns deletes of ten documents with the shortest ids, with a total of this many bytes.
    pub fn tiny_deletes(bytes: usize) -> Self {
        /// The length of `{"delete":{"_id":"0"}}` and a line break.
        const LINE: usize = 23;
        Self::deletes(bytes / LINE, (0..10).map(|id| id.to_string()))
    }

    /// Returns documents of about this many bytes each.
    pub fn documents(number: usize, bytes: usize) -> Self {
        let text = "x".repeat(bytes);
        let ids = (0..number).map(|id| id.to_string());
        Self::new(number, ids, |id| format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{{\"text\":\"{text}\"}}\n"))
    }

    pub fn gzip(&self) -> Result<Bytes> {
        Ok(gzip(&self.body, Compression::best())?.into())
    }
}

/// Returns this many bytes of headers that are different for each number.
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
