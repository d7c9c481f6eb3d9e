use std::rc::Rc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::headers::shared;
use crate::bulk::{Answer, ErrorItem, unquoted};
use crate::engine::command::{Headers, Response};
use crate::engine::memory::{Charge, Memory};
use crate::invariant::found;

/// The outcome of some operations of a share.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The node answered.
    Items {
        /// The answer to the batch.
        answer: Rc<NodeAnswer>,
        /// The items for these operations.
        items: ItemNumbers,
    },
    /// The answer to a request that was sent alone and unsplit. It is forwarded unchanged.
    Whole(Rc<WholeAnswer>),
    /// A response that is not an answer to a bulk request.
    Refused(Rc<Refusal>),
    /// It is unknown whether the operations were carried out.
    Unknown {
        /// The status for their items.
        status: u16,
        /// The error for their items.
        error: Rc<RawValue>,
    },
}

/// The numbers of an answer's items that belong to some operations, in their order.
#[derive(Debug, Clone)]
pub enum ItemNumbers {
    /// This item and those after it.
    From(usize),
    /// These items.
    These(Rc<[u32]>),
}

/// A node's answer to a batch, shared by the requests in it.
#[derive(Debug)]
pub struct NodeAnswer {
    /// The response headers that may be shared by several requests.
    pub headers: Headers,
    /// Its body, split into items.
    pub answer: Answer,
    /// The charge for the answer, until the last of its requests is answered.
    _charge: Charge,
}

/// A node's answer that is not split into items.
#[derive(Debug)]
pub struct WholeAnswer {
    pub response: Response,
    /// The charge for the answer, until the request is answered.
    charge: Charge,
}

/// A node's refusal of a batch, shared by the requests in it.
#[derive(Debug)]
pub struct Refusal {
    /// The response, unchanged unless several requests share it.
    pub response: Response,
    /// The error object for an item.
    error: Box<RawValue>,
    /// The same error object, shortened.
    short: Box<RawValue>,
    /// The charge for the refusal, until the last of its requests is answered.
    _charge: Charge,
}

/// The maximum length of a refusal's body that several requests share. A cluster's refusals have a few hundred bytes,
/// or up to 16 KiB with a stack trace (`error_trace`).
const MAX_SHARED_BYTES: usize = 16 << 10;

/// The maximum length of a refusal's error object in an item. Elasticsearch's longest, that of a circuit breaker, has
/// less than a kilobyte.
const MAX_ERROR_BYTES: usize = 4 << 10;

/// The maximum number of bytes of the type and the reason in a shortened error, as JSON.
const SHORT_TYPE: usize = 64;
const SHORT_REASON: usize = 160;

#[derive(Deserialize)]
struct Error {
    error: Box<RawValue>,
}

#[derive(Deserialize)]
struct ErrorParts {
    #[serde(rename = "type")]
    kind: Option<String>,
    reason: Option<String>,
}

/// The type of the error with which a pipeline's `fail` processor refuses a document, with 500.
const REFUSED_BY_PIPELINE: &str = "fail_processor_exception";

impl Outcome {
    /// Returns whether the first of the operations was refused, so that nothing of it was carried out.
    pub fn is_refusal(&self) -> bool {
        let is_refusal = |status| matches!(status, 400..500);
        match self {
            Self::Items { answer, items } => {
                let item = items.get(0).and_then(|number| answer.answer.items.get(number));
                // A pipeline runs before the document goes to its shard.
                let is_by_pipeline = |item| answer.answer.error_type(item).as_deref() == Some(REFUSED_BY_PIPELINE);
                item.is_some_and(|item| item.failed && (is_refusal(item.status) || is_by_pipeline(item)))
            }
            Self::Refused(refusal) => is_refusal(refusal.response.status),
            Self::Whole(_) | Self::Unknown { .. } => false,
        }
    }

    /// Returns the bytes of a response that answers the whole request.
    pub fn whole_bytes(&self) -> u64 {
        let response = match self {
            Self::Whole(answer) => &answer.response,
            Self::Refused(refusal) => &refusal.response,
            Self::Items { .. } | Self::Unknown { .. } => return 0,
        };
        response.body.len() as u64
    }
}

