use serde::Serialize;

use crate::engine::pass_through::PassThrough;
use crate::routing::Unrouted;

/// A reason, as a label value and as a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Why {
    /// Its label value in metrics.
    pub reason: &'static str,
    /// Its meaning.
    pub text: &'static str,
}

impl From<PassThrough> for Why {
    fn from(why: PassThrough) -> Self {
        Self { reason: why.name(), text: why.text() }
    }
}

impl From<Unrouted> for Why {
    fn from(why: Unrouted) -> Self {
        PassThrough::Unrouted(why).into()
    }
}
