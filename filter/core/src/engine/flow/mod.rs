//! The steps of the engine, in the order of a request and of the answers to it.
//!
//! 1. `intake`: a request is taken in, read as its body comes, split, and its shares are held;
//! 2. `dispatch`: batches leave, and queries about the cluster's state;
//! 3. `answers`: a call has an answer or none: retries, refusals, and the reply once all shares have an outcome;
//! 4. `results`: the items of a batch's answer are handed to its shares;
//! 5. `realign`: the same where items cannot be told by their position;
//! 6. `redirect`: what is held for a node that has left the cluster goes to the coordinating upstream.
//!
//! `gauges` and `access_log` tell operators of it.

mod access_log;
mod answers;
mod dispatch;
mod gauges;
mod intake;
mod realign;
mod redirect;
mod results;

pub(crate) use intake::{admit, room};
