use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::load::Ledger;
use bulk_reshuffle_stack::{Client, Response};
use serde_json::Value;

use crate::noticed::{Failure, Request};
use crate::work::Work;

const OPERATIONS: u64 = 20;

/// A writer gives up later than Envoy.
const PATIENCE: Duration = Duration::from_secs(200);

/// How long a writer waits after all its servers have refused a connection.
const AFTER_REFUSAL: Duration = Duration::from_millis(20);

/// A client that writes new documents, one request after the other. It has connections of its own.
pub struct Writer {
    client: Client,
    /// The URLs of its servers, which it uses in turn.
    urls: Vec<String>,
    work: Work,
    index: String,
    /// Distinguishes the writers of an index.
    number: usize,
    period: Duration,
    /// The number of documents that it has sent.
    sent: u64,
    requests: Vec<Request>,
    ledger: Ledger,
}

/// An operation with its id, if it has one, and the number of its document.
type Operation = (Option<String>, u64);

impl Writer {
    pub fn new(urls: Vec<String>, work: Work, index: String, number: usize, period: Duration) -> Self {
        let (client, ledger) = (Client::sequential().with_timeout(PATIENCE), Ledger::default());
        Self { client, urls, work, index, number, period, sent: 0, requests: Vec::new(), ledger }
    }

    /// Returns what it has sent and what it was told.
    pub fn into_parts(self) -> (Vec<Request>, Ledger) {
        (self.requests, self.ledger)
    }

    /// Sends the next request, and waits until another one is due.
    pub async fn write(mut self) -> Result<Self> {
        let operations = self.next();
        let lines = operations.iter().map(|(id, number)| self.work.lines(&self.index, id.as_deref(), *number));
        let (body, begun): (String, _) = (lines.collect(), Instant::now());
        let answer = self.send(&body).await;
        let took = begun.elapsed();
        let failed = match answer {
            Ok(answer) if answer.status == 200 => self.read(operations, &answer.json()?)?,
            Ok(answer) => self.fail(format!("status {}", answer.status.as_u16()), operations),
            Err(error) if took < PATIENCE => self.fail(kind_of(&error), operations),
            Err(error) => return Err(error),
        };
        self.requests.push(Request { took, ended: begun + took, failed });
        tokio::time::sleep(self.period.saturating_sub(took)).await;
        Ok(self)
    }

    fn next(&mut self) -> Vec<Operation> {
        let numbers = self.sent..self.sent + OPERATIONS;
        self.sent = numbers.end;
        let base = (self.number as u64) << 32;
        numbers.map(|n| (self.work.id(self.number, base + n), base + n)).collect()
    }

    /// Sends a request to the next server, or to another one if that refuses the connection: as clients do, because
    /// nothing was sent. If all refuse, it begins again after a while.
    async fn send(&mut self, body: &str) -> Result<Response> {
        let begun = Instant::now();
        loop {
            for _ in 0..self.urls.len() {
                self.urls.rotate_left(1);
                match self.client.post_ndjson(&self.urls[0], body.to_owned()).await {
                    Err(error) if is_refused(&error) && begun.elapsed() < PATIENCE => {}
                    answer => return answer,
                }
            }
            tokio::time::sleep(AFTER_REFUSAL).await;
        }
    }

    /// Records the items of an answer.
    fn read(&mut self, operations: Vec<Operation>, answer: &Value) -> Result<Option<Failure>> {
        let items = answer["items"].as_array().context("no items")?;
        ensure!(items.len() == operations.len(), "{} items for {} operations", items.len(), operations.len());
        let mut failed: Option<Failure> = None;
        for ((id, number), item) in operations.into_iter().zip(items) {
            let item = &item[self.work.action()];
            match item["status"].as_u64().with_context(|| format!("no status in {item}"))? {
                // A batch that is sent again may replace what it has written before: such items have the status 200.
                201 | 200 => self.ledger.is(item["_id"].as_str().context("no id")?, Some(number)),
                status => {
                    self.ledger.may_be(id.as_deref(), Some(number));
                    failed.get_or_insert(Failure { kind: format!("item {status}"), operations: 0 }).operations += 1;
                }
            }
        }
        Ok(failed)
    }

    /// Records that the outcome of all operations is unknown.
    fn fail(&mut self, kind: String, operations: Vec<Operation>) -> Option<Failure> {
        let count = operations.len();
        operations.into_iter().for_each(|(id, number)| self.ledger.may_be(id.as_deref(), Some(number)));
        Some(Failure { kind, operations: count })
    }
}

fn is_refused(error: &anyhow::Error) -> bool {
    has_kind(error, &[io::ErrorKind::ConnectionRefused])
}

/// Returns the kind of an error without an answer.
fn kind_of(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let is_lost = has_kind(error, &[io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe])
        || text.contains("connection closed before message completed");
    if is_lost { "connection lost".to_owned() } else { text }
}

fn has_kind(error: &anyhow::Error, kinds: &[io::ErrorKind]) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.map(io::Error::kind).any(|kind| kinds.contains(&kind))
}
