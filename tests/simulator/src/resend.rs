//! The single definition of when an operation may be retried.

use crate::call_outcome::Ended;

/// The maximum number of times that an operation may be sent.
pub const MOST_SENDS: usize = 12;

/// Returns whether an operation may be retried after a call with this outcome; `None` is still in flight. `busy` tells
/// whether a node had no room for it, and `idempotent` whether all of the call may be executed twice.
pub fn may_be_sent_again(ended: Option<&Ended>, busy: bool, idempotent: bool) -> bool {
    match ended {
        // It never reached a node, or was refused with all others: nothing was executed.
        Some(Ended::NotSent | Ended::Refused(_)) => true,
        // A node had no room for it.
        Some(Ended::Items(_)) => busy,
        // It may have been executed, and executing it again has the same effect.
        Some(Ended::Unknown(_)) => idempotent,
        Some(Ended::Lie(_)) | None => false,
    }
}
