//! Reads a node's answer, or its absence, into a [`Verdict`] on the operations of a batch.
//!
//! It changes nothing: it may look at the requests of the batch, and at the memory that is left.

mod failure;
mod misplaced;
mod reading;
mod verdict;

pub use failure::Failure;
pub use reading::{Reading, ending, has_errors, reveals_a_change};
pub use verdict::{Items, Misplaced, Verdict};
