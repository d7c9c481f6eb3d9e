use crate::Time;
use crate::engine::response::Failure;
use crate::routing::UpstreamId;

/// The outcome of this worker's last batch to each upstream, indexed by the upstream's number.
#[derive(Debug, Default)]
pub struct Healths(Vec<Option<Health>>);

/// The outcome of the last batch to an upstream.
#[derive(Debug, Clone, Copy)]
pub struct Health {
    /// The time of the outcome.
    pub at: Time,
    /// The reason why there was no answer, if there was none.
    pub failure: Option<Failure>,
}

impl Healths {
    /// Records the outcome of a batch.
    pub fn note(&mut self, upstream: UpstreamId, failure: Option<Failure>, at: Time) {
        let place = upstream.index();
        if self.0.len() <= place {
            self.0.resize(place.saturating_add(1), None);
        }
        if let Some(health) = self.0.get_mut(place) {
            *health = Some(Health { at, failure });
        }
    }

    /// Returns the outcome of the last batch to this upstream.
    pub fn of(&self, upstream: UpstreamId) -> Option<Health> {
        self.0.get(upstream.index()).copied().flatten()
    }
}
