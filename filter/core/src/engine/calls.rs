use hashbrown::HashMap;

use crate::engine::batching::Batch;
use crate::engine::command::CallId;

/// The calls in flight, by number.
#[derive(Debug, Default)]
pub struct Calls {
    open: HashMap<CallId, Purpose>,
    next: u32,
}

/// The purpose of a call.
#[derive(Debug)]
pub enum Purpose {
    /// A bulk request to a node.
    Batch(Batch),
    /// A query of the cluster state.
    StateQuery,
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

    /// Returns the batch of a call in flight.
    pub fn batch(&self, id: CallId) -> Option<&Batch> {
        self.open.get(&id).and_then(Purpose::batch)
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
            Self::StateQuery => None,
        }
    }
}
