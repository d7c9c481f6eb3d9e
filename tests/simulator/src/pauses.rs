use crate::violation::{Promise, Violation};

/// A body that comes so soon after its headers were let go, in milliseconds, was waiting behind them.
const AT_ONCE: u64 = 20;

/// What an engine can know of how Envoy treats a request whose headers are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pauses {
    /// Nothing yet: it has to find out.
    Unknown,
    /// The body comes.
    Stop,
    /// The body is held back too, so that headers have to go on at once.
    Go,
}

impl Pauses {
    /// As configured.
    pub fn new(header_pause: &str) -> Self {
        match header_pause {
            "stop" => Self::Stop,
            "buffer" => Self::Go,
            _ => Self::Unknown,
        }
    }

    /// A request's headers are held back.
    pub fn held(self, number: usize) -> Result<(), Violation> {
        self.unless(self != Self::Go, number, "are held back")
    }

    /// A request's headers go on at once.
    pub fn gone(self, number: usize) -> Result<(), Violation> {
        self.unless(self == Self::Go, number, "go on at once")
    }

    /// A request's headers are let go after they were held back.
    pub fn let_go(self, number: usize) -> Result<(), Violation> {
        self.unless(self != Self::Stop, number, "are let go, although its body will come")
    }

    /// A piece of a body is there; when its headers were let go before, so many milliseconds after that.
    pub fn body(&mut self, after: Option<u64>) {
        *self = match (*self, after) {
            (Self::Unknown, None) => Self::Stop,
            (Self::Unknown, Some(after)) if after <= AT_ONCE => Self::Go,
            (known, _) => known,
        };
    }

    fn unless(self, holds: bool, number: usize, what: &str) -> Result<(), Violation> {
        Violation::unless(holds, Promise::HeaderPause, || {
            format!("the headers of request {number} {what}; what can be known is {self:?}")
        })
    }
}
