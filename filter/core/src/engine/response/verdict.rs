use super::Failure;
use crate::bulk::Answer;
use crate::engine::batching::HeldShare;
use crate::engine::command::{Headers, Response};

/// What an answer, or its absence, means for the operations of a batch.
#[derive(Debug)]
pub enum Verdict {
    /// The batch was one request. This is its answer, unchanged.
    Whole(Response),
    /// Each operation has an item, in order.
    Items(Items),
    /// Some items are not at the positions of their operations.
    Misplaced(Misplaced),
    /// The node is busy, and has carried out nothing. The response is the refusal if the batch is not sent again.
    Busy(Response),
    /// The node refuses the batch, and has carried out nothing.
    Refused(Response),
    /// The node refuses the batch because of one of its requests, and has carried out nothing.
    Separate,
    /// The batch never reached a node.
    NotSent,
    /// The connection was lost.
    Lost {
        /// The shares that may be carried out once more without harm.
        again: Vec<HeldShare>,
        /// The others.
        unknown: Vec<HeldShare>,
    },
    /// Operations may have been carried out or not, for this reason.
    Unknown(Failure),
}

/// An answer whose items are in the order of the operations.
#[derive(Debug)]
pub struct Items {
    /// The headers of the answer.
    pub headers: Headers,
    /// The answer.
    pub answer: Answer,
    /// The operations that the node did not carry out and that may be sent again: for each share, a part of it or none.
    pub again: Vec<Option<HeldShare>>,
    /// Whether the operations were refused together, because of some of them. Then each share is sent again alone.
    pub are_separate: bool,
    /// The operations whose failure says nothing, because an earlier attempt may have been carried out.
    pub uncertain: Vec<HeldShare>,
}

/// An answer whose items are in another order, or have other ids, than the operations.
#[derive(Debug)]
pub struct Misplaced {
    /// The headers of the answer.
    pub headers: Headers,
    /// The answer.
    pub answer: Answer,
    /// The number of its item for each operation; `None` if that is uncertain.
    pub found: Vec<Option<u32>>,
    /// The names of indices in the operations whose positions have no item or another operation's.
    pub names: Vec<String>,
}
