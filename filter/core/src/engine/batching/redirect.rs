use super::queue::QueueEntry;
use super::{HeldShare, Hold, Holds, Key, Moved};
use crate::Time;
use crate::engine::command::RequestId;
use crate::engine::head::SlotClass;
use crate::routing::UpstreamId;

/// The shares and batches that were redirected to another upstream.
#[derive(Debug, Default)]
pub struct Redirected {
    /// The shares that are held for another upstream now.
    pub shares: Vec<Moved>,
    /// The minimum number of batches in which they would have left.
    pub batches: usize,
}

impl Holds {
    /// Redirects everything that waits for this upstream to the coordinator, if its request still exists.
    /// Batches in flight are not affected.
    pub fn redirect(&mut self, from: UpstreamId, now: Time, is_here: impl Fn(RequestId) -> bool) -> Redirected {
        let mut redirected = Redirected::default();
        self.ready.put_back(self.slots.take_all(from));
        let is_held =
            |queue_entry: &QueueEntry| matches!(queue_entry, QueueEntry::Hold((to, _), _) if to.upstream == from);
        self.ready.retain(|queue_entry| !is_held(queue_entry));
        let mut keys: Vec<Key> = self.holds.keys().filter(|(to, _)| to.upstream == from).copied().collect();
        keys.sort_unstable();
        for key in keys {
            let Some((class, shares)) = self.empty(key, &is_here) else { continue };
            redirected.batches = redirected.batches.saturating_add(usize::from(!shares.is_empty()));
            let destination = key.0.at_coordinator();
            let moved = |held: &HeldShare| Moved { request: held.request, share: held.share, destination };
            redirected.shares.extend(shares.iter().map(moved));
            self.join((destination, key.1), class, shares, now);
        }
        let again = self.ready.batches_mut().chain(self.delayed.values_mut());
        let batches = again.filter(|batch| batch.upstream == from);
        let mut settled = Vec::new();
        for batch in batches {
            batch.upstream = UpstreamId::COORDINATOR;
            redirected.batches = redirected.batches.saturating_add(1);
            settled.extend(batch.hold.take());
        }
        settled.into_iter().for_each(|key| self.settled(key, now));
        redirected
    }

    /// Takes all shares out of a hold, which is no longer queued.
    fn empty(&mut self, key: Key, is_here: impl Fn(RequestId) -> bool) -> Option<(SlotClass, Vec<HeldShare>)> {
        let hold = self.holds.get_mut(&key)?;
        let (class, shares) = (hold.class, hold.empty());
        if hold.in_flight == 0 {
            self.remove(key);
        }
        Some((class, shares.into_iter().filter(|held| is_here(held.request)).collect()))
    }

    /// Holds shares that were held for another upstream. Each keeps the time since which it is held.
    pub(super) fn join(&mut self, key: Key, class: SlotClass, shares: Vec<HeldShare>, now: Time) {
        if shares.is_empty() {
            return;
        }
        let hold = self.holds.entry(key).or_insert_with(|| Hold::new(class));
        shares.into_iter().for_each(|held| hold.push(held));
        hold.shares.make_contiguous().sort_by_key(|held| held.since);
        self.queue_or_wait(key, now);
    }
}
