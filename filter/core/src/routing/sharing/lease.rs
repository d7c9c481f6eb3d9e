use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::content::Part;
use crate::Time;
use crate::routing::table::Version;

/// What workers tell one another of the table, in one value of their shared data: who is at it, and what was
/// published last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lease {
    /// The worker that had it last.
    pub holder: u64,
    /// Whether it has it still, and is asking the cluster.
    pub is_held: bool,
    /// Grows whenever the holder does something.
    pub beat: u32,
    /// Grows whenever a holder gives it back, so that the others notice the end of a cycle although the next has begun.
    pub returns: u32,
    /// The state that was read completely last.
    pub known: Option<Version>,
    /// The tag of each part, never used for anything else.
    pub parts: BTreeMap<Part, u64>,
}

/// Watches the lease of another worker, without a clock that both have.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    seen: Option<(u64, u32)>,
    since: Time,
    returns: Option<u32>,
}

impl Watch {
    /// Takes in the lease as it is now. Says for how long it has not changed, or `None` if this is a change.
    pub fn look(&mut self, lease: &Lease, now: Time) -> Option<Time> {
        let found = Some((lease.holder, lease.beat));
        if self.seen == found {
            return Some(now.saturating_sub(self.since));
        }
        (self.seen, self.since) = (found, now);
        None
    }

    /// Returns whether the lease was given back since the last call.
    pub fn was_returned(&mut self, lease: &Lease) -> bool {
        self.returns.replace(lease.returns).map_or(!lease.is_held, |returns| returns != lease.returns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_does_not_change_grows_old() {
        let second = Time::from_secs;
        let mut watch = Watch::default();
        let lease = Lease { holder: 7, is_held: true, ..Lease::default() };
        assert_eq!(watch.look(&lease, second(1)), None);
        assert_eq!(watch.look(&lease, second(4)), Some(second(3)));
        assert_eq!(watch.look(&Lease { beat: 1, ..lease.clone() }, second(5)), None);
        assert_eq!(watch.look(&Lease { holder: 8, beat: 1, ..lease }, second(6)), None);
    }

    #[test]
    fn a_lease_that_was_taken_again_at_once_was_returned() {
        let (mut watch, lease) = (Watch::default(), Lease { holder: 7, is_held: true, ..Lease::default() });
        assert!(!watch.was_returned(&lease));
        assert!(!watch.was_returned(&Lease { beat: 5, ..lease.clone() }));
        assert!(watch.was_returned(&Lease { beat: 7, returns: 1, ..lease }));
    }
}
