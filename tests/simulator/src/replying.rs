//! Checks of the answers to clients.

use std::collections::BTreeSet;
use std::rc::Rc;

use bulk_reshuffle::bulk::FilterPath;
use bulk_reshuffle::engine::Response;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::call_outcome::{Ended, LOCATION, WARNING, refusal_type, with_another_id};
use crate::layout::COORDINATOR;
use crate::ledger::{Batch, Ledger, Sent, Stage};
use crate::operation::Operation;
use crate::single_document::{DocumentAnswer, error_body};
use crate::violation::{Promise, Violation};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply<'a> {
    took: Option<u64>,
    ingest_took: Option<u64>,
    errors: Option<bool>,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

/// The items that a client may get for an operation.
struct Truth(Vec<Told>);

/// A possible item.
#[derive(Clone)]
enum Told {
    /// The node's own item, unchanged.
    Node(String),
    /// An item that the filter writes.
    Written(String),
}

impl Ledger {
    /// Checks that a request may be answered with this response.
    /// Returns whether it was sent itself.
    pub fn replied(&mut self, number: usize, response: &Response) -> Result<bool, Violation> {
        let request = self.request(number)?;
        Violation::unless(request.stage == Stage::Here, Promise::AnsweredOnce, || {
            format!("request {number} is answered although it is {:?}", request.stage)
        })?;
        request.stage = Stage::Answered;
        let (range, filter) = (request.client.operations.clone(), request.client.filter_path.clone());
        let request_is_document = request.client.document.is_some();
        let operations = &self.operations[range.clone()];
        let batches: Vec<_> = operations.iter().map(|sent| self.last(sent)).collect::<Result<_, _>>()?;
        if let ([sent], [batch], true) = (operations, batches.as_slice(), request_is_document) {
            self.check_document(sent, batch, &filter, response)?;
            return Ok(batch.is_original);
        }
        let calls = operations.iter().flat_map(|sent| &sent.calls).filter_map(|key| self.calls.get(key));
        let all: Vec<_> = calls.filter_map(answer).collect();
        if let Some(whole) = self.whole(number, &batches) {
            let mut whole = whole.iter();
            let is_answer = |own: &&Rc<Response>| own.status == response.status && seen(own, &filter) == response.body;
            if let Some(own) = whole.find(is_answer) {
                check_headers(number, &[own], &[all, vec![own]].concat(), response)?;
                return Ok(false);
            }
            // Several of its shares may have met at the coordinator. Their items are then put in order.
            let may_have_met = self.redirects && batches.iter().all(|batch| batch.upstream == COORDINATOR);
            Violation::unless(may_have_met, Promise::OwnItems, || {
                format!("request {number} is answered with {response:?}, which no node sent")
            })?;
        }
        let lost: Vec<bool> = range.map(|marker| self.times_lost(marker) > 0).collect();
        check_items(number, &filter, operations, &batches, &lost, response)?;
        let last = batches.iter().filter(|batch| matches!(batch.ended, Some(Ended::Items(_))));
        let last: Vec<_> = last.filter_map(|batch| answer(batch)).collect();
        check_headers(number, &last, &all, response)?;
        Ok(false)
    }

