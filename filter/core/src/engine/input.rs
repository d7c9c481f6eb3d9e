use crate::engine::command::{CallId, RequestId, Response};
use crate::engine::metrics::{Counter, Gauge};

/// An event that the shell passes to the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A request's headers have arrived.
    RequestHead {
        /// The request.
        request: RequestId,
        /// All headers, including `:method` and `:path`.
        headers: Vec<(String, Vec<u8>)>,
        /// The Envoy cluster of its route. `None` for a direct response or a redirect, or if the proxy does not report
        /// it.
        route: Option<Vec<u8>>,
        /// Whether the request ends here, without a body.
        end: bool,
    },
    /// A chunk of a request's body has arrived and was taken out of the stream.
    RequestData {
        /// The request.
        request: RequestId,
        /// Its bytes.
        chunk: Vec<u8>,
        /// Whether it is the last chunk.
        end: bool,
    },
    /// A request's body has ended, with trailers.
    RequestEnd {
        /// The request.
        request: RequestId,
    },
    /// A chunk of the answer to an observed request passes by.
    AnswerData {
        /// The request.
        request: RequestId,
        /// Its bytes.
        chunk: Vec<u8>,
    },
    /// A request that passed through is about to be over.
    Passed {
        /// The request.
        request: RequestId,
        /// The address of the upstream host to which it has gone, such as `10.0.0.7:9200`; empty if to none.
        address: String,
        /// The status of its answer; 0 if there was none.
        status: u16,
    },
    /// A request is over: it was answered, it passed through, or its client disconnected.
    RequestGone {
        /// The request.
        request: RequestId,
    },
    /// A call was answered, by its upstream or by Envoy on its behalf.
    CallAnswered {
        /// The call.
        call: CallId,
        /// The whole response.
        response: Response,
    },
    /// A call ended without a readable answer. The node may have carried it out.
    CallFailed {
        /// The call.
        call: CallId,
    },
    /// A call could not be sent: the upstream does not exist, has no healthy host, or has too many requests.
    CallNotSent {
        /// The call.
        call: CallId,
        /// Whether Envoy has an upstream of this name.
        has_upstream: bool,
    },
    /// The metrics that [`Command::Measure`](super::Command::Measure) requested.
    Measured {
        /// The status request that needs them.
        request: RequestId,
        /// Each counter with its value.
        counters: Vec<(Counter, u64)>,
        /// Each gauge with its value.
        gauges: Vec<(Gauge, u64)>,
    },
    /// The timer has expired. An early tick does no harm.
    Tick,
    /// The wake-up that [`Command::Wake`](super::Command::Wake) requested.
    Woken,
}
