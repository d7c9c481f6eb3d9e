use std::rc::Rc;

use bulk_reshuffle::engine::{Headers, Response};

use crate::dice::Dice;
use crate::scenario::Scenario;

/// What is going to become of a call with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fate {
    /// Whether a node carries it out, even if nobody hears of it.
    pub carried_out: bool,
    /// What comes back.
    pub ending: Ending,
}

/// How a call comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// With the node's own items.
    #[default]
    Items,
    /// With an answer that does not fit what was sent.
    Lie(Lie),
    /// Refused as a whole.
    Refused(u16),
    /// It could not be sent, which shows at once.
    NotSent,
    /// It could not be sent, which Envoy says in a response.
    NotSentText,
    /// Without an answer that could be read: lost, or too large.
    Failed,
    /// The connection broke, in Envoy's words.
    Reset,
    /// It took too long, in Envoy's words.
    TimedOut,
}

/// How an answer fails to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lie {
    /// Its last item is missing.
    #[default]
    Short,
    /// It has an item too many.
    Long,
    /// It is cut off in the middle.
    Torn,
    /// It is not what bulk requests are answered with.
    Page,
    /// An item is for another action.
    Action,
    /// An item is for another document.
    Document,
}

/// What became of a call with a batch, as its senders may be told.
#[derive(Debug, Clone)]
pub enum Ended {
    /// The node's items, in the order of the batch, in this response.
    Items(Rc<Response>),
    /// An answer that is none of its senders' business, unless there is one alone.
    Lie(Rc<Response>),
    /// Refused; nothing was carried out.
    Refused(Rc<Response>),
    /// It never reached a node.
    NotSent,
    /// It may have been carried out; the status for its items.
    Unknown(u16),
}

impl Fate {
    /// Draws one of a call; a node refuses what is poisoned.
    pub fn draw(dice: &mut Dice, scenario: &Scenario, poisoned: bool) -> Self {
        use Ending::{Failed, Items, Lie as Lies, NotSent, NotSentText, Refused, Reset, TimedOut};
        use Lie::{Action, Document, Long, Page, Short, Torn};
        if dice.percent(scenario.outage) {
            return Self { carried_out: false, ending: dice.one_of(&[NotSent, NotSentText]) };
        }
        if !dice.percent(scenario.faults) {
            let ending = if poisoned { Refused(400) } else { Items };
            return Self { carried_out: !poisoned, ending };
        }
        let lie = Lies(dice.one_of(&[Short, Long, Torn, Page, Action, Document]));
        let refused = Refused(dice.one_of(&[429, 429, 400, 401, 403, 413, 500, 503]));
        let unknown = dice.one_of(&[Failed, Failed, Reset, TimedOut]);
        let ending = dice.one_of(&[lie, refused, refused, unknown, unknown, NotSent, NotSentText]);
        let carried_out = match ending {
            Items | Lies(_) => true,
            Failed | Reset | TimedOut => dice.percent(50),
            Refused(_) | NotSent | NotSentText => false,
        };
        Self { carried_out, ending }
    }
}

impl Ending {
    /// For the counts.
    pub fn name(self) -> String {
        match self {
            Self::Lie(lie) => format!("lie {lie:?}").to_lowercase(),
            Self::Refused(status) => format!("refused {status}"),
            other => format!("{other:?}").to_lowercase(),
        }
    }

    /// Whether no word of a node's comes back.
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Failed | Self::Reset | Self::TimedOut)
    }

    /// What the senders may be told, given the node's response.
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

    /// The response that comes back, if one does; made of the node's items.
    pub fn response(self, items: &[String]) -> Option<Response> {
        match self {
            Self::Items => Some(bulk(items)),
            Self::Lie(lie) => Some(lie.response(items)),
            Self::Refused(status) => Some(refusal(status)),
            Self::NotSentText => Some(envoys(503, &format!("{RESET}remote connection failure"))),
            Self::Reset => Some(envoys(503, &format!("{RESET}connection termination"))),
            Self::TimedOut => Some(envoys(504, "upstream request timeout")),
            Self::NotSent | Self::Failed => None,
        }
    }
}

const RESET: &str = "upstream connect error or disconnect/reset before headers. reset reason: ";

impl Lie {
    fn response(self, items: &[String]) -> Response {
        let mut items = items.to_vec();
        match self {
            Self::Short => drop(items.pop()),
            Self::Long => items.extend(items.first().cloned()),
            Self::Action => items.iter_mut().take(1).for_each(|item| *item = other_action(item)),
            // Nobody can tell an id that the cluster made from another.
            Self::Document => match items.iter_mut().find(|item| !item.contains(r#""_id":"made-"#)) {
                Some(item) => *item = item.replace(r#""_id":""#, r#""_id":"not "#),
                None => drop(items.pop()),
            },
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

fn other_action(item: &str) -> String {
    match item.strip_prefix(r#"{"delete""#) {
        Some(rest) => format!(r#"{{"index"{rest}"#),
        None => item
            .find(':')
            .and_then(|colon| item.get(colon..))
            .map_or(String::new(), |rest| format!(r#"{{"delete"{rest}"#)),
    }
}

/// A header that tells of something that each node may have to say.
pub const WARNING: &str = "warning";

/// A header that tells one answer from another.
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
    let body = format!(r#"{{"took":3,"errors":{errors},"items":[{}]}}"#, items.join(","));
    Response { status: 200, headers: headers("application/json"), body: body.into_bytes() }
}

fn refusal(status: u16) -> Response {
    let error = format!(r#"{{"type":"refused_{status}","reason":"a node refused"}}"#);
    let body = format!(r#"{{"error":{error},"status":{status}}}"#);
    Response { status, headers: headers("application/json"), body: body.into_bytes() }
}

/// What Envoy says in a node's name.
pub fn envoys(status: u16, text: &str) -> Response {
    let headers = [("content-type".to_owned(), "text/plain".to_owned())].into();
    Response { status, headers, body: text.as_bytes().to_vec() }
}
