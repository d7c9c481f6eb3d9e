use std::rc::Rc;
use std::time::Duration;

use super::metrics::{Counter, Gauge};
use super::{CallId, RequestId};

/// What the caller of the engine has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Let the request flow on to the route's own upstream, headers and body, now and for the rest of it. Only from
    /// [`poll_stream`](super::Engine::poll_stream), always for the request that was just handled.
    PassThrough {
        /// Which one.
        request: RequestId,
        /// What was taken out of its body, to be put back as it came.
        body: Vec<Vec<u8>>,
    },
    /// Let the request's headers go on to the next filter, and keep its body. From
    /// [`poll_stream`](super::Engine::poll_stream), for the request whose headers were just handled.
    PassHeaders {
        /// Which one.
        request: RequestId,
    },
    /// Let a request go on whose headers were held back. Whatever comes of its body has to be handed in still.
    Resume {
        /// Which one.
        request: RequestId,
    },
    /// Send a request to an upstream and hand in what comes of it.
    Call(Call),
    /// Answer a request.
    Reply {
        /// Which one.
        request: RequestId,
        /// With what.
        response: Response,
    },
    /// Call [`handle`](super::Engine::handle) with [`Input::Woken`](super::Input::Woken) as soon as possible, from
    /// a callback in which calls and replies can be made.
    Wake,
    /// Hand in [`Input::Tick`](super::Input::Tick) after this time; replaces what was set before.
    SetTimer(Duration),
    /// Hand in what Envoy has for these, over all workers, as [`Input::Measured`](super::Input::Measured).
    Measure {
        /// Who wants to know.
        request: RequestId,
        /// Counters.
        counters: Vec<Counter>,
        /// Gauges.
        gauges: Vec<Gauge>,
    },
    /// Keep this of a request for the access log. Before the request passes through or is answered.
    Note {
        /// Which one.
        request: RequestId,
        /// What it is.
        field: &'static str,
        /// How that is.
        value: String,
    },
    /// Tell the operator.
    Warn(String),
}

/// The headers of a message, shared by all that are sent with the same.
pub type Headers = Rc<[(String, String)]>;

/// An HTTP request to an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Names it in the input that follows.
    pub id: CallId,
    /// Envoy's cluster.
    pub upstream: Rc<str>,
    /// With `:method`, `:path` and `:authority`; without `content-length`.
    pub headers: Headers,
    /// Empty for none.
    pub body: Vec<u8>,
    /// After which the answer no longer counts.
    pub timeout: Duration,
}

/// An HTTP response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Without `:status`.
    pub headers: Headers,
    /// The body.
    pub body: Vec<u8>,
}
