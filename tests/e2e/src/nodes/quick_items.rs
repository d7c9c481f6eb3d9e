use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::Response;

use super::{Reaction, Recorded};

/// Answers like those of [`Items`](crate::Items), but without parsing JSON: for batches of a million operations.
///
/// The items have all fields of a real cluster's: those of Elasticsearch 7 and OpenSearch 1, which are the longest.
/// Their `_seq_no` counts the operations of all batches in the order of arrival. Action lines must be compact JSON.
#[derive(Debug, Clone, Default)]
pub struct QuickItems {
    arrived: Arc<AtomicU64>,
    error: Option<(u16, Arc<str>)>,
    reversed: bool,
}

/// An item as a client reads it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuickItem<'a> {
    /// The document's id, with JSON's escapes.
    pub id: &'a str,
    /// The operation's place in the order of arrival, unless the item is an error.
    pub number: Option<u64>,
    pub status: u16,
}

impl QuickItems {
    /// Makes every item an error of this status with a reason of this many bytes.
    pub fn errors(self, status: u16, bytes: usize) -> Self {
        Self { error: Some((status, "e".repeat(bytes).into())), ..self }
    }

    pub fn reversed(self) -> Self {
        Self { reversed: true, ..self }
    }

    pub fn answer(&self, batch: &Recorded) -> Result<Reaction> {
        let index = batch.path().strip_suffix("/_bulk").unwrap_or_default().trim_start_matches('/');
        let plain = batch.plain()?;
        let actions = action_lines(std::str::from_utf8(&plain)?).collect::<Vec<_>>();
        let first = self.arrived.fetch_add(actions.len() as u64, Ordering::Relaxed);
        let mut numbered: Vec<(u64, &str)> = (first..).zip(actions).collect();
        if self.reversed {
            numbered.reverse();
        }
        let mut body = Vec::with_capacity(numbered.len() * 192);
        write!(body, r#"{{"took":12,"errors":{},"items":["#, self.error.is_some())?;
        for (position, (number, line)) in numbered.into_iter().enumerate() {
            if position > 0 {
                body.push(b',');
            }
            self.write_item(&mut body, line, index, number)?;
        }
        body.extend_from_slice(b"]}");
        Ok(Reaction::raw(body))
    }

    fn write_item(&self, body: &mut Vec<u8>, line: &str, default_index: &str, number: u64) -> Result<()> {
        let action = action(line)?;
        let index = text(line, r#""_index":""#).unwrap_or(default_index);
        write!(body, r#"{{"{action}":{{"_index":"{index}","_type":"_doc","_id":""#)?;
        match text(line, r#""_id":""#) {
            Some(id) => body.extend_from_slice(id.as_bytes()),
            None => write!(body, "generated-{number}")?,
        }
        if let Some((status, reason)) = &self.error {
            write!(body, r#"","status":{status},"error":{{"type":"scripted_exception","reason":"{reason}"}}}}}}"#)?;
            return Ok(());
        }
        let (result, status) = match action {
            "delete" => ("deleted", 200),
            "update" => ("updated", 200),
            _ => ("created", 201),
        };
        write!(
            body,
            r#"","_version":1,"result":"{result}","_shards":{{"total":2,"successful":1,"failed":0}},"_seq_no":{number},"_primary_term":1,"status":{status}}}}}"#
        )?;
        Ok(())
    }

    /// Reads the items of a client's answer, which must be 200.
    pub fn read(response: &Response) -> Result<Vec<QuickItem<'_>>> {
        let text = std::str::from_utf8(&response.body)?;
        ensure!(response.status == 200, "{}: {}", response.status, text.get(..200).unwrap_or(text));
        text.split(r#""_id":""#).skip(1).map(QuickItem::read).collect()
    }
}

impl<'a> QuickItem<'a> {
    /// Reads an item from the text after `"_id":"`.
    fn read(rest: &'a str) -> Result<Self> {
        let id = until_quote(rest).context("an id without an end")?;
        let status = number(rest, r#""status":"#).with_context(|| format!("no status for {id}"))?;
        Ok(Self { id, number: number(rest, r#""_seq_no":"#), status: u16::try_from(status)? })
    }
}

fn action_lines(body: &str) -> impl Iterator<Item = &str> {
    let mut lines = body.split('\n').filter(|line| !line.is_empty());
    std::iter::from_fn(move || {
        let line = lines.next()?;
        if !line.starts_with(r#"{"delete""#) {
            lines.next();
        }
        Some(line)
    })
}

fn action(line: &str) -> Result<&str> {
    let action = line.strip_prefix("{\"").and_then(|rest| rest.split('"').next());
    action.with_context(|| format!("not an action line: {line}"))
}

fn text<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let start = line.find(key)?.checked_add(key.len())?;
    until_quote(line.get(start..)?)
}

/// Returns the text before the first quote that is not escaped.
fn until_quote(text: &str) -> Option<&str> {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })?;
    text.get(..end)
}

fn number(text: &str, key: &str) -> Option<u64> {
    let (_, rest) = text.split_once(key)?;
    rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}
