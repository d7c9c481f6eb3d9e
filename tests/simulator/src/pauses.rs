use crate::violation::{Promise, Violation};

/// The longest delay, in milliseconds, after which a body was waiting behind the headers that were let go.
const AT_ONCE: u64 = 20;

/// An engine's possible knowledge of how Envoy treats a request whose headers are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pauses {
    /// Nothing is known yet: the engine must find out.
    Unknown,
    /// A body came at once after its headers were let go: it was held back with them, or its client is slow. The engine
    /// must find out by a longer pause.
    Suspected,
    /// The body arrives.
    Stop,
    /// The body is held back too, so that the headers must continue at once.
    Go,
}

impl Pauses {
    /// Returns the knowledge that the configuration provides.
    pub fn new(header_pause: &str) -> Self {
        match header_pause {
            "stop" => Self::Stop,
            "buffer" => Self::Go,
            _ => Self::Unknown,
        }
    }

    pub fn held(self, number: usize) -> Result<(), Violation> {
        self.unless(self != Self::Go, number, "are held back")
    }

    pub fn gone(self, number: usize) -> Result<(), Violation> {
        self.unless(self == Self::Go, number, "go on at once")
    }

    /// Checks that a request's headers may be let go after they were held back.
    pub fn let_go(self, number: usize) -> Result<(), Violation> {
        self.unless(self != Self::Stop, number, "are let go, although its body will come")
    }

    /// Records that a piece of a body has arrived, and how many milliseconds after its headers were let go, if they
    /// were. `was_suspected` is the knowledge when the headers came.
    pub fn body(&mut self, after: Option<u64>, was_suspected: bool) {
        *self = match (*self, after) {
            (Self::Unknown | Self::Suspected, None) => Self::Stop,
            (Self::Unknown | Self::Suspected, Some(after)) if after <= AT_ONCE => match was_suspected {
                true => Self::Go,
                false => Self::Suspected,
            },
            (known, _) => known,
        };
    }

    fn unless(self, holds: bool, number: usize, what: &str) -> Result<(), Violation> {
        Violation::unless(holds, Promise::HeaderPause, || {
            format!("the headers of request {number} {what}; the engine's possible knowledge is {self:?}")
        })
    }
}