    /// Checks the answer to a request for a single document.
    fn check_document(
        &self,
        sent: &Sent,
        batch: &Batch,
        filter: &FilterPath,
        response: &Response,
    ) -> Result<(), Violation> {
        let number = sent.request;
        let wrong = |what: &str| {
            let detail = format!("request {number} is answered with {response:?}, {what} of {sent:?}");
            Err(Violation::of(Promise::OwnItems, detail))
        };
        let exact = match &batch.ended {
            Some(Ended::Items(own) | Ended::Lie(own) | Ended::Refused(own)) if batch.is_original => {
                Some(Rc::clone(own))
            }
            _ => refusal(batch),
        };
        let lost = sent.calls.iter().any(|key| matches!(self.calls[key].ended, Some(Ended::Unknown(_))));
        // Without enough memory for another answer, a refused document is not sent itself. After a lost attempt it is not
        // certain which execution counts.
        let settings = &self.traffic[self.requests[number].engine].settings;
        let has_room = settings.memory >= LARGE_MEMORY;
        let is_certain = !lost && !matches!(batch.ended, Some(Ended::Lie(_)));
        if !batch.is_original && has_room && is_certain && self.was_refused(sent) {
            return wrong("and not by the cluster's own refusal");
        }
        if let Some(own) = exact {
            if (own.status, &own.body) != (response.status, &response.body) {
                return wrong("which no node sent");
            }
            return check_headers(number, &[&own], &[&own], response);
        }
        let truth = Truth::of(sent, batch, lost);
        let Some(told) = truth.0.iter().find(|told| told.is_document(&sent.operation, filter, response)) else {
            return wrong("which is not the outcome");
        };
        let own: Vec<_> = answer(batch).into_iter().collect();
        match told {
            Told::Node(_) => {
                let is_other = |(name, _): &&(String, String)| name != LOCATION;
                let headers = response.headers.iter().filter(is_other).cloned().collect();
                check_headers(number, &own, &own, &Response { headers, ..response.clone() })
            }
            Told::Written(_) => check_headers(number, &[], &[], response),
        }
    }

    /// Returns the last batch with an operation. It must be over.
    fn last(&self, sent: &Sent) -> Result<&Batch, Violation> {
        let last = sent.calls.last().and_then(|key| self.calls.get(key)).filter(|batch| batch.ended.is_some());
        last.ok_or_else(|| {
            Violation::of(Promise::NotEarly, format!("request {} is answered before its nodes have", sent.request))
        })
    }

