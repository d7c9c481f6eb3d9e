use super::Response;
use super::metrics::{Counter, Gauge};

/// A request of a client. The caller of the engine chooses the number, and never uses it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u32);

/// A call that the engine asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u32);

/// What happens to the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A request's headers have arrived.
    RequestHead {
        /// Whose.
        request: RequestId,
        /// All of them, with `:method` and `:path`.
        headers: Vec<(String, Vec<u8>)>,
        /// Whether that is all of it.
        end: bool,
    },
    /// A piece of a request's body has arrived, and was taken out of the stream.
    RequestData {
        /// Whose.
        request: RequestId,
        /// The piece.
        chunk: Vec<u8>,
        /// Whether it was the last.
        end: bool,
    },
    /// A request's body has ended, with trailers.
    RequestEnd {
        /// Whose.
        request: RequestId,
    },
    /// A request is over: it was answered, it passed through, or its client has gone.
    RequestGone {
        /// Which.
        request: RequestId,
    },
    /// A call was answered, by its upstream or by Envoy in its name.
    CallAnswered {
        /// Which.
        call: CallId,
        /// With what.
        response: Response,
    },
    /// A call ended without an answer that could be read. It may have been carried out.
    CallFailed {
        /// Which.
        call: CallId,
    },
    /// A call could not be sent: no such upstream, no healthy host in it, or too many requests to it.
    CallNotSent {
        /// Which.
        call: CallId,
    },
    /// What was to be measured.
    Measured {
        /// Who wanted to know.
        request: RequestId,
        /// Each counter with what it is at.
        counters: Vec<(Counter, u64)>,
        /// Each gauge with what it is at.
        gauges: Vec<(Gauge, u64)>,
    },
    /// The timer has run out; an early tick does no harm.
    Tick,
    /// The wake-up that was asked for.
    Woken,
}
