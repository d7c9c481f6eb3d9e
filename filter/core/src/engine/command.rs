use std::rc::Rc;
use std::time::Duration;

use crate::engine::metrics::{Counter, Gauge};

/// The number of a client's request. The shell chooses it, and never uses it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u32);

/// The number of a call to an upstream. The engine chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u32);

/// What the engine asks the shell to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Let the request continue to the upstream of its route, headers and body, now and for the rest of it. Comes only
    /// from [`poll_stream`](super::Engine::poll_stream), and always for the request whose input was just handled.
    PassThrough {
        /// The request.
        request: RequestId,
        /// The chunks that were taken out of its body, to be put back unchanged and in this order.
        body: Vec<Vec<u8>>,
    },
    /// Let the request's headers continue to the next filter, and keep its body. Comes from
    /// [`poll_stream`](super::Engine::poll_stream), for the request whose headers were just handled.
    PassHeaders {
        /// The request.
        request: RequestId,
    },
    /// Let the headers of a request continue that were held back. The shell still has to hand in its body.
    Resume {
        /// The request.
        request: RequestId,
    },
    /// Send a request to an upstream, and hand in the answer or the failure.
    Call(Call),
    /// Answer a client's request.
    Reply {
        /// The request.
        request: RequestId,
        /// The whole response.
        response: Response,
    },
    /// Call [`handle`](super::Engine::handle) with [`Input::Woken`](super::Input::Woken) as soon as possible, from a
    /// callback that can send calls and replies.
    Wake,
    /// Hand in [`Input::Tick`](super::Input::Tick) after this time. Replaces the timer that was set before.
    SetTimer(Duration),
    /// Read these metrics from Envoy, summed over all workers, and hand them in as
    /// [`Input::Measured`](super::Input::Measured).
    Measure {
        /// The request for the status that needs them.
        request: RequestId,
        /// The counters to read.
        counters: Vec<Counter>,
        /// The gauges to read.
        gauges: Vec<Gauge>,
    },
    /// Set a field of a request's access log. Comes before the request passes through or is answered.
    Note {
        /// The request.
        request: RequestId,
        /// The field's name.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// Write a warning to Envoy's log.
    Warn(String),
}

/// The headers of a message, in lower case. Messages with equal headers share them.
pub type Headers = Rc<[(String, String)]>;

/// An HTTP request to an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its number, which the answer or the failure names.
    pub id: CallId,
    /// The name of the Envoy cluster.
    pub upstream: Rc<str>,
    /// With `:method`, `:path` and `:authority`; without `content-length`.
    pub headers: Headers,
    /// The body; empty if the request has none.
    pub body: Vec<u8>,
    /// The time after which Envoy gives up.
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
