use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::content::Part;
use crate::Time;
use crate::routing::table::Version;

/// The state that workers share about the table, in one value of their shared data: the worker that polls, and the
/// parts that were published last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lease {
    /// The last worker that took the lease.
    pub holder: u64,
    /// Whether that worker still has the lease and is polling the cluster.
    pub is_held: bool,
    /// A counter that increases with each action of the holder.
    pub beat: u32,
    /// A counter that increases when a holder returns the lease, so that the others detect the end of a cycle even if
    /// the next has begun.
    pub returns: u32,
    /// A counter that increases when a holder has read a whole state, so that the others know how old theirs is.
    pub successes: u32,
    /// The last state that was read completely.
    pub known: Option<Version>,
    /// The tag of each part. A tag is never reused.
    pub parts: BTreeMap<Part, u64>,
    /// Whether states of several clusters were seen on the way to the last state that was read completely.
    pub has_several_clusters: bool,
}

/// A watch on the lease of another worker that needs no common clock.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    seen: Option<(u64, u32)>,
    since: Time,
    returns: Option<u32>,
    successes: u32,
}

impl Watch {
    /// Records the current lease. Returns how long it has been unchanged, or `None` if it has changed.
    pub fn look(&mut self, lease: &Lease, now: Time) -> Option<Time> {
        let found = Some((lease.holder, lease.beat));
        if self.seen == found {
            return Some(now.saturating_sub(self.since));
        }
        (self.seen, self.since) = (found, now);
        None
    }

    /// Returns whether a whole state was read since the last call.
    pub fn has_succeeded(&mut self, lease: &Lease) -> bool {
        std::mem::replace(&mut self.successes, lease.successes) != lease.successes
    }

    /// Returns whether the lease was returned since the last call.
    pub fn was_returned(&mut self, lease: &Lease) -> bool {
        self.returns.replace(lease.returns).map_or(!lease.is_held, |returns| returns != lease.returns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unchanged_lease_ages() {
        let second = Time::from_secs;
        let mut watch = Watch::default();
        let lease = Lease { holder: 7, is_held: true, ..Lease::default() };
        assert_eq!(watch.look(&lease, second(1)), None);
        assert_eq!(watch.look(&lease, second(4)), Some(second(3)));
        assert_eq!(watch.look(&Lease { beat: 1, ..lease.clone() }, second(5)), None);
        assert_eq!(watch.look(&Lease { holder: 8, beat: 1, ..lease }, second(6)), None);
    }

    #[test]
    fn detects_the_return_of_a_lease_that_was_retaken_at_once() {
        let (mut watch, lease) = (Watch::default(), Lease { holder: 7, is_held: true, ..Lease::default() });
        assert!(!watch.was_returned(&lease));
        assert!(!watch.was_returned(&Lease { beat: 5, ..lease.clone() }));
        assert!(watch.was_returned(&Lease { beat: 7, returns: 1, ..lease }));
    }
}
