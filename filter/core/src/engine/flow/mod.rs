//! The steps of the engine, in the order in which they handle a request and its answers.
//!
//! 1. `intake`: accepts a request, reads its body as it arrives, splits it, and holds its shares;
//! 2. `dispatch`: sends batches, and queries of the cluster state;
//! 3. `answers`: handles the end of a call: retries, refusals, and the reply once all shares have an outcome;
//! 4. `results`: assigns the items of a batch's answer to its shares;
//! 5. `realign`: does the same where items cannot be identified by their position;
//! 6. `redirect`: moves the shares held for a node that has left the cluster to the coordinating upstream;
//! 7. `late`: moves the shares held for shards that may be slow to holds of their own.
//!
//! `gauges` and `access_log` report these steps to operators.

mod access_log;
mod answers;
mod dispatch;
mod gauges;
mod intake;
mod late;
mod realign;
mod redirect;
mod results;

pub(crate) use intake::{admit, room};
