use crate::Time;
use crate::engine::response::Failure;
use crate::routing::UpstreamId;

/// What became of the last batch to each upstream, by its number, as this worker has seen it.
#[derive(Debug, Default)]
pub struct Healths(Vec<Option<Health>>);

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
        let place = upstream.index();
        if self.0.len() <= place {
            self.0.resize(place.saturating_add(1), None);
        }
        if let Some(health) = self.0.get_mut(place) {
            *health = Some(Health { at, failure });
        }
    }

    /// Of this upstream.
    pub fn of(&self, upstream: UpstreamId) -> Option<Health> {
        self.0.get(upstream.index()).copied().flatten()
    }
}
