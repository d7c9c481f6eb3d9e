use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bulk_reshuffle_stack::{Client, Response};
use fastrand::Rng;
use hyper::http::request::Builder;
use hyper::{Method, Request, StatusCode};
use serde_json::{Value, json};

use super::{Ledger, Tally};
use crate::bulk_request;

/// A client that sends one request after the other, and records the answers.
///
/// No other client writes its documents. It does not touch a document of unknown state again, because an operation in
/// flight may still be carried out at any time.
#[derive(Debug)]
pub struct Writer {
    name: String,
    url: String,
    client: Client,
    rng: Rng,
    /// The number of operations in a request.
    operations: RangeInclusive<usize>,
    bytes: usize,
    habit: Habit,
    /// The value of the header `authorization`.
    tenant: Option<String>,
    is_patient: bool,
    /// Whether each operation has a request of its own.
    is_single: bool,
    /// The least time between the starts of two requests.
    period: Duration,
    due: Option<Instant>,
    /// The number of the next document, which identifies the operation that wrote it.
    next: u64,
    /// The ids of documents that are known to exist.
    live: Vec<String>,
    ledger: Ledger,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Operations of all kinds, on new and old documents.
    Everything,
    /// Operations that may be carried out twice.
    Idempotent,
    /// New documents only, by `create`, with and without ids, as a data stream requires.
    Appending,
}

struct Operation {
    action: &'static str,
    /// The id, or `None` if the cluster generates it.
    id: Option<String>,
    number: u64,
    /// Whether the document existed before.
    is_old: bool,
}

impl Operation {
    /// Begins the request for this operation alone, given the URL of bulk requests.
    fn request(&self, url: &str, body: &str) -> Result<Builder> {
        let id = self.id.as_deref();
        let (method, path) = match (self.action, id) {
            ("delete", Some(id)) => (Method::DELETE, format!("/_doc/{id}")),
            ("update", Some(id)) => (Method::POST, format!("/_update/{id}")),
            ("create", Some(id)) => (Method::PUT, format!("/_create/{id}")),
            (_, Some(id)) => (Method::PUT, format!("/_doc/{id}")),
            (_, None) => (Method::POST, "/_doc".to_owned()),
        };
        let request = Request::builder().method(method).uri(url.replacen("/_bulk", &path, 1));
        Ok(if body.lines().count() > 1 { request.header("content-type", "application/json") } else { request })
    }

    /// Returns the answer to that request as the answer to a bulk request of this operation. A failure that is not the
    /// cluster's or the filter's stays as it is.
    fn as_item(&self, response: Response) -> Response {
        let Ok(mut fields) = response.json() else { return response };
        let status = response.status.as_u16();
        if fields.get("error").is_some() {
            fields = json!({"_id": self.id, "error": fields.get("error")});
        }
        let is_failed = fields.get("error").is_some();
        if let Some(fields) = fields.as_object_mut() {
            fields.insert("status".to_owned(), status.into());
        }
        let body = json!({"errors": is_failed, "items": [{self.action: fields}]}).to_string().into();
        Response { status: StatusCode::OK, body, ..response }
    }
}

enum Told {
    Done,
    NotDone,
    Unknown,
}

/// How often, and after what delay, a patient writer sends a request again.
const ATTEMPTS: usize = 20;
const PATIENCE: Duration = Duration::from_millis(250);

fn is_unknown(answer: &Result<Response>) -> bool {
    match answer {
        Ok(response) => response.status.is_server_error(),
        Err(error) => !format!("{error:#}").contains("no answer within"),
    }
}

impl Writer {
    /// Creates the writer with this number, with connections of its own.
    pub fn new(number: u64, url: String, operations: RangeInclusive<usize>, bytes: usize) -> Self {
        Self {
            name: format!("w{number}"),
            url,
            // Far more than anything here takes: a request that takes longer was not answered.
            client: Client::sequential().with_timeout(Duration::from_secs(90)),
            rng: Rng::with_seed(number),
            operations,
            bytes,
            habit: Habit::Everything,
            tenant: None,
            is_patient: false,
            is_single: false,
            period: Duration::ZERO,
            due: None,
            next: number << 32,
            live: Vec::new(),
            ledger: Ledger::default(),
        }
    }

    /// Sets the host of the requests, independently of the URL.
    pub fn asking_for(self, host: &str) -> Self {
        Self { client: self.client.asking_for(host), ..self }
    }

