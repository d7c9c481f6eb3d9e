use std::rc::Rc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::headers::shared;
use crate::bulk::{Answer, ErrorItem, unquoted};
use crate::engine::command::{Headers, Response};
use crate::engine::memory::{Charge, Memory};

/// The outcome of some operations of a share.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The node answered.
    Items {
        /// The answer to the batch.
        answer: Rc<NodeAnswer>,
        /// Which of its items are theirs.
        items: ItemNumbers,
    },
    /// The answer to a request that travelled alone and unsplit: it is the request's, as it is.
    Whole(Rc<WholeAnswer>),
    /// A response that is no answer to a bulk request.
    Refused(Rc<Refusal>),
    /// It is unknown whether they were carried out.
    Unknown {
        /// The status for their items.
        status: u16,
        /// The error for their items.
        error: Rc<RawValue>,
    },
}

/// Which items of an answer belong to some operations, in their order.
#[derive(Debug, Clone)]
pub enum ItemNumbers {
    /// This one and those behind it.
    From(usize),
    /// These.
    These(Rc<[u32]>),
}

/// A node's answer to a batch, shared by the requests in it.
#[derive(Debug)]
pub struct NodeAnswer {
    /// Those of the response's headers that say something about it.
    pub headers: Headers,
    /// Its body, with the items cut apart.
    pub answer: Answer,
    /// It is kept until the last of the requests in it is answered.
    _charge: Charge,
}

/// A node's answer that is not cut apart.
#[derive(Debug)]
pub struct WholeAnswer {
    response: Response,
    /// It is kept until the request is answered.
    charge: Charge,
}

/// A node's refusal of a batch, shared by the requests in it.
#[derive(Debug)]
pub struct Refusal {
    /// As it came, unless it is shared.
    pub response: Response,
    /// What stands for it in an item.
    error: Box<RawValue>,
    /// The same, in a few words.
    short: Box<RawValue>,
    /// It is kept until the last of the requests in it is answered.
    _charge: Charge,
}

/// The longest body of a refusal that several requests are answered with. Refusals of clusters have some hundred bytes,
/// with a stack trace (`error_trace`) up to 16 KiB.
const MOST_SHARED: usize = 16 << 10;

/// The longest error object of a refusal that stands in items. Elasticsearch's longest, a circuit breaker's, has less
/// than a kilobyte.
const MOST_ERROR: usize = 4 << 10;

/// Bytes of an error's type and reason, as JSON, that are kept of one that is shortened.
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

impl Outcome {
    /// Bytes of a response that stands for the whole request.
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
    /// The number of the item of the n-th operation.
    pub fn get(&self, number: usize) -> Option<usize> {
        match self {
            Self::From(first) => first.checked_add(number),
            Self::These(numbers) => numbers.get(number).map(|number| *number as usize),
        }
    }
}

impl NodeAnswer {
    /// An answer that is here now.
    pub fn new(headers: &Headers, answer: Answer, memory: &Memory) -> Self {
        Self { headers: shared(headers), _charge: memory.charge(answer.memory()), answer }
    }
}

impl WholeAnswer {
    /// An answer that is here now.
    pub fn new(response: Response, memory: &Memory) -> Self {
        Self { charge: memory.charge(response.body.capacity() as u64), response }
    }

    /// Its status.
    pub fn status(&self) -> u16 {
        self.response.status
    }

    /// Returns the response, which is no longer counted unless another request has it too.
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
    /// A refusal of so many requests, with the node's own error object where there is one. One that several requests
    /// share quotes none of them, and is not long.
    pub fn new(mut response: Response, requests: usize, memory: &Memory) -> Self {
        if requests > 1 {
            response = shared_refusal(response);
        }
        let error = match serde_json::from_slice::<Error>(&response.body) {
            Ok(Error { error }) => error,
            Err(_) => ErrorItem::error("bulk_refused_exception", "the node refused the operations without saying why"),
        };
        let short = shortened(&error);
        let error = if error.get().len() > MOST_ERROR { short.clone() } else { error };
        let size = response.body.capacity().saturating_add(error.get().len()).saturating_add(short.get().len());
        Self { response, error, short, _charge: memory.charge(size as u64) }
    }

    /// The error object for an item: in few words if it may not be longer.
    pub fn error(&self, is_short: bool) -> &RawValue {
        if is_short { &self.short } else { &self.error }
    }
}

/// A refusal as several requests may see it.
fn shared_refusal(response: Response) -> Response {
    let Response { status, headers, body } = response;
    let (headers, body) = (shared(&headers), unquoted(body));
    if body.len() <= MOST_SHARED {
        return Response { status, headers, body };
    }
    let error = serde_json::from_slice::<Error>(&body).ok().map(|Error { error }| shortened(&error));
    let error = error.unwrap_or_else(|| ErrorItem::error("bulk_refused_exception", "the node's refusal is too long"));
    let body = format!(r#"{{"error":{},"status":{status}}}"#, error.get()).into_bytes();
    let is_other = |(name, _): &&(String, String)| name != "content-type" && name != "content-encoding";
    let json = ("content-type".to_owned(), "application/json; charset=UTF-8".to_owned());
    Response { status, headers: headers.iter().filter(is_other).cloned().chain([json]).collect(), body }
}

/// An error object with the beginnings of its type and its reason.
pub fn shortened(error: &RawValue) -> Box<RawValue> {
    let parts = serde_json::from_str::<ErrorParts>(error.get());
    let ErrorParts { kind, reason } = parts.unwrap_or(ErrorParts { kind: None, reason: None });
    let beginning = |text: Option<String>, most: usize| {
        let text = text.unwrap_or_else(|| "unknown".to_owned());
        match end_within(&text, most) {
            Some(end) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    };
    ErrorItem::error(&beginning(kind, SHORT_TYPE), &beginning(reason, SHORT_REASON))
}

/// Where the part of a text ends that takes so many bytes in JSON; `None` if all of it does.
fn end_within(text: &str, most: usize) -> Option<usize> {
    let mut bytes = 0_usize;
    let mut places = text.char_indices().map(|(place, char)| {
        bytes = bytes.saturating_add(match char {
            '"' | '\\' => 2,
            char if char.is_control() => 6,
            char => char.len_utf8(),
        });
        (place, bytes)
    });
    places.find(|(_, bytes)| *bytes > most).map(|(place, _)| place)
}
