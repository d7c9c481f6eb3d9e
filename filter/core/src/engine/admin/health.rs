use std::collections::BTreeMap;

use crate::Time;
use crate::engine::failure::Failure;
use crate::routing::UpstreamId;

/// What became of the last batch to each upstream, as this worker has seen it.
#[derive(Debug, Default)]
pub struct Healths(BTreeMap<UpstreamId, Health>);

/// What became of the last batch to an upstream.
#[derive(Debug, Clone, Copy)]
pub struct Health {
    /// When that was.
    pub at: Time,
    /// Why there was no answer, if there was none.
    pub failure: Option<Failure>,
}

impl Healths {
    /// A batch is over.
    pub fn note(&mut self, upstream: UpstreamId, failure: Option<Failure>, at: Time) {
        self.0.insert(upstream, Health { at, failure });
    }

    /// Of this upstream.
    pub fn of(&self, upstream: UpstreamId) -> Option<Health> {
        self.0.get(&upstream).copied()
    }
}