    /// Returns the responses of which one must be the unchanged answer: to a request that travelled alone and unsplit,
    /// or refusals of one kind.
    fn whole(&self, number: usize, batches: &[&Batch]) -> Option<Vec<Rc<Response>>> {
        let first = batches.first()?;
        let is_alone = batches.iter().all(|batch| std::ptr::eq(*batch, *first))
            && first.markers.len() == batches.len()
            && first
                .markers
                .iter()
                .all(|marker| self.operations[*marker].request == number && self.times_lost(*marker) == 0);
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

/// Returns the refusal of a batch as a whole.
fn refusal(batch: &Batch) -> Option<Rc<Response>> {
    match &batch.ended {
        Some(Ended::Refused(response)) => Some(Rc::clone(response)),
        Some(Ended::NotSent) => Some(Rc::new(unavailable())),
        _ => None,
    }
}

/// Returns the answer to a request that could not be sent anywhere.
fn unavailable() -> Response {
    let error = r#"{"type":"no_upstream_exception","reason":"no node could be reached; nothing was sent"}"#;
    let body = error_body(error, 503);
    let headers = [("content-type".to_owned(), "application/json; charset=UTF-8".to_owned())].into();
    Response { status: 503, headers, body: body.into_bytes() }
}

/// Returns the part of a response that a client requests.
fn seen(response: &Response, filter: &FilterPath) -> Vec<u8> {
    let filtered = if response.status == 200 && !filter.is_empty() { filter.apply(&response.body) } else { None };
    filtered.unwrap_or_else(|| response.body.clone())
}

/// Returns a node's answer, which may not match what it was sent.
fn answer(batch: &Batch) -> Option<&Rc<Response>> {
    match &batch.ended {
        Some(Ended::Items(answer) | Ended::Lie(answer)) => Some(answer),
        _ => None,
    }
}

/// Checks the headers: except those about the path of an answer, they must be those of one of the answers. Each warning
/// must occur once: those of the last answers always, those of earlier ones possibly.
fn check_headers(
    number: usize,
    last: &[&Rc<Response>],
    all: &[&Rc<Response>],
    response: &Response,
) -> Result<(), Violation> {
    type Headers = BTreeSet<(String, String)>;
    let warnings = |response: &Response| -> Headers {
        response.headers.iter().filter(|(name, _)| name == WARNING).cloned().collect()
    };
    let others = |response: &Response| -> Headers {
        response.headers.iter().filter(|(name, _)| name != WARNING && name != "server").cloned().collect()
    };
    let union = |answers: &[&Rc<Response>]| -> Headers { answers.iter().flat_map(|answer| warnings(answer)).collect() };
    let found = warnings(response);
    let times = response.headers.iter().filter(|(name, _)| name == WARNING).count();
    let is_union = found.is_superset(&union(last)) && found.is_subset(&union(all)) && times == found.len();
    Violation::unless(is_union, Promise::Headers, || {
        format!("the answer to request {number} has the headers {:?}, but the nodes sent {all:?}", response.headers)
    })?;
    let has_own_way = response.headers.iter().any(|(name, _)| name == "server");
    let is_ones = last.is_empty() || all.iter().any(|answer| others(answer) == others(response));
    Violation::unless(is_ones && !has_own_way, Promise::Headers, || {
        format!("the answer to request {number} has the headers {:?}, which match none of {all:?}", response.headers)
    })
}

fn check_items(
    number: usize,
    filter: &FilterPath,
    operations: &[Sent],
    batches: &[&Batch],
    lost: &[bool],
    response: &Response,
) -> Result<(), Violation> {
    let wrong = |what: String| Violation::of(Promise::OwnItems, format!("the answer to request {number} {what}"));
    let reply: Reply<'_> =
        serde_json::from_slice(&response.body).map_err(|error| wrong(format!("is not one: {error}: {response:?}")))?;
    let items: Vec<&str> = reply.items.iter().flatten().map(|item| item.get()).collect();
    // The possible numbers of items for the operations so far: some items may be shown or left out.
    let mut told = BTreeSet::from([0_usize]);
    let (mut failed, mut certain) = (false, true);
    for ((sent, batch), lost) in operations.iter().zip(batches).zip(lost) {
        let truth = Truth::of(sent, batch, *lost);
        failed |= truth.0.iter().any(Told::has_failed);
        // If several items are possible, it may have failed or not.
        certain &= truth.0.len() == 1;
        let is_next = |at: &&usize| items.get(**at).is_some_and(|item| truth.is_told(item, filter));
        let mut after: BTreeSet<_> = told.iter().filter(is_next).map(|at| at.saturating_add(1)).collect();
        if truth.is_left_out(filter) {
            after.extend(&told);
        }
        if after.is_empty() {
            let next: Vec<_> = told.iter().map(|at| items.get(*at)).collect();
            return Err(wrong(format!("has one of the items {next:?}, but {sent:?} ended as {:?}", batch.ended)));
        }
        told = after;
    }
    let wants = |field: &str| filter.apply(field.as_bytes()).is_some_and(|left| left != b"{}");
    let is_whole = response.status == 200
        && told.contains(&items.len())
        && reply.took.is_some() == wants(r#"{"took":1}"#)
        && reply.errors.is_some() == wants(r#"{"errors":true}"#)
        && (reply.ingest_took.is_none() || operations.iter().any(|sent| sent.operation.piped))
        && (reply.items.is_some() || !filter.is_empty());
    if !is_whole {
        return Err(wrong(format!("has something too many or too few for {filter:?}: {response:?}")));
    }
    match reply.errors {
        Some(errors) if certain && errors != failed => Err(wrong(format!("says that errors is {errors}"))),
        _ => Ok(()),
    }
}

/// Returns whether an item reports a failure that says nothing about an earlier attempt.
fn is_uncertain(item: &str) -> bool {
    item.contains(r#""error""#) && !item.contains(r#""status":400"#)
}

/// The memory of an engine that always has room for further answers, in bytes.
const LARGE_MEMORY: u64 = 1 << 24;

const UNKNOWN: &str = "bulk_outcome_unknown_exception";

impl Truth {
    fn of(sent: &Sent, batch: &Batch, lost: bool) -> Self {
        // Acknowledged means executed: without an execution no item is true.
        let last = || Told::Node(sent.executions.last().map(|execution| execution.item.clone()).unwrap_or_default());
        let written = |status, kind: &str| Told::written(&sent.operation, status, kind);
        Self(match &batch.ended {
            Some(Ended::Items(_)) if lost => Self::any(sent),
            Some(Ended::Items(_)) => vec![last()],
            Some(Ended::Refused(response)) => vec![written(response.status, &refusal_type(response.status))],
            Some(Ended::NotSent) => vec![written(503, "no_upstream_exception")],
            Some(Ended::Unknown(status)) => vec![written(*status, UNKNOWN)],
            // Some items can be matched by what they are for, or by their positions.
            Some(Ended::Lie(_)) => {
                let mut items = if lost { Self::any(sent) } else { vec![last()] };
                let renamed = items.iter().filter_map(Told::with_another_id).collect::<Vec<_>>();
                items.extend(renamed);
                [items, vec![written(503, UNKNOWN)]].concat()
            }
            None => vec![written(503, UNKNOWN)],
        })
    }

    /// Returns the items of the nodes that had it, and of the failures only those caused by the document itself.
    fn any(sent: &Sent) -> Vec<Told> {
        let items = sent.executions.iter().map(|execution| execution.item.clone());
        let (doubtful, others): (Vec<_>, Vec<_>) = items.partition(|item| is_uncertain(item));
        let unknown = (!doubtful.is_empty()).then(|| Told::written(&sent.operation, 503, UNKNOWN));
        others.into_iter().map(Told::Node).chain(unknown).collect()
    }

    /// Returns whether an item is one of these, in the part that the client requests.
    fn is_told(&self, item: &str, filter: &FilterPath) -> bool {
        self.0.iter().any(|told| match told {
            Told::Node(text) => left_of(text, filter).is_some_and(|text| text == item),
            Told::Written(text) => {
                left_of(text, filter).is_some_and(|text| without_reason(&text) == without_reason(item))
            }
        })
    }

    /// Returns whether the client requests nothing of it.
    fn is_left_out(&self, filter: &FilterPath) -> bool {
        self.0.iter().any(|told| left_of(told.text(), filter).is_none())
    }
}

impl Told {
    /// Returns a node's item with another id.
    fn with_another_id(&self) -> Option<Self> {
        match self {
            Self::Node(item) => Some(Self::Node(with_another_id(item))),
            Self::Written(_) => None,
        }
    }

    fn written(operation: &Operation, status: u16, kind: &str) -> Self {
        let Operation { action, name, id, .. } = operation;
        let error = json!({"type": kind, "reason": ""});
        Self::Written(json!({action.name(): {"_index": name, "_id": id, "status": status, "error": error}}).to_string())
    }

    /// Returns whether the answer to a request for a single document tells this.
    fn is_document(&self, operation: &Operation, filter: &FilterPath, response: &Response) -> bool {
        let Some(own) = DocumentAnswer::of(self.text(), operation) else { return false };
        let location = response.headers.iter().find(|(name, _)| name == LOCATION).map(|(_, path)| path.clone());
        let body = own.body.into_bytes();
        let has_body = match self {
            Self::Node(_) if !filter.is_empty() && !self.has_failed() => {
                filter.apply(&body).unwrap_or(body) == response.body
            }
            Self::Node(_) => body == response.body,
            Self::Written(_) => error_type(&body) == error_type(&response.body),
        };
        has_body && (own.status, own.location) == (response.status, location)
    }

    fn text(&self) -> &str {
        match self {
            Self::Node(text) | Self::Written(text) => text,
        }
    }

    fn has_failed(&self) -> bool {
        self.text().contains(r#""error""#)
    }
}

/// Returns the requested part of an item, if there is any.
fn left_of(item: &str, filter: &FilterPath) -> Option<String> {
    let left = filter.apply(format!(r#"{{"items":[{item}]}}"#).as_bytes())?;
    let left: Reply<'_> = serde_json::from_slice(&left).ok()?;
    left.items?.first().map(|item| item.get().to_owned())
}

/// Returns the type of the error in the answer to a request for a single document.
fn error_type(body: &[u8]) -> Option<Value> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    Some(json!([
        answer.get("status")?,
        answer.get("error")?.get("type")?,
        answer["error"]["root_cause"][0].get("type")?
    ]))
}

/// Returns an item without its error's reason.
fn without_reason(item: &str) -> Option<Value> {
    let mut item: Value = serde_json::from_str(item).ok()?;
    for fields in item.as_object_mut()?.values_mut() {
        if let Some(Value::Object(error)) = fields.get_mut("error") {
            error.remove("reason");
            error.remove("root_cause");
        }
    }
    Some(item)
}