    /// Limits the writer to `index` and `delete` with ids, which may be carried out twice.
    pub fn idempotent(self) -> Self {
        Self { habit: Habit::Idempotent, ..self }
    }

    /// Limits the writer to new documents.
    pub fn appending(self) -> Self {
        Self { habit: Habit::Appending, ..self }
    }

    /// Makes the writer send one document at a time, in a request of its own.
    pub fn single(self) -> Self {
        Self { is_single: true, operations: 1..=1, ..self }
    }

    /// Sets the tenant that the requests authenticate as.
    pub fn of_tenant(self, name: &str) -> Self {
        Self { tenant: Some(format!("ApiKey {name}")), ..self }
    }

    /// Makes the writer send a request again if its outcome is unknown. Limits it to operations that may be carried out
    /// twice.
    pub fn patient(self) -> Self {
        Self { is_patient: true, ..self.idempotent() }
    }

    /// Makes the writer wait this long between the starts of two requests, or longer if a request takes longer.
    pub fn every(self, period: Duration) -> Self {
        Self { period, ..self }
    }

    pub async fn wait_due(&mut self) {
        // The first request is late by a part of the period, so that writers do not send at the same time.
        let due = self.due.unwrap_or_else(|| Instant::now() + self.period.mul_f64(fastrand::f64()));
        tokio::time::sleep_until(due.into()).await;
        self.due = Some(Instant::now() + self.period);
    }

    pub fn into_ledger(self) -> Ledger {
        self.ledger
    }

    /// Sends a request and records its answer. Returns an error if there is no answer, or if the answer is wrong.
    pub async fn write(&mut self, tally: &Tally) -> Result<()> {
        let size = self.rng.usize(self.operations.clone());
        let operations: Vec<Operation> = (0..size).map(|_| self.choose()).collect();
        let body: String = operations.iter().map(|operation| self.lines(operation)).collect();
        tally.requests.add(1);
        let begun = Instant::now();
        let mut answer = self.send(&operations, &body).await;
        tally.took(begun.elapsed());
        let mut attempts = 0;
        while self.is_patient && is_unknown(&answer) && attempts < ATTEMPTS {
            tally.repeated.add(1);
            attempts += 1;
            tokio::time::sleep(PATIENCE).await;
            answer = self.send(&operations, &body).await;
        }
        match answer {
            Ok(response) => self.read(operations, &response, tally),
            Err(error) if format!("{error:#}").contains("no answer within") => Err(error),
            Err(_) => {
                tally.broken.add(1);
                // As a client does before it retries.
                tokio::time::sleep(Duration::from_millis(50)).await;
                operations.into_iter().for_each(|operation| self.settle(operation, &Told::Unknown));
                Ok(())
            }
        }
    }

    async fn send(&self, operations: &[Operation], body: &str) -> Result<Response> {
        let headers: Vec<_> = self.tenant.iter().map(|tenant| ("authorization", tenant.as_str())).collect();
        match operations {
            [operation] if self.is_single => {
                let request = operation.request(&self.url, body)?;
                let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
                let document = body.lines().nth(1).unwrap_or_default().to_owned();
                Ok(operation.as_item(self.client.send(request.body(document.into())?).await?))
            }
            _ => self.client.send(bulk_request(&self.url, &headers, body.to_owned())?).await,
        }
    }

    fn choose(&mut self) -> Operation {
        self.next += 1;
        let number = self.next;
        let (action, is_old) = match self.rng.u8(0..100) {
            90.. if self.habit == Habit::Appending => {
                return Operation { action: "create", id: None, number, is_old: false };
            }
            _ if self.habit == Habit::Appending => ("create", false),
            30..45 | 90.. if self.habit == Habit::Idempotent => ("index", false),
            60..75 if self.habit == Habit::Idempotent => ("index", true),
            0..30 => ("index", false),
            30..45 => ("create", false),
            45..60 => ("index", true),
            60..75 => ("update", true),
            75..90 => ("delete", true),
            _ => return Operation { action: "index", id: None, number, is_old: false },
        };
        // Removed from the list, so that an id occurs once in a request.
        match is_old && !self.live.is_empty() {
            true => {
                let id = self.live.swap_remove(self.rng.usize(..self.live.len()));
                Operation { action, id: Some(id), number, is_old }
            }
            false => {
                let action = if action == "create" { action } else { "index" };
                Operation { action, id: Some(format!("{}-{number}", self.name)), number, is_old: false }
            }
        }
    }

