//! Interprets a node's answer, or its absence, for the operations of a batch.

mod failure;
mod headers;
mod outcome;

pub use failure::Failure;
pub use headers::carried;
pub use outcome::{ItemNumbers, NodeAnswer, Outcome, Refusal, WholeAnswer, shortened};
