use std::rc::Rc;
use std::time::Duration;

use crate::engine::metrics::{Counter, Gauge};

/// The number of a client's request. The shell chooses it and never reuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u32);

/// The number of a call to an upstream. The engine chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u32);

/// An action for the shell to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Let the whole request, headers and body, continue to the upstream of its route, including the part of the body
    /// that is still to come. Comes only from [`poll_stream`](super::Engine::poll_stream), and always for the request
    /// whose input was just handled.
    PassThrough {
        /// The request.
        request: RequestId,
        /// The chunks that were taken out of its body. Put them back unchanged and in this order.
        body: Vec<Vec<u8>>,
    },
    /// Let the whole request continue, as it arrives, and pass copies of its body and its end to the engine. Comes from
    /// [`poll_stream`](super::Engine::poll_stream), for the request whose headers were just handled.
    Observe {
        /// The request.
        request: RequestId,
    },
    /// Let the request's headers continue to the next filter, but hold its body back. Comes from
    /// [`poll_stream`](super::Engine::poll_stream), for the request whose headers were just handled.
    PassHeaders {
        /// The request.
        request: RequestId,
    },
    /// Let a request's headers continue that were held back. The shell must still pass its body to the engine.
    Resume {
        /// The request.
        request: RequestId,
    },
    /// Send a request to an upstream, and pass the answer or the failure to the engine.
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
    /// Pass in [`Input::Tick`](super::Input::Tick) after this time. Replaces the previous timer.
    SetTimer(Duration),
    /// Read these metrics from Envoy, summed over all workers, and pass them in as
    /// [`Input::Measured`](super::Input::Measured).
    Measure {
        /// The status request that needs them.
        request: RequestId,
        /// The counters to read.
        counters: Vec<Counter>,
        /// The gauges to read.
        gauges: Vec<Gauge>,
    },
    /// Set a field of a request's access log. Comes before the request passes through or is answered.
    LogField {
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

/// The headers of a message, with lower-case names. Messages with equal headers share them.
pub type Headers = Rc<[(String, String)]>;

/// An HTTP request to an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The call's number, which identifies its answer or failure.
    pub id: CallId,
    /// The name of the Envoy cluster.
    pub upstream: Rc<str>,
    /// The headers, with `:method`, `:path` and `:authority`, but without `content-length`.
    pub headers: Headers,
    /// One more header and its value, which names the node if the Envoy cluster has all nodes.
    pub node: Option<(Rc<str>, Rc<str>)>,
    /// The body; empty if the request has none.
    pub body: Vec<u8>,
    /// The time after which Envoy aborts the call.
    pub timeout: Duration,
}

/// An HTTP response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers, without `:status`.
    pub headers: Headers,
    /// The body.
    pub body: Vec<u8>,
}
