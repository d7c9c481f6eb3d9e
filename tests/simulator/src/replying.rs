//! Checks of what clients are answered.

use std::collections::BTreeMap;
use std::rc::Rc;

use bulk_reshuffle::engine::Response;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::fate::{Ended, PRODUCT};
use crate::ledger::{Batch, Ledger, Sent, Stage};
use crate::violation::{Promise, Violation};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply<'a> {
    #[serde(rename = "took")]
    _took: u64,
    errors: bool,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// What a client may be told of an operation.
enum Truth<'a> {
    /// The node's item.
    Item(&'a str),
    /// An item with this status and error type, written by the filter.
    Error(u16, String),
    /// The node's item, or that nobody knows.
    ItemOrUnknown(&'a str),
    /// One of the items of the nodes that had it; but a failure only if it is the document's own fault.
    AnyItem,
}

impl Ledger {
    /// A request is answered.
    pub fn replied(&mut self, number: usize, response: &Response) -> Result<(), Violation> {
        let request = self.request(number)?;
        Violation::unless(request.stage == Stage::Here, Promise::AnsweredOnce, || {
            format!("request {number} is answered although it is {:?}", request.stage)
        })?;
        request.stage = Stage::Answered;
        let range = request.client.operations.clone();
        let operations = self.operations.get(range).unwrap_or_default();
        let batches: Vec<_> = operations.iter().map(|sent| self.last(sent)).collect::<Result<_, _>>()?;
        if let Some(whole) = self.whole(number, &batches) {
            let mut whole = whole.iter();
            let Some(own) = whole.find(|own| own.status == response.status && own.body == response.body) else {
                let what = format!("request {number} is answered with {response:?}, which no node said");
                return Err(Violation::of(Promise::OwnItems, what));
            };
            return check_headers(number, has_product(own), response);
        }
        let lost: Vec<bool> = self
            .requests
            .get(number)
            .into_iter()
            .flat_map(|request| request.client.operations.clone())
            .map(|marker| self.times_lost(marker) > 0)
            .collect();
        check_items(number, operations, &batches, &lost, response)?;
        let answered = batches.iter().any(|batch| matches!(batch.ended, Some(Ended::Items(_))));
        check_headers(number, answered, response)
    }

    /// The last batch with an operation, which is over.
    fn last(&self, sent: &Sent) -> Result<&Batch, Violation> {
        let last = sent.calls.last().and_then(|key| self.calls.get(key)).filter(|batch| batch.ended.is_some());
        last.ok_or_else(|| {
            Violation::of(Promise::NotEarly, format!("request {} is answered before its nodes have", sent.request))
        })
    }

    /// The responses of which one has to be the answer as it is: to a request that travelled alone and unsplit, or
    /// refusals of one kind.
    fn whole(&self, number: usize, batches: &[&Batch]) -> Option<Vec<Rc<Response>>> {
        let first = batches.first()?;
        let is_alone = batches.iter().all(|batch| std::ptr::eq(*batch, *first))
            && first.markers.len() == batches.len()
            && first.markers.iter().all(|marker| {
                let own = self.operations.get(*marker).is_some_and(|sent| sent.request == number);
                own && self.times_lost(*marker) == 0
            });
        if let (true, Some(Ended::Items(response) | Ended::Lie(response) | Ended::Refused(response))) =
            (is_alone, &first.ended)
        {
            return Some(vec![Rc::clone(response)]);
        }
        let refusals: Vec<_> = batches.iter().map(|batch| refusal(batch)).collect::<Option<_>>()?;
        let status = refusals.first()?.status;
        refusals.iter().all(|refusal| refusal.status == status).then_some(refusals)
    }
}

/// A refusal of a batch as a whole.
fn refusal(batch: &Batch) -> Option<Rc<Response>> {
    match &batch.ended {
        Some(Ended::Refused(response)) => Some(Rc::clone(response)),
        Some(Ended::NotSent) => Some(Rc::new(unavailable())),
        _ => None,
    }
}

/// The answer to a request that could be sent nowhere.
fn unavailable() -> Response {
    let error = r#"{"type":"no_upstream_exception","reason":"no node could be reached; nothing was sent"}"#;
    let inner = error.trim_start_matches('{');
    let body = format!(r#"{{"error":{{"root_cause":[{error}],{inner},"status":503}}"#);
    Response { status: 503, headers: Vec::new(), body: body.into_bytes() }
}

fn has_product(response: &Response) -> bool {
    response.headers.iter().any(|(name, value)| (name.as_str(), value.as_str()) == PRODUCT)
}

/// What a node answered carries the node's headers.
fn check_headers(number: usize, answered: bool, response: &Response) -> Result<(), Violation> {
    Violation::unless(!answered || has_product(response), Promise::Headers, || {
        format!("the answer to request {number} lacks a header: {:?}", response.headers)
    })
}

fn check_items(
    number: usize,
    operations: &[Sent],
    batches: &[&Batch],
    lost: &[bool],
    response: &Response,
) -> Result<(), Violation> {
    let wrong = |what: String| Violation::of(Promise::OwnItems, format!("the answer to request {number} {what}"));
    let reply: Reply<'_> =
        serde_json::from_slice(&response.body).map_err(|error| wrong(format!("is not one: {error}: {response:?}")))?;
    if response.status != 200 || reply.items.len() != operations.len() {
        return Err(wrong(format!("has {} items for {} operations", reply.items.len(), operations.len())));
    }
    let mut errors = false;
    for (((item, sent), batch), lost) in reply.items.iter().zip(operations).zip(batches).zip(lost) {
        let text = item.get();
        errors |= text.contains(r#""error""#);
        let is_true = match truth(sent, batch, *lost) {
            Truth::Item(item) => item == text,
            Truth::Error(status, kind) => is_error(sent, text, status, &kind),
            Truth::ItemOrUnknown(item) => item == text || is_error(sent, text, 503, UNKNOWN),
            Truth::AnyItem => {
                let mut items = sent.executions.iter().map(|execution| execution.item.as_str());
                let is_unknown = items.clone().any(is_doubtful) && is_error(sent, text, 503, UNKNOWN);
                is_unknown || (items.any(|item| item == text) && !is_doubtful(text))
            }
        };
        if !is_true {
            return Err(wrong(format!("has the item {text}, but {sent:?} ended as {:?}", batch.ended)));
        }
    }
    if reply.errors != errors { Err(wrong(format!("says that errors is {}", reply.errors))) } else { Ok(()) }
}

/// Whether an item reports a failure that says nothing of an earlier attempt.
fn is_doubtful(item: &str) -> bool {
    item.contains(r#""error""#) && !item.contains(r#""status":400"#)
}

const UNKNOWN: &str = "bulk_outcome_unknown_exception";

fn truth<'a>(sent: &'a Sent, batch: &Batch, lost: bool) -> Truth<'a> {
    // Acknowledged means carried out: without an execution no item is true.
    let item = sent.executions.last().map_or("", |execution| &execution.item);
    match &batch.ended {
        Some(Ended::Items(_)) if lost => Truth::AnyItem,
        Some(Ended::Items(_)) => Truth::Item(item),
        Some(Ended::Refused(response)) => Truth::Error(response.status, format!("refused_{}", response.status)),
        Some(Ended::NotSent) => Truth::Error(503, "no_upstream_exception".to_owned()),
        Some(Ended::Unknown(status)) => Truth::Error(*status, UNKNOWN.to_owned()),
        // Some of the items can be told by what they are for.
        Some(Ended::Lie(_)) => Truth::ItemOrUnknown(item),
        None => Truth::Error(503, UNKNOWN.to_owned()),
    }
}

/// Whether an item says of this operation that it failed in this way.
fn is_error(sent: &Sent, item: &str, status: u16, kind: &str) -> bool {
    let Ok(item) = serde_json::from_str::<BTreeMap<String, Value>>(item) else { return false };
    let operation = &sent.operation;
    let Some(fields) = item.get(operation.action.name()) else { return false };
    let is = |pointer: &str, expected: Value| fields.pointer(pointer) == Some(&expected);
    item.len() == 1
        && is("/_index", operation.name.as_str().into())
        && is("/_id", operation.id.as_deref().into())
        && is("/status", status.into())
        && is("/error/type", kind.into())
}