    fn lines(&self, operation: &Operation) -> String {
        let line = match &operation.id {
            Some(id) => json!({operation.action: {"_id": id}}),
            None => json!({operation.action: {}}),
        };
        let text = "x".repeat(self.bytes);
        let source = match self.habit {
            Habit::Appending => json!({"n": operation.number, "text": text, "@timestamp": "2024-01-01T00:00:00Z"}),
            _ => json!({"n": operation.number, "text": text}),
        };
        match operation.action {
            "delete" => format!("{line}\n"),
            "update" => format!("{line}\n{}\n", json!({"doc": source})),
            _ => format!("{line}\n{source}\n"),
        }
    }

    fn read(&mut self, operations: Vec<Operation>, response: &Response, tally: &Tally) -> Result<()> {
        let status = response.status.as_u16();
        if status != 200 {
            let text = response.text();
            let told = match status {
                429 => Told::NotDone,
                503 if text.contains("no_upstream_exception") => Told::NotDone,
                500.. => Told::Unknown,
                _ => bail!("{status}: {text}"),
            };
            tally.refused.add(1);
            tally.fail(status, operations.len() as u64, response.text());
            operations.into_iter().for_each(|operation| self.settle(operation, &told));
            return Ok(());
        }
        let answer = response.json()?;
        let items = answer.get("items").and_then(Value::as_array).context("no items")?;
        ensure!(items.len() == operations.len(), "{} items for {} operations", items.len(), operations.len());
        let mut failed = false;
        for (operation, item) in operations.into_iter().zip(items) {
            let told = self.read_item(&operation, item, tally).with_context(|| item.to_string())?;
            let fields = item.get(operation.action).with_context(|| format!("no {}", operation.action))?;
            failed |= fields.get("error").is_some();
            if let (Told::Done, None) = (&told, &operation.id) {
                let id = fields.get("_id").and_then(Value::as_str).context("no id")?.to_owned();
                self.settle(Operation { id: Some(id), ..operation }, &told);
            } else {
                self.settle(operation, &told);
            }
        }
        ensure!(answer.get("errors") == Some(&json!(failed)), "`errors` is {:?}", answer.get("errors"));
        Ok(())
    }

    fn read_item(&self, operation: &Operation, item: &Value, tally: &Tally) -> Result<Told> {
        let fields = item.get(operation.action).with_context(|| format!("no {}", operation.action))?;
        if let Some(id) = &operation.id {
            ensure!(fields.get("_id").is_some_and(|found| found == id), "not {id}");
        }
        let status = fields
            .get("status")
            .and_then(Value::as_u64)
            .and_then(|status| u16::try_from(status).ok())
            .context("no status")?;
        match (operation.action, status) {
            // An update of an existing document changes it; the writer never updates a missing one. A node that repeats
            // an update on another copy, because the first copy's node has ended, may find it carried out.
            ("update", 200) => match fields.get("result").and_then(Value::as_str) {
                Some("updated") => {}
                Some("noop") => tally.conflicts.add(1),
                other => bail!("the result is {other:?}"),
            },
            // A first attempt whose answer was lost may have removed the document.
            (_, 200 | 201) | ("delete", 404) => {}
            ("create", 409) => {
                tally.conflicts.add(1);
                tally.fail(status, 1, item);
                return Ok(Told::Unknown);
            }
            (_, 429) => {
                tally.fail(status, 1, item);
                return Ok(Told::NotDone);
            }
            (_, 500..) => {
                tally.fail(status, 1, item);
                return Ok(Told::Unknown);
            }
            _ => bail!("unexpected status {status}"),
        }
        tally.acknowledged.add(1);
        Ok(Told::Done)
    }

    fn settle(&mut self, operation: Operation, told: &Told) {
        let Operation { action, id, number, is_old } = operation;
        let number = (action != "delete").then_some(number);
        match (told, id) {
            (Told::Done, Some(id)) => {
                self.ledger.is(&id, number);
                if number.is_some() {
                    self.live.push(id);
                }
            }
            (Told::NotDone, Some(id)) if is_old => self.live.push(id),
            (Told::NotDone, Some(id)) => self.ledger.is(&id, None),
            (Told::Unknown, id) => self.ledger.may_be(id.as_deref(), number),
            (_, None) => {}
        }
    }
}
