use hashbrown::HashMap;

use crate::Time;
use crate::engine::batching::Batch;
use crate::engine::command::CallId;
use crate::routing::UpstreamId;

/// The calls in flight, by number.
#[derive(Debug, Default)]
pub struct Calls {
    open: HashMap<CallId, Purpose>,
    next: u32,
    /// The time of the next check for late batches.
    pub check: Option<Time>,
}

/// The purpose of a call.
#[derive(Debug)]
pub enum Purpose {
    /// A bulk request to a node.
    Batch(Batch),
    /// A query of the cluster state.
    StateQuery,
    /// The question which node an upstream leads to.
    UpstreamCheck(UpstreamId),
}

impl Calls {
    /// Begins a call and returns its number.
    pub fn begin(&mut self, purpose: Purpose) -> CallId {
        let id = CallId(self.next);
        self.next = self.next.wrapping_add(1);
        self.open.insert(id, purpose);
        id
    }

    /// Ends a call and returns its purpose, unless it has already ended.
    pub fn end(&mut self, id: CallId) -> Option<Purpose> {
        self.open.remove(&id)
    }

    /// Returns how many calls have begun so far: a different number after each.
    pub fn begun(&self) -> u32 {
        self.next
    }

    /// Returns whether no call is in flight.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the purpose of a call in flight.
    pub fn purpose(&self, id: CallId) -> Option<&Purpose> {
        self.open.get(&id)
    }

    /// Returns the batch of a call in flight.
    pub fn batch(&self, id: CallId) -> Option<&Batch> {
        self.open.get(&id).and_then(Purpose::batch)
    }

    /// Returns a batch in flight, to change it.
    pub fn batch_mut(&mut self, id: CallId) -> Option<&mut Batch> {
        match self.open.get_mut(&id) {
            Some(Purpose::Batch(batch)) => Some(batch),
            _ => None,
        }
    }

    /// Checks for late batches at this time at the latest.
    pub fn check_by(&mut self, at: Time) {
        self.check = Some(self.check.map_or(at, |check| check.min(at)));
    }

    /// Returns the batches that are late now, oldest first, given when each one is. Plans the next check for the others,
    /// at `earliest` or later.
    pub fn late(&mut self, now: Time, earliest: Time, late_at: impl Fn(&Batch) -> Time) -> Vec<CallId> {
        let mut late = Vec::new();
        self.check = None;
        for (id, purpose) in &self.open {
            let Some(batch) = purpose.batch().filter(|batch| !batch.is_late) else { continue };
            match late_at(batch) {
                at if at <= now => late.push(*id),
                at => self.check = Some(self.check.map_or(at, |check| check.min(at)).max(earliest)),
            }
        }
        late.sort_unstable();
        late
    }

    /// Returns all batches in flight.
    pub fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.open.values().filter_map(Purpose::batch)
    }
}

impl Purpose {
    fn batch(&self) -> Option<&Batch> {
        match self {
            Self::Batch(batch) => Some(batch),
            Self::StateQuery | Self::UpstreamCheck(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_in_flight_counts_until_it_ends() {
        let mut calls = Calls::default();
        assert!(calls.is_empty());
        let ids =
            [Purpose::StateQuery, Purpose::UpstreamCheck(UpstreamId::COORDINATOR)].map(|purpose| calls.begin(purpose));
        assert!(!calls.is_empty() && calls.batches().next().is_none());
        assert!(calls.end(ids[0]).is_some() && calls.end(ids[0]).is_none());
        assert!(!calls.is_empty());
        assert!(calls.end(ids[1]).is_some());
        assert!(calls.is_empty());
    }
}
