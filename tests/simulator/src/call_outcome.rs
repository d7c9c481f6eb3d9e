use std::rc::Rc;

use bulk_reshuffle::engine::{Headers, Response};

use crate::cluster::INGESTED;
use crate::operation::Operation;
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::single_document::DocumentAnswer;

/// The predetermined outcome of a call with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallOutcome {
    /// Whether a node executes it, even if its answer is lost.
    pub carried_out: bool,
    pub ending: Ending,
}

/// The way in which a call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// It returns with the node's own items.
    #[default]
    Items,
    /// It returns with an answer that does not match what was sent.
    Lie(Lie),
    /// It is refused as a whole.
    Refused(u16),
    /// It cannot be sent, and the engine is told so at once.
    NotSent,
    /// A connection takes too long, so it cannot be sent. Envoy says so in a response.
    NotSentText,
    /// It returns without a readable answer: lost, or too large.
    Failed,
    /// The connection breaks, in Envoy's words.
    Reset,
    /// It times out, in Envoy's words.
    TimedOut,
}

/// The way in which an answer does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lie {
    /// The last item is missing.
    #[default]
    Short,
    /// There is an extra item.
    Long,
    /// The text is truncated.
    Torn,
    /// The text is not an answer to a bulk request.
    Page,
    /// An item is for another action.
    Action,
    /// An item is for another document.
    Document,
}

/// The outcome of a call with a batch, as its clients may see it.
#[derive(Debug, Clone)]
pub enum Ended {
    /// The node's items, in the order of the batch, in this response.
    Items(Rc<Response>),
    /// An answer that only a lone request may see.
    Lie(Rc<Response>),
    /// A refusal. Nothing was executed.
    Refused(Rc<Response>),
    /// The call never reached a node.
    NotSent,
    /// The call may have been executed. The number is the status for its items.
    Unknown(u16),
}

impl Ended {
    /// Returns whether the call shows that its node may be overloaded.
    pub fn is_overload(&self) -> bool {
        match self {
            Self::Items(response) | Self::Lie(response) | Self::Refused(response) => {
                String::from_utf8_lossy(&response.body).contains(OVERLOADED)
            }
            Self::NotSent => false,
            Self::Unknown(status) => *status == 504,
        }
    }
}

impl CallOutcome {
    /// Generates the outcome of a call. A node refuses a poisoned one.
    pub fn draw(rng: &mut Rng, scenario: &Scenario, poisoned: bool) -> Self {
        use Ending::{Failed, Items, Lie as Lies, NotSent, NotSentText, Refused, Reset, TimedOut};
        use Lie::{Action, Document, Long, Page, Short, Torn};
        if rng.percent(scenario.outage) {
            return Self { carried_out: false, ending: rng.one_of(&[NotSent, NotSentText]) };
        }
        if !rng.percent(scenario.faults) {
            let ending = if poisoned { Refused(400) } else { Items };
            return Self { carried_out: !poisoned, ending };
        }
        let lie = Lies(rng.one_of(&[Short, Long, Torn, Page, Action, Document]));
        let refused = Refused(rng.one_of(&[429, 429, 400, 401, 403, 413, 500, 503]));
        let unknown = rng.one_of(&[Failed, Failed, Reset, TimedOut]);
        let ending = rng.one_of(&[lie, refused, refused, unknown, unknown, NotSent, NotSentText]);
        let carried_out = match ending {
            Items | Lies(_) => true,
            Failed | Reset | TimedOut => rng.percent(50),
            Refused(_) | NotSent | NotSentText => false,
        };
        Self { carried_out, ending }
    }
}

impl Ending {
    pub fn name(self) -> String {
        match self {
            Self::Lie(lie) => format!("lie {lie:?}").to_lowercase(),
            Self::Refused(status) => format!("refused {status}"),
            other => format!("{other:?}").to_lowercase(),
        }
    }

