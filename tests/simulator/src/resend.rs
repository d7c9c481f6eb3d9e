//! When an operation may be sent again: the one place that knows.

use crate::fate::Ended;

/// How often an operation may be sent in all.
pub const MOST_SENDS: usize = 12;

/// Whether an operation may be sent again after a call that ended so; `None`: it is still on its way. `busy`
/// says whether a node had no room for it, `idempotent` whether all that was in the call may be carried out twice.
pub fn may_be_sent_again(ended: Option<&Ended>, busy: bool, idempotent: bool) -> bool {
    match ended {
        // It surely never reached a node, or was refused with all others: nothing was carried out.
        Some(Ended::NotSent | Ended::Refused(_)) => true,
        // A node had no room for it.
        Some(Ended::Items(_)) => busy,
        // It may have been carried out, and once more comes to the same.
        Some(Ended::Unknown(_)) => idempotent,
        Some(Ended::Lie(_)) | None => false,
    }
}
