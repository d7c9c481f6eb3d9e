use std::collections::BTreeMap;

use super::queue::SlotsKey;
use super::slot_limit::{End, Ending};
use super::slow_shards::Apart;
use super::{Batch, Destination, HeldShare, Holds, Key, Scope};
use crate::Time;
use crate::engine::command::RequestId;

/// A share that is held elsewhere now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The request.
    pub request: RequestId,
    /// The number of the share in the request.
    pub share: u16,
    /// Its destination now.
    pub destination: Destination,
}

impl Holds {
    /// Returns the shards that may be slow.
    pub fn apart(&self) -> Apart {
        self.slow.apart()
    }

    /// Returns when a batch in flight is late.
    pub fn late_at(&self, batch: &Batch) -> Time {
        batch.sent.saturating_add(self.slow.patience(SlotsKey::new(batch.upstream, batch.class)))
    }

    /// Notes that a batch in flight is late: suspects its shards, and gives its slot to other batches. At most as many
    /// late batches as an upstream has slots give theirs back.
    ///
    /// Returns the hold that no longer waits for it. [Release](Self::settled) that hold once the shares of all suspects
    /// are [apart](Self::keep_apart).
    pub fn late(&mut self, batch: &mut Batch) -> Option<Key> {
        let slots = SlotsKey::new(batch.upstream, batch.class);
        self.slots.late(slots, batch.class.identity);
        batch.is_late = true;
        let (waits, shards) = (batch.class.waits, batch.shards());
        if batch.scope == Scope::NODE {
            self.slow.suspect(waits, shards);
            return batch.hold.take();
        }
        self.slow.late(waits, shards);
        None
    }

    /// Moves the held shares of suspects to holds of their own, if their requests still exist.
    pub fn keep_apart(&mut self, now: Time, is_here: impl Fn(RequestId) -> bool) -> Vec<Moved> {
        let apart = self.slow.apart();
        let mut keys: Vec<Key> = self.holds.keys().filter(|(to, _)| to.scope == Scope::NODE).copied().collect();
        keys.sort_unstable();
        let mut moved = Vec::new();
        for key in keys {
            let Some(hold) = self.holds.get_mut(&key) else { continue };
            let (class, suspects) = (hold.class, apart.of(hold.class.waits));
            let shares = hold.take_out(|held| held.shards.meets(suspects) && is_here(held.request));
            if shares.is_empty() {
                continue;
            }
            self.some_left(key, now, &is_here);
            let mut by_destination = BTreeMap::<Destination, Vec<HeldShare>>::new();
            for held in shares {
                let destination = key.0.held_apart(held.shards, suspects);
                moved.push(Moved { request: held.request, share: held.share, destination });
                by_destination.entry(destination).or_default().push(held);
            }
            for (destination, shares) in by_destination {
                self.join((destination, key.1), class, shares, now);
            }
        }
        moved
    }

    /// Updates a hold from which some shares were moved. Only shares of requests that are gone may be left. The rest
    /// queues again, because the oldest share, whose age lets a queue entry leave without a slot, may be another now.
    fn some_left(&mut self, key: Key, now: Time, is_here: impl Fn(RequestId) -> bool) {
        self.dequeue(key);
        let Some(hold) = self.holds.get_mut(&key) else { return };
        match hold.drop_gone(is_here) {
            true => self.queue_or_wait(key, now),
            false => self.drop_if_over(key, now),
        }
    }

    /// Notes that a call with a batch has ended, and how. If it is not sent again, it is also
    /// [`settled`](Self::settled). Returns whether the number of the upstream's slots halves.
    pub fn finished(&mut self, batch: &mut Batch, ending: Ending, now: Time) -> bool {
        let slots = SlotsKey::new(batch.upstream, batch.class);
        let (time, waits) = (now.saturating_sub(batch.sent), batch.class.waits);
        if ending == Ending::Answered {
            self.slow.answered(slots, time);
        }
        let was_late = std::mem::take(&mut batch.is_late);
        // A late batch of suspects alone says something about their shards, not about the node.
        let is_about_node = !was_late || batch.scope == Scope::NODE;
        let end = End { sent: batch.sent, now, ending: if is_about_node { ending } else { Ending::Failed } };
        let is_halved = match was_late {
            true => self.slots.late_is_over(slots, batch.class.identity, end),
            false => self.slots.finished(slots, batch.class.identity, end),
        };
        match was_late {
            _ if batch.scope == Scope::NODE => {}
            true => self.slow.late_is_over(waits, batch.shards(), time, now),
            false if ending == Ending::Answered => self.slow.quick(waits, batch.shards(), now),
            false => {}
        }
        is_halved
    }
}