impl ItemNumbers {
    /// Returns the item number of the n-th operation.
    pub fn get(&self, number: usize) -> Option<usize> {
        match self {
            Self::From(first) => first.checked_add(number),
            Self::These(numbers) => numbers.get(number).map(|number| *number as usize),
        }
    }
}

impl NodeAnswer {
    /// Charges an answer that has arrived.
    pub fn new(headers: &Headers, answer: Answer, memory: &Memory) -> Self {
        Self { headers: shared(headers), _charge: memory.charge(answer.memory()), answer }
    }
}

impl WholeAnswer {
    /// Charges an answer that has arrived.
    pub fn new(response: Response, memory: &Memory) -> Self {
        Self { charge: memory.charge(response.body.capacity() as u64), response }
    }

    /// Returns the response, which is no longer counted unless another request shares it.
    pub fn into_response(this: Rc<Self>) -> Response {
        match Rc::try_unwrap(this) {
            Ok(Self { response, charge }) => {
                drop(charge);
                response
            }
            Err(this) => this.response.clone(),
        }
    }
}

impl Refusal {
    /// Creates the refusal of this number of requests, with the node's own error object if there is one. A refusal that
    /// several requests share does not quote their content and is bounded in length.
    pub fn new(mut response: Response, requests: usize, memory: &Memory) -> Self {
        if requests > 1 {
            response = shared_refusal(response);
        }
        let error = match serde_json::from_slice::<Error>(&response.body) {
            Ok(Error { error }) => error,
            Err(_) => ErrorItem::error("bulk_refused_exception", "the node refused the operations without saying why"),
        };
        let short = shortened(&error);
        let error = if error.get().len() > MAX_ERROR_BYTES { short.clone() } else { error };
        let size = response.body.capacity().saturating_add(error.get().len()).saturating_add(short.get().len());
        Self { response, error, short, _charge: memory.charge(size as u64) }
    }

    /// Returns the error object for an item, shortened on request.
    pub fn error(&self, is_short: bool) -> &RawValue {
        if is_short { &self.short } else { &self.error }
    }
}

/// Returns a refusal in a form that several requests may see.
fn shared_refusal(response: Response) -> Response {
    let Response { status, headers, body } = response;
    let (headers, body) = (shared(&headers), unquoted(body));
    if body.len() <= MAX_SHARED_BYTES {
        return Response { status, headers, body };
    }
    let error = serde_json::from_slice::<Error>(&body).ok().map(|Error { error }| shortened(&error));
    let error = error.unwrap_or_else(|| ErrorItem::error("bulk_refused_exception", "the node's refusal is too long"));
    let body = format!(r#"{{"error":{},"status":{status}}}"#, error.get()).into_bytes();
    let is_other = |(name, _): &&(String, String)| name != "content-type" && name != "content-encoding";
    let json = ("content-type".to_owned(), "application/json; charset=UTF-8".to_owned());
    Response { status, headers: headers.iter().filter(is_other).cloned().chain([json]).collect(), body }
}

/// Returns an error object with a truncated type and reason.
pub fn shortened(error: &RawValue) -> Box<RawValue> {
    let parts = serde_json::from_str::<ErrorParts>(error.get());
    let ErrorParts { kind, reason } = parts.unwrap_or(ErrorParts { kind: None, reason: None });
    let beginning = |text: Option<String>, most: usize| {
        let text = text.unwrap_or_else(|| "unknown".to_owned());
        match end_within(&text, most) {
            Some(end) => format!("{}…", found(text.get(..end), "a character ends there").unwrap_or_default()),
            None => text,
        }
    };
    ErrorItem::error(&beginning(kind, SHORT_TYPE), &beginning(reason, SHORT_REASON))
}

/// Returns the length of the longest prefix of a text that fits into this many bytes of JSON; `None` if the whole text
/// fits.
fn end_within(text: &str, most: usize) -> Option<usize> {
    let mut bytes = 0_usize;
    let mut positions = text.char_indices().map(|(position, char)| {
        bytes = bytes.saturating_add(match char {
            '"' | '\\' => 2,
            char if char.is_control() => 6,
            char => char.len_utf8(),
        });
        (position, bytes)
    });
    positions.find(|(_, bytes)| *bytes > most).map(|(position, _)| position)
}