    /// Returns whether the node's answer does not return.
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Failed | Self::Reset | Self::TimedOut)
    }

    /// Returns the outcome that the clients may see, given the node's response.
    pub fn ended(self, response: &Rc<Response>) -> Ended {
        match self {
            Self::Items => Ended::Items(Rc::clone(response)),
            Self::Lie(_) => Ended::Lie(Rc::clone(response)),
            Self::Refused(_) => Ended::Refused(Rc::clone(response)),
            Self::NotSent | Self::NotSentText => Ended::NotSent,
            Self::Failed | Self::Reset => Ended::Unknown(503),
            Self::TimedOut => Ended::Unknown(504),
        }
    }

    /// Returns the response to a request for a single document, if there is one, built from the item of its operation.
    pub fn original_response(self, item: Option<&str>, operation: &Operation) -> Option<Response> {
        match self {
            Self::Items => {
                let DocumentAnswer { status, location, body } = DocumentAnswer::of(item?, operation)?;
                // The item in the batch's answer lacks this.
                let body = body.replacen('{', r#"{"itself":true,"#, 1).into_bytes();
                let location = location.map(|location| (LOCATION.to_owned(), location));
                let headers = headers("application/json").iter().cloned().chain(location).collect();
                Some(Response { status, headers, body })
            }
            Self::Lie(_) => Some(Lie::Page.response(&[])),
            other => other.response(&[]),
        }
    }

    /// Returns the response to the call, if there is one, built from the node's items.
    pub fn response(self, items: &[String]) -> Option<Response> {
        match self {
            Self::Items => Some(bulk(items)),
            Self::Lie(lie) => Some(lie.response(items)),
            Self::Refused(status) => Some(refusal(status)),
            Self::NotSentText => Some(envoys(503, &format!("{RESET}connection timeout"))),
            Self::Reset => Some(envoys(503, &format!("{RESET}connection termination"))),
            Self::TimedOut => Some(envoys(504, "upstream request timeout")),
            Self::NotSent | Self::Failed => None,
        }
    }
}

/// The error of a node that is overloaded.
pub const OVERLOADED: &str = "es_rejected_execution_exception";

const RESET: &str = "upstream connect error or disconnect/reset before headers. reset reason: ";

impl Lie {
    fn response(self, items: &[String]) -> Response {
        let mut items = items.to_vec();
        match self {
            Self::Short => drop(items.pop()),
            Self::Long => items.extend(items.first().cloned()),
            Self::Action => items.iter_mut().take(1).for_each(|item| *item = other_action(item)),
            // An id that the cluster generated cannot be told from another, and a pipeline may have changed it.
            Self::Document => {
                match items.iter_mut().find(|item| !item.contains(r#""_id":"made-"#) && !is_ingested(item)) {
                    Some(item) => *item = with_another_id(item),
                    None => drop(items.pop()),
                }
            }
            Self::Torn | Self::Page => {}
        }
        let mut response = bulk(&items);
        match self {
            Self::Torn => response.body.truncate(response.body.len() / 2),
            Self::Page => response.body = b"<html>hello</html>".to_vec(),
            _ => {}
        }
        response
    }
}

/// Returns an item with another id, as a pipeline that is newer than the last poll would choose it.
pub fn with_another_id(item: &str) -> String {
    item.replace(r#""_id":""#, r#""_id":"not "#)
}

/// Returns whether an item is for an operation under a pipeline.
fn is_ingested(item: &str) -> bool {
    item.contains(INGESTED)
}

fn other_action(item: &str) -> String {
    match item.strip_prefix(r#"{"delete""#) {
        Some(rest) => format!(r#"{{"index"{rest}"#),
        None => item
            .find(':')
            .and_then(|colon| item.get(colon..))
            .map_or(String::new(), |rest| format!(r#"{{"delete"{rest}"#)),
    }
}

/// A header for warnings, of which each node may add one.
pub const WARNING: &str = "warning";

/// A header with the path of a new document.
pub const LOCATION: &str = "location";

/// A header that identifies an answer.
pub const CALL: &str = "x-call";

/// A header that clients check.
pub const PRODUCT: (&str, &str) = ("x-elastic-product", "Elasticsearch");

fn headers(content_type: &str) -> Headers {
    [("content-type", content_type), PRODUCT, ("server", "envoy")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

fn bulk(items: &[String]) -> Response {
    let errors = items.iter().any(|item| item.contains(r#""error""#));
    let ingest_took = if items.iter().any(|item| is_ingested(item)) { r#""ingest_took":2,"# } else { "" };
    let body = format!(r#"{{"took":3,{ingest_took}"errors":{errors},"items":[{}]}}"#, items.join(","));
    Response { status: 200, headers: headers("application/json"), body: body.into_bytes() }
}

/// Returns the type of the error with which a node refuses a whole batch.
pub fn refusal_type(status: u16) -> String {
    if status == 429 { OVERLOADED.to_owned() } else { format!("refused_{status}") }
}

fn refusal(status: u16) -> Response {
    let error = format!(r#"{{"type":"{}","reason":"a node refused"}}"#, refusal_type(status));
    let body = format!(r#"{{"error":{error},"status":{status}}}"#);
    Response { status, headers: headers("application/json"), body: body.into_bytes() }
}

/// Returns a response that Envoy generates in a node's name.
pub fn envoys(status: u16, text: &str) -> Response {
    let headers = [("content-type".to_owned(), "text/plain".to_owned())].into();
    Response { status, headers, body: text.as_bytes().to_vec() }
}
