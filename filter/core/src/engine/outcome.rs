use std::rc::Rc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::memory::{Charge, Memory};
use super::reply::carried;
use super::{Headers, Response};
use crate::bulk::{Answer, ErrorItem};

/// What became of some operations of a share.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The node answered: their items stand in a row.
    Items {
        /// The answer to the batch.
        answer: Rc<NodeAnswer>,
        /// Where the first of their items is.
        first: usize,
    },
    /// The answer to a request that travelled alone and unsplit: it is the request's, as it is.
    Whole(Rc<Response>),
    /// A response that is no answer to a bulk request.
    Refused(Rc<Refusal>),
    /// Nobody knows whether they were carried out.
    Unknown {
        /// The status for their items.
        status: u16,
        /// The error for their items.
        error: Rc<RawValue>,
    },
}

/// A node's answer to a batch, shared by the requests in it.
#[derive(Debug)]
pub struct NodeAnswer {
    /// Those of the response's headers that say something about it.
    pub headers: Headers,
    /// Its body, with the items cut apart.
    pub answer: Answer,
    /// It is kept until the last of the requests in it is answered.
    _charge: Charge,
}

/// A node's refusal of a batch.
#[derive(Debug)]
pub struct Refusal {
    /// As it came.
    pub response: Response,
    /// What stands for it in an item.
    pub error: Box<RawValue>,
}

#[derive(Deserialize)]
struct Error {
    error: Box<RawValue>,
}

impl NodeAnswer {
    /// An answer that is here now.
    pub fn new(headers: &Headers, answer: Answer, memory: &Memory) -> Self {
        Self { headers: carried(headers), _charge: memory.charge(answer.memory()), answer }
    }
}

impl From<Response> for Refusal {
    /// With the node's own error object where there is one.
    fn from(response: Response) -> Self {
        let error = match serde_json::from_slice::<Error>(&response.body) {
            Ok(Error { error }) => error,
            Err(_) => ErrorItem::error("bulk_refused_exception", "the node refused the operations without saying why"),
        };
        Self { response, error }
    }
}
