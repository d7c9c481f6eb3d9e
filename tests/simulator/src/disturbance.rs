use std::time::Duration;

use bulk_reshuffle::config::{Enabled, RuntimeSettings};
use bulk_reshuffle::engine::Engine;
use bulk_reshuffle::routing::UpstreamId;

use crate::rng::Rng;

/// A change for an engine while it has requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disturbance {
    /// New run-time settings in the cluster.
    Switched(RuntimeSettings),
    /// These upstreams have no node any more, as the engine is told.
    Gone(Vec<UpstreamId>),
}

impl Disturbance {
    pub fn draw(rng: &mut Rng, engine: &Engine) -> Self {
        if rng.percent(50) {
            return Self::Gone(engine.upstreams().ids().filter(|_| rng.percent(40)).collect());
        }
        let on = rng.one_of(&[None, Some(true), Some(false)]);
        Self::Switched(RuntimeSettings {
            enabled: on.filter(|_| rng.percent(50)).map(|on| if on { Enabled::Yes } else { Enabled::No }),
            interval: rng.one_of(&[None, Some(1), Some(50), Some(500)]).map(Duration::from_millis),
            flush_threshold_size: rng.one_of(&[None, Some(1), Some(500)]),
            flush_threshold_docs: rng.one_of(&[None, Some(0), Some(1), Some(20)]),
            early_release: rng.one_of(&[None, Some(true), Some(false)]),
            missing_id: None,
            single_documents: rng.one_of(&[None, None, Some(false)]),
            max_in_flight: rng.one_of(&[None, Some(1), Some(2), Some(50)]),
        })
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Switched(RuntimeSettings { enabled: Some(Enabled::No), .. }) => "switched off",
            Self::Switched(_) => "switched",
            Self::Gone(_) => "told that nodes have gone",
        }
    }

    pub fn happen(self, engine: &mut Engine) {
        match self {
            Self::Switched(settings) => engine.apply_runtime_settings(settings, Vec::new(), false),
            Self::Gone(upstreams) => engine.redirect_from(&upstreams),
        }
    }
}
