use hashbrown::HashMap;

use crate::engine::batching::Batch;
use crate::engine::command::CallId;

/// The calls that are in flight, and how they are numbered.
#[derive(Debug, Default)]
pub struct Calls {
    open: HashMap<CallId, Purpose>,
    next: u32,
}

/// What a call is for.
#[derive(Debug)]
pub enum Purpose {
    /// A bulk request to a node.
    Batch(Batch),
    /// A query about the cluster's state.
    StateQuery,
}

impl Calls {
    /// Begins a call; returns its number.
    pub fn begin(&mut self, purpose: Purpose) -> CallId {
        let id = CallId(self.next);
        self.next = self.next.wrapping_add(1);
        self.open.insert(id, purpose);
        id
    }

    /// Ends a call; returns what it was for, unless it has ended before.
    pub fn end(&mut self, id: CallId) -> Option<Purpose> {
        self.open.remove(&id)
    }

    /// How many have begun so far: another number for each.
    pub fn begun(&self) -> u32 {
        self.next
    }

    /// Whether none is in flight.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The batch of a call that is in flight.
    pub fn batch(&self, id: CallId) -> Option<&Batch> {
        self.open.get(&id).and_then(Purpose::batch)
    }

    /// All batches in flight.
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
